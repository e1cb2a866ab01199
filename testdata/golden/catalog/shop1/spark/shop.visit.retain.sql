-- Removes rows that no fold needs any more: what a later change, a delete or a
-- reload has replaced. Nothing younger than 90 days goes, so that a record that
-- is late by less finds what it must be compared with; never set fewer days than
-- a record can be late. Views and merges give the same rows before and after.
-- It may be run at any time and be killed at any time; each run can free what
-- the one before made free. The maintenance statements then free the space.
MERGE INTO `shop`.`visit` AS t
USING (
  WITH newest AS (
    SELECT max(substr(c.`cdc_position`, 1, 37)) AS cdc_floor
    FROM `shop`.`visit` AS c
    WHERE substr(c.`cdc_position`, 39, 1) = '0'
  )
  SELECT DISTINCT c.`cdc_position`
  FROM `shop`.`visit` AS c
  CROSS JOIN newest AS n
  WHERE c.`cdc_committed_at` < current_timestamp - INTERVAL '90' DAY
    AND NOT (
    n.cdc_floor IS NULL
    OR (substr(c.`cdc_position`, 39, 1) = '0' AND substr(c.`cdc_position`, 1, 37) = n.cdc_floor)
    OR (NOT substr(c.`cdc_position`, 39, 1) = '0' AND (substr(c.`cdc_position`, 1, 37) > n.cdc_floor OR (substr(c.`cdc_position`, 1, 37) = n.cdc_floor AND substr(c.`cdc_position`, 6, 32) = '00000000000000000000000000000000')))
  )
) AS s
ON t.`cdc_position` = s.`cdc_position`
WHEN MATCHED THEN DELETE;
