-- Holds the rows of `tpcc`.`order_line_current` as of the last merge. Fill it by running the merge
-- statement without its marked line.
CREATE TABLE IF NOT EXISTS `tpcc`.`order_line_folded` (
  `ol_o_id` INT,
  `ol_d_id` INT,
  `ol_w_id` INT,
  `ol_number` INT,
  `ol_i_id` INT,
  `ol_supply_w_id` INT,
  `ol_delivery_d` TIMESTAMP_NTZ,
  `ol_quantity` decimal(2,0),
  `ol_amount` decimal(6,2),
  `ol_dist_info` STRING,
  `cdc_position` STRING,
  `cdc_committed_at` TIMESTAMP,
  `cdc_unresolved` STRING
)
USING iceberg
LOCATION 's3://lake/wh/tpcc/order_line_folded'
TBLPROPERTIES ('format-version' = '2');
