CREATE TABLE IF NOT EXISTS `tpcc`.`item` (
  `i_id` INT NOT NULL,
  `i_im_id` INT,
  `i_name` STRING,
  `i_price` decimal(5,2),
  `i_data` STRING,
  `cdc_position` STRING,
  `cdc_committed_at` TIMESTAMP
)
USING iceberg
LOCATION 's3://lake/wh/tpcc/item'
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

ALTER TABLE `tpcc`.`item` SET IDENTIFIER FIELDS `i_id`;
