-- A column with a default was added later: null in older rows means the default.
-- Where the catalog has no views, make it a TEMPORARY VIEW, without the database.
CREATE OR REPLACE VIEW `shop`.`orders_current` AS
SELECT
  `id`,
  `user`,
  `total`,
  coalesce(`currency`, 'EUR') AS `currency`,
  `cdc_position`,
  `cdc_committed_at`
FROM `shop`.`orders`;
