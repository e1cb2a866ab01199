-- A column with a default was added later: null in older rows means the default.
-- Where the catalog has no views, make it a TEMPORARY VIEW, without the database.
CREATE OR REPLACE VIEW `shop`.`customer_current` AS
SELECT
  `id`,
  coalesce(`since`, CAST('2020-02-29' AS DATE)) AS `since`,
  coalesce(`note`, 'it\'s a \\') AS `note`,
  `cdc_position`,
  `cdc_committed_at`
FROM `shop`.`customer`;
