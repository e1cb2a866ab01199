-- Holds the rows of "tpcc"."order_line_current" as of the last merge: icehose merge fills it.
CREATE TABLE IF NOT EXISTS `tpcc`.`order_line_folded` (
  `ol_o_id` int,
  `ol_d_id` int,
  `ol_w_id` int,
  `ol_number` int,
  `ol_i_id` int,
  `ol_supply_w_id` int,
  `ol_delivery_d` timestamp,
  `ol_quantity` decimal(2,0),
  `ol_amount` decimal(6,2),
  `ol_dist_info` string,
  `cdc_unresolved` string,
  `cdc_position` string,
  `cdc_committed_at` timestamp
)
LOCATION 's3://lake/wh/tpcc/order_line_folded'
TBLPROPERTIES ('table_type' = 'ICEBERG', 'format' = 'parquet', 'write_compression' = 'zstd');
