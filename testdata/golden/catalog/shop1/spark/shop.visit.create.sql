CREATE TABLE IF NOT EXISTS `shop`.`visit` (
  `url` STRING,
  `at` TIMESTAMP,
  `cdc_position` STRING,
  `cdc_committed_at` TIMESTAMP,
  `cdc_operation` STRING,
  `cdc_old_key` STRING,
  `cdc_absent` STRING
)
USING iceberg
LOCATION 's3://lake/wh/shop/visit'
TBLPROPERTIES (
  'format-version' = '2',
  'write.delete.isolation-level' = 'snapshot',
  'write.delete.mode' = 'merge-on-read',
  'write.merge.isolation-level' = 'snapshot',
  'write.merge.mode' = 'merge-on-read',
  'write.metadata.delete-after-commit.enabled' = 'true',
  'write.metadata.previous-versions-max' = '20',
  'write.parquet.compression-codec' = 'zstd',
  'write.parquet.row-group-limit' = '65536',
  'write.update.mode' = 'merge-on-read'
);
