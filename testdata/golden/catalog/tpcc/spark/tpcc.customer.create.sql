CREATE TABLE IF NOT EXISTS `tpcc`.`customer` (
  `c_id` INT NOT NULL,
  `c_d_id` INT NOT NULL,
  `c_w_id` INT NOT NULL,
  `c_first` STRING,
  `c_middle` STRING,
  `c_last` STRING,
  `c_street_1` STRING,
  `c_street_2` STRING,
  `c_city` STRING,
  `c_state` STRING,
  `c_zip` STRING,
  `c_phone` STRING,
  `c_since` TIMESTAMP_NTZ,
  `c_credit` STRING,
  `c_credit_lim` decimal(12,2),
  `c_discount` decimal(4,4),
  `c_balance` decimal(12,2),
  `c_ytd_payment` decimal(12,2),
  `c_payment_cnt` decimal(4,0),
  `c_delivery_cnt` decimal(4,0),
  `c_data` STRING,
  `cdc_position` STRING,
  `cdc_committed_at` TIMESTAMP,
  `cdc_operation` STRING,
  `cdc_old_key` STRING,
  `cdc_absent` STRING
)
USING iceberg
LOCATION 's3://lake/wh/tpcc/customer'
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

ALTER TABLE `tpcc`.`customer` SET IDENTIFIER FIELDS `c_w_id`, `c_d_id`, `c_id`;
