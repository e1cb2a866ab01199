CREATE TABLE IF NOT EXISTS `shop`.`orders` (
  `id` BIGINT NOT NULL,
  `user` STRING,
  `total` decimal(12,2),
  `cdc_position` STRING,
  `cdc_committed_at` TIMESTAMP
)
USING iceberg
PARTITIONED BY (bucket(8, `id`))
LOCATION 's3://lake/wh/shop/orders'
TBLPROPERTIES (
  'format-version' = '2',
  'write.delete.isolation-level' = 'snapshot',
  'write.delete.mode' = 'copy-on-write',
  'write.merge.mode' = 'copy-on-write',
  'write.metadata.delete-after-commit.enabled' = 'true',
  'write.metadata.previous-versions-max' = '20',
  'write.parquet.compression-codec' = 'zstd',
  'write.parquet.row-group-limit' = '65536',
  'write.update.mode' = 'copy-on-write'
);

ALTER TABLE `shop`.`orders` SET IDENTIFIER FIELDS `id`;
