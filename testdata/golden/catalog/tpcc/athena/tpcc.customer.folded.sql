-- Holds the rows of "tpcc"."customer_current" as of the last merge: icehose merge fills it.
CREATE TABLE IF NOT EXISTS `tpcc`.`customer_folded` (
  `c_id` int,
  `c_d_id` int,
  `c_w_id` int,
  `c_first` string,
  `c_middle` string,
  `c_last` string,
  `c_street_1` string,
  `c_street_2` string,
  `c_city` string,
  `c_state` string,
  `c_zip` string,
  `c_phone` string,
  `c_since` timestamp,
  `c_credit` string,
  `c_credit_lim` decimal(12,2),
  `c_discount` decimal(4,4),
  `c_balance` decimal(12,2),
  `c_ytd_payment` decimal(12,2),
  `c_payment_cnt` decimal(4,0),
  `c_delivery_cnt` decimal(4,0),
  `c_data` string,
  `cdc_unresolved` string,
  `cdc_position` string,
  `cdc_committed_at` timestamp
)
LOCATION 's3://lake/wh/tpcc/customer_folded'
TBLPROPERTIES ('table_type' = 'ICEBERG', 'format' = 'parquet', 'write_compression' = 'zstd');
