-- Holds the rows of "events"."event_log_current" as of the last merge. Fill it by running the merge
-- statement without its marked line.
CREATE TABLE IF NOT EXISTS `events`.`event_log_folded` (
  `tenant` string,
  `at` timestamp,
  `tag` binary,
  `local_at` timestamp,
  `clock` string,
  `day` date,
  `ok` boolean,
  `score` float,
  `weight` double,
  `body` string,
  `digest` binary,
  `cdc_position` string,
  `cdc_committed_at` timestamp,
  `cdc_unresolved` string
)
LOCATION 's3://lake/wh/events/event_log_folded'
TBLPROPERTIES ('table_type' = 'ICEBERG', 'format' = 'parquet', 'write_compression' = 'zstd');
