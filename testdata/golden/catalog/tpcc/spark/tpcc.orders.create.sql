CREATE TABLE IF NOT EXISTS `tpcc`.`orders` (
  `o_id` INT NOT NULL,
  `o_d_id` INT NOT NULL,
  `o_w_id` INT NOT NULL,
  `o_c_id` INT,
  `o_entry_d` TIMESTAMP_NTZ,
  `o_carrier_id` INT,
  `o_ol_cnt` decimal(2,0),
  `o_all_local` decimal(1,0),
  `cdc_position` STRING,
  `cdc_committed_at` TIMESTAMP
)
USING iceberg
LOCATION 's3://lake/wh/tpcc/orders'
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

ALTER TABLE `tpcc`.`orders` SET IDENTIFIER FIELDS `o_w_id`, `o_d_id`, `o_id`;
