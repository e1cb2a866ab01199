-- Holds the rows of `tpcc`.`history_current` as of the last merge. Fill it by running the merge
-- statement without its marked line.
CREATE TABLE IF NOT EXISTS `tpcc`.`history_folded` (
  `h_c_id` INT,
  `h_c_d_id` INT,
  `h_c_w_id` INT,
  `h_d_id` INT,
  `h_w_id` INT,
  `h_date` TIMESTAMP_NTZ,
  `h_amount` decimal(6,2),
  `h_data` STRING,
  `cdc_position` STRING,
  `cdc_committed_at` TIMESTAMP
)
USING iceberg
LOCATION 's3://lake/wh/tpcc/history_folded'
TBLPROPERTIES ('format-version' = '2');
