CREATE TABLE IF NOT EXISTS `tpcc`.`district` (
  `d_id` INT NOT NULL,
  `d_w_id` INT NOT NULL,
  `d_name` STRING,
  `d_street_1` STRING,
  `d_street_2` STRING,
  `d_city` STRING,
  `d_state` STRING,
  `d_zip` STRING,
  `d_tax` decimal(4,4),
  `d_ytd` decimal(12,2),
  `d_next_o_id` INT,
  `cdc_position` STRING,
  `cdc_committed_at` TIMESTAMP
)
USING iceberg
LOCATION 's3://lake/wh/tpcc/district'
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

ALTER TABLE `tpcc`.`district` SET IDENTIFIER FIELDS `d_w_id`, `d_id`;
