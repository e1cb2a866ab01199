CREATE TABLE IF NOT EXISTS `shop`.`customer` (
  `id` INT NOT NULL,
  `since` DATE,
  `note` STRING,
  `cdc_position` STRING,
  `cdc_committed_at` TIMESTAMP
)
USING iceberg
LOCATION 's3://lake/wh/shop/customer'
TBLPROPERTIES (
  'format-version' = '2',
  'write.delete.isolation-level' = 'snapshot',
  'write.delete.mode' = 'merge-on-read',
  'write.merge.mode' = 'merge-on-read',
  'write.metadata.delete-after-commit.enabled' = 'true',
  'write.metadata.previous-versions-max' = '20',
  'write.parquet.compression-codec' = 'zstd',
  'write.parquet.row-group-limit' = '65536',
  'write.update.mode' = 'merge-on-read'
);

ALTER TABLE `shop`.`customer` SET IDENTIFIER FIELDS `id`;
