-- Holds the rows of "tpcc"."history_current" as of the last merge: icehose merge fills it.
CREATE TABLE IF NOT EXISTS `tpcc`.`history_folded` (
  `h_c_id` int,
  `h_c_d_id` int,
  `h_c_w_id` int,
  `h_d_id` int,
  `h_w_id` int,
  `h_date` timestamp,
  `h_amount` decimal(6,2),
  `h_data` string,
  `cdc_position` string,
  `cdc_committed_at` timestamp
)
LOCATION 's3://lake/wh/tpcc/history_folded'
TBLPROPERTIES ('table_type' = 'ICEBERG', 'format' = 'parquet', 'write_compression' = 'zstd');
