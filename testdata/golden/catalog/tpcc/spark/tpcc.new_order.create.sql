CREATE TABLE IF NOT EXISTS `tpcc`.`new_order` (
  `no_o_id` INT NOT NULL,
  `no_d_id` INT NOT NULL,
  `no_w_id` INT NOT NULL,
  `cdc_position` STRING,
  `cdc_committed_at` TIMESTAMP
)
USING iceberg
LOCATION 's3://lake/wh/tpcc/new_order'
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

ALTER TABLE `tpcc`.`new_order` SET IDENTIFIER FIELDS `no_w_id`, `no_d_id`, `no_o_id`;
