-- Current rows of a table without a key: the newest load and the inserts after it,
-- each once, however often it was delivered. An update or a delete of such a table
-- means nothing, since nothing says of which row it speaks.
-- Where the catalog has no views, make it a TEMPORARY VIEW, without the database.
CREATE OR REPLACE VIEW `shop`.`visit_current` AS
WITH newest AS (
  SELECT max(substr(`cdc_position`, 1, 37)) AS cdc_floor
  FROM `shop`.`visit`
  WHERE substr(`cdc_position`, 39, 1) = '0'
)
SELECT DISTINCT
  `url`,
  `at`,
  `cdc_position` AS `cdc_position`,
  `cdc_committed_at` AS `cdc_committed_at`
FROM `shop`.`visit` AS c
CROSS JOIN newest AS n
WHERE `cdc_operation` IN ('load', 'insert')
  AND (
    n.cdc_floor IS NULL
    OR (substr(`cdc_position`, 39, 1) = '0' AND substr(`cdc_position`, 1, 37) = n.cdc_floor)
    OR (NOT substr(`cdc_position`, 39, 1) = '0' AND (substr(`cdc_position`, 1, 37) > n.cdc_floor OR (substr(`cdc_position`, 1, 37) = n.cdc_floor AND substr(`cdc_position`, 6, 32) = '00000000000000000000000000000000')))
  );
