CREATE TABLE IF NOT EXISTS `tpcc`.`order_line` (
  `ol_o_id` INT NOT NULL,
  `ol_d_id` INT NOT NULL,
  `ol_w_id` INT NOT NULL,
  `ol_number` INT NOT NULL,
  `ol_i_id` INT,
  `ol_supply_w_id` INT,
  `ol_delivery_d` TIMESTAMP_NTZ,
  `ol_quantity` decimal(2,0),
  `ol_amount` decimal(6,2),
  `ol_dist_info` STRING,
  `cdc_position` STRING,
  `cdc_committed_at` TIMESTAMP,
  `cdc_operation` STRING,
  `cdc_old_key` STRING,
  `cdc_absent` STRING
)
USING iceberg
LOCATION 's3://lake/wh/tpcc/order_line'
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

ALTER TABLE `tpcc`.`order_line` SET IDENTIFIER FIELDS `ol_w_id`, `ol_d_id`, `ol_o_id`, `ol_number`;
