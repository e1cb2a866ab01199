-- Every row that there ever was, from cdc_position on and until cdc_valid_to_position,
-- which is null for current rows. The times are those at which the source committed:
-- of a load those in loads: of the pipeline file, and of a repair that of its reading.
-- Without cdc_valid_from a row was there from the beginning, as those of a first load.
-- A row that a change with an earlier time, or none, has replaced was there at no time.
-- The rows as of a position, or of a time:
--   SELECT * FROM `shop`.`visit_history`
--   WHERE `cdc_position` <= 'POSITION' AND (`cdc_valid_to_position` IS NULL OR `cdc_valid_to_position` > 'POSITION')
--   SELECT * FROM `shop`.`visit_history`
--   WHERE (`cdc_valid_from` IS NULL OR `cdc_valid_from` <= TIMESTAMP 'YYYY-MM-DD HH:MM:SSZ') AND (`cdc_valid_to_position` IS NULL OR `cdc_valid_to` > TIMESTAMP 'YYYY-MM-DD HH:MM:SSZ')
-- Where the catalog has no views, make it a TEMPORARY VIEW, without the database.
CREATE OR REPLACE VIEW `shop`.`visit_history` AS
WITH floors AS (
  SELECT substr(c.`cdc_position`, 1, 37) AS cdc_floor, min(c.`cdc_position`) AS cdc_first, CASE WHEN count(*) = count(coalesce(c.`cdc_committed_at`, CASE WHEN NOT (substr(c.`cdc_position`, 39, 1) = '0') OR substr(c.`cdc_position`, 6, 32) = '00000000000000000000000000000000' THEN NULL ELSE timestamp_micros(CAST(conv(substr(c.`cdc_position`, 41, 14), 16, 10) AS BIGINT)) END)) THEN min(coalesce(c.`cdc_committed_at`, CASE WHEN NOT (substr(c.`cdc_position`, 39, 1) = '0') OR substr(c.`cdc_position`, 6, 32) = '00000000000000000000000000000000' THEN NULL ELSE timestamp_micros(CAST(conv(substr(c.`cdc_position`, 41, 14), 16, 10) AS BIGINT)) END)) END AS cdc_time
  FROM `shop`.`visit` AS c
  WHERE substr(c.`cdc_position`, 39, 1) = '0'
  GROUP BY substr(c.`cdc_position`, 1, 37)
  UNION ALL
  SELECT '', CAST(NULL AS STRING), CAST(NULL AS TIMESTAMP)
),
spans AS (
  SELECT f.cdc_floor, lead(f.cdc_floor) OVER (ORDER BY f.cdc_floor) AS cdc_next,
    lead(f.cdc_first) OVER (ORDER BY f.cdc_floor) AS `cdc_valid_to_position`,
    CASE WHEN count(*) OVER (ORDER BY f.cdc_floor DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) = count(f.cdc_time) OVER (ORDER BY f.cdc_floor DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) THEN min(f.cdc_time) OVER (ORDER BY f.cdc_floor DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) END AS `cdc_valid_to`
  FROM floors AS f
),
events AS (
  SELECT
    max(c.`url`) AS `url`,
    max(c.`at`) AS `at`,
    c.`cdc_position`, max(coalesce(c.`cdc_committed_at`, CASE WHEN NOT (substr(c.`cdc_position`, 39, 1) = '0') OR substr(c.`cdc_position`, 6, 32) = '00000000000000000000000000000000' THEN NULL ELSE timestamp_micros(CAST(conv(substr(c.`cdc_position`, 41, 14), 16, 10) AS BIGINT)) END)) AS cdc_time
  FROM `shop`.`visit` AS c
  WHERE c.`cdc_operation` IN ('load', 'insert')
  GROUP BY c.`cdc_position`
)
SELECT c.`url`, c.`at`, c.`cdc_position`, c.cdc_time AS `cdc_valid_from`, s.`cdc_valid_to_position`, s.`cdc_valid_to` AS `cdc_valid_to`
FROM events AS c
JOIN spans AS s ON (substr(c.`cdc_position`, 39, 1) = '0' AND substr(c.`cdc_position`, 1, 37) = s.cdc_floor) OR (NOT substr(c.`cdc_position`, 39, 1) = '0'
  AND (substr(c.`cdc_position`, 1, 37) > s.cdc_floor OR (substr(c.`cdc_position`, 1, 37) = s.cdc_floor AND substr(c.`cdc_position`, 6, 32) = '00000000000000000000000000000000'))
  AND (s.cdc_next IS NULL OR substr(c.`cdc_position`, 1, 37) < s.cdc_next OR (substr(c.`cdc_position`, 1, 37) = s.cdc_next AND NOT substr(c.`cdc_position`, 6, 32) = '00000000000000000000000000000000')));
