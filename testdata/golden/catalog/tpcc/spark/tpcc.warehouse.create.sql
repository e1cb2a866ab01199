CREATE TABLE IF NOT EXISTS `tpcc`.`warehouse` (
  `w_id` INT NOT NULL,
  `w_name` STRING,
  `w_street_1` STRING,
  `w_street_2` STRING,
  `w_city` STRING,
  `w_state` STRING,
  `w_zip` STRING,
  `w_tax` decimal(4,4),
  `w_ytd` decimal(12,2),
  `cdc_position` STRING,
  `cdc_committed_at` TIMESTAMP
)
USING iceberg
LOCATION 's3://lake/wh/tpcc/warehouse'
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

ALTER TABLE `tpcc`.`warehouse` SET IDENTIFIER FIELDS `w_id`;
