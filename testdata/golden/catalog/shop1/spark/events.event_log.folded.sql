-- Holds the rows of `events`.`event_log_current` as of the last merge: icehose merge fills it.
CREATE TABLE IF NOT EXISTS `events`.`event_log_folded` (
  `tenant` STRING NOT NULL,
  `at` TIMESTAMP NOT NULL,
  `tag` BINARY NOT NULL,
  `local_at` TIMESTAMP_NTZ,
  `clock` STRING,
  `day` DATE,
  `ok` BOOLEAN,
  `score` FLOAT,
  `weight` DOUBLE,
  `body` STRING,
  `digest` BINARY,
  `cdc_unresolved` STRING,
  `cdc_position` STRING,
  `cdc_committed_at` TIMESTAMP
)
USING iceberg
LOCATION 's3://lake/wh/events/event_log_folded'
TBLPROPERTIES (
  'format-version' = '2',
  'write.delete.isolation-level' = 'snapshot',
  'write.delete.mode' = 'merge-on-read',
  'write.merge.mode' = 'merge-on-read',
  'write.metadata.delete-after-commit.enabled' = 'true',
  'write.metadata.previous-versions-max' = '20',
  'write.parquet.compression-codec' = 'zstd',
  'write.parquet.row-group-limit' = '65536',
  'write.update.mode' = 'merge-on-read'
);
