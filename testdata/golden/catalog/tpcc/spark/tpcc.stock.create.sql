CREATE TABLE IF NOT EXISTS `tpcc`.`stock` (
  `s_i_id` INT NOT NULL,
  `s_w_id` INT NOT NULL,
  `s_quantity` decimal(4,0),
  `s_dist_01` STRING,
  `s_dist_02` STRING,
  `s_dist_03` STRING,
  `s_dist_04` STRING,
  `s_dist_05` STRING,
  `s_dist_06` STRING,
  `s_dist_07` STRING,
  `s_dist_08` STRING,
  `s_dist_09` STRING,
  `s_dist_10` STRING,
  `s_ytd` decimal(8,0),
  `s_order_cnt` decimal(4,0),
  `s_remote_cnt` decimal(4,0),
  `s_data` STRING,
  `cdc_position` STRING,
  `cdc_committed_at` TIMESTAMP
)
USING iceberg
LOCATION 's3://lake/wh/tpcc/stock'
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

ALTER TABLE `tpcc`.`stock` SET IDENTIFIER FIELDS `s_w_id`, `s_i_id`;
