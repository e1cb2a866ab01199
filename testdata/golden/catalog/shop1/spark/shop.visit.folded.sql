-- Holds the rows of `shop`.`visit_current` as of the last merge: icehose merge fills it.
CREATE TABLE IF NOT EXISTS `shop`.`visit_folded` (
  `url` STRING,
  `at` TIMESTAMP,
  `cdc_position` STRING NOT NULL,
  `cdc_committed_at` TIMESTAMP
)
USING iceberg
LOCATION 's3://lake/wh/shop/visit_folded'
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
