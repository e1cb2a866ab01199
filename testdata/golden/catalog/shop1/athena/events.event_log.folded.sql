-- Holds the rows of "events"."event_log_current" as of the last merge: icehose merge fills it.
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
  `cdc_unresolved` string,
  `cdc_position` string,
  `cdc_committed_at` timestamp
)
LOCATION 's3://lake/wh/events/event_log_folded'
TBLPROPERTIES ('table_type' = 'ICEBERG', 'format' = 'parquet', 'write_compression' = 'zstd');
