CREATE TABLE IF NOT EXISTS `tpcc`.`history` (
  `h_c_id` INT,
  `h_c_d_id` INT,
  `h_c_w_id` INT,
  `h_d_id` INT,
  `h_w_id` INT,
  `h_date` TIMESTAMP_NTZ,
  `h_amount` decimal(6,2),
  `h_data` STRING,
  `cdc_position` STRING,
  `cdc_committed_at` TIMESTAMP,
  `cdc_operation` STRING,
  `cdc_old_key` STRING,
  `cdc_absent` STRING
)
USING iceberg
LOCATION 's3://lake/wh/tpcc/history'
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
