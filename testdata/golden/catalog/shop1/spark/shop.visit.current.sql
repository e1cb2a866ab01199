-- Current rows of a table without a key: the newest load and the inserts after it,
-- each once, however often it was delivered. An update or a delete of such a table
-- means nothing, since nothing says of which row it speaks.
-- Where the catalog has no views, make it a TEMPORARY VIEW, without the database.
CREATE OR REPLACE VIEW `shop`.`visit_current` AS
WITH newest AS (
  SELECT max(substr(c.`cdc_position`, 1, 37)) AS cdc_floor
  FROM `shop`.`visit` AS c
  WHERE substr(c.`cdc_position`, 39, 1) = '0'
)
SELECT r.`url`, r.`at`, r.`cdc_position`, r.`cdc_committed_at`
FROM (
SELECT
  c.`url` AS `url`,
  c.`at` AS `at`,
  c.`cdc_position` AS `cdc_position`,
  c.`cdc_committed_at` AS `cdc_committed_at`,
  row_number() OVER (PARTITION BY c.`cdc_position` ORDER BY c.`cdc_committed_at`, c.`url`, c.`at`) AS cdc_copy
FROM `shop`.`visit` AS c
CROSS JOIN newest AS n
WHERE c.`cdc_operation` IN ('load', 'insert')
  AND (
  n.cdc_floor IS NULL
  OR (substr(c.`cdc_position`, 39, 1) = '0' AND substr(c.`cdc_position`, 1, 37) = n.cdc_floor)
  OR (NOT substr(c.`cdc_position`, 39, 1) = '0' AND (substr(c.`cdc_position`, 1, 37) > n.cdc_floor OR (substr(c.`cdc_position`, 1, 37) = n.cdc_floor AND substr(c.`cdc_position`, 6, 32) = '00000000000000000000000000000000')))
)
) AS r
WHERE r.cdc_copy = 1;
