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
SELECT
  max(c.`url`) AS `url`,
  max(c.`at`) AS `at`,
  c.`cdc_position` AS `cdc_position`,
  max(c.`cdc_committed_at`) AS `cdc_committed_at`
FROM `shop`.`visit` AS c
CROSS JOIN newest AS n
WHERE c.`cdc_operation` IN ('load', 'insert')
  AND (
  n.cdc_floor IS NULL
  OR (substr(c.`cdc_position`, 39, 1) = '0' AND substr(c.`cdc_position`, 1, 37) = n.cdc_floor)
  OR (NOT substr(c.`cdc_position`, 39, 1) = '0' AND (substr(c.`cdc_position`, 1, 37) > n.cdc_floor OR (substr(c.`cdc_position`, 1, 37) = n.cdc_floor AND substr(c.`cdc_position`, 6, 32) = '00000000000000000000000000000000')))
)
GROUP BY c.`cdc_position`;
