CREATE TABLE IF NOT EXISTS `shop`.`order` (
  `id` BIGINT NOT NULL,
  `user` STRING,
  `total` decimal(12,2),
  `currency` STRING,
  `cdc_position` STRING,
  `cdc_committed_at` TIMESTAMP
)
USING iceberg
LOCATION 's3://lake/wh/shop/order'
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

ALTER TABLE `shop`.`order` SET IDENTIFIER FIELDS `id`;
