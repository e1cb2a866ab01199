-- Holds the rows of "shop"."visit_current" as of the last merge: icehose merge fills it.
CREATE TABLE IF NOT EXISTS `shop`.`visit_folded` (
  `url` string,
  `at` timestamp,
  `cdc_position` string,
  `cdc_committed_at` timestamp
)
LOCATION 's3://lake/wh/shop/visit_folded'
TBLPROPERTIES ('table_type' = 'ICEBERG', 'format' = 'parquet', 'write_compression' = 'zstd');
