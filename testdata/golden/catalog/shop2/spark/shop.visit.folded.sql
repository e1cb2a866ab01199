-- Holds the rows of `shop`.`visit_current` as of the last merge. Fill it by running the merge
-- statement without its marked line.
CREATE TABLE IF NOT EXISTS `shop`.`visit_folded` (
  `url` STRING,
  `at` TIMESTAMP,
  `cdc_position` STRING,
  `cdc_committed_at` TIMESTAMP
)
USING iceberg
LOCATION 's3://lake/wh/shop/visit_folded'
TBLPROPERTIES ('format-version' = '2');
