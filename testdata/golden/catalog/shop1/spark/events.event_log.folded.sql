-- Holds the rows of `events`.`event_log_current` as of the last merge. Fill it by running the merge
-- statement without its marked line.
CREATE TABLE IF NOT EXISTS `events`.`event_log_folded` (
  `tenant` STRING,
  `at` TIMESTAMP,
  `tag` BINARY,
  `local_at` TIMESTAMP_NTZ,
  `clock` STRING,
  `day` DATE,
  `ok` BOOLEAN,
  `score` FLOAT,
  `weight` DOUBLE,
  `body` STRING,
  `digest` BINARY,
  `cdc_position` STRING,
  `cdc_committed_at` TIMESTAMP,
  `cdc_unresolved` STRING
)
USING iceberg
LOCATION 's3://lake/wh/events/event_log_folded'
TBLPROPERTIES ('format-version' = '2');
