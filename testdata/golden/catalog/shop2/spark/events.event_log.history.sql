-- Every row that a key ever had, from cdc_position on and until cdc_valid_to_position,
-- which is null for current rows. The times are those at which the source committed.
-- The rows as of a position, or of a time:
--   SELECT * FROM `events`.`event_log_history`
--   WHERE `cdc_position` <= 'POSITION' AND (`cdc_valid_to_position` IS NULL OR `cdc_valid_to_position` > 'POSITION')
--   SELECT * FROM `events`.`event_log_history`
--   WHERE `cdc_valid_from` <= TIMESTAMP 'YYYY-MM-DD HH:MM:SSZ' AND (`cdc_valid_to` IS NULL OR `cdc_valid_to` > TIMESTAMP 'YYYY-MM-DD HH:MM:SSZ')
-- Where the catalog has no views, make it a TEMPORARY VIEW, without the database.
CREATE OR REPLACE VIEW `events`.`event_log_history` AS
WITH events AS (
  SELECT c.`tenant` AS `tenant`, c.`at` AS `at`, c.`tag` AS `tag`, c.`local_at`, c.`clock`, c.`day`, c.`ok`, c.`score`, c.`weight`, c.`body`, c.`tries`, c.`lang`, c.`digest`, c.`cdc_position`, c.`cdc_committed_at`, c.`cdc_operation`, c.`cdc_absent`, c.`cdc_old_key`
  FROM `events`.`event_log` AS c
  UNION ALL
  SELECT get_json_object(c.`cdc_old_key`, '$[0]') AS `tenant`, CAST(get_json_object(c.`cdc_old_key`, '$[1]') AS TIMESTAMP) AS `at`, unhex(get_json_object(c.`cdc_old_key`, '$[2]')) AS `tag`, CAST(NULL AS TIMESTAMP_NTZ), CAST(NULL AS STRING), CAST(NULL AS DATE), CAST(NULL AS BOOLEAN), CAST(NULL AS FLOAT), CAST(NULL AS DOUBLE), CAST(NULL AS STRING), CAST(NULL AS INT), CAST(NULL AS STRING), CAST(NULL AS BINARY), c.`cdc_position`, c.`cdc_committed_at`, 'moved', CAST(NULL AS STRING), CAST(NULL AS STRING)
  FROM `events`.`event_log` AS c
  WHERE c.`cdc_old_key` IS NOT NULL AND c.`cdc_operation` <> 'delete'
    AND (get_json_object(c.`cdc_old_key`, '$[0]') <> c.`tenant` OR CAST(get_json_object(c.`cdc_old_key`, '$[1]') AS TIMESTAMP) <> c.`at` OR unhex(get_json_object(c.`cdc_old_key`, '$[2]')) <> c.`tag`)
),
once AS (
  SELECT c.*, row_number() OVER (PARTITION BY c.`tenant`, c.`at`, c.`tag`, c.`cdc_position` ORDER BY c.`cdc_operation`) AS cdc_copy
  FROM events AS c
),
lives AS (
  SELECT c.*,
    lead(c.`cdc_position`) OVER (PARTITION BY c.`tenant`, c.`at`, c.`tag` ORDER BY c.`cdc_position`) AS `cdc_valid_to_position`,
    lead(c.`cdc_committed_at`) OVER (PARTITION BY c.`tenant`, c.`at`, c.`tag` ORDER BY c.`cdc_position`) AS `cdc_valid_to`,
    count(CASE WHEN c.`cdc_operation` IN ('delete', 'moved') OR c.`cdc_old_key` IS NOT NULL THEN 1 END) OVER (PARTITION BY c.`tenant`, c.`at`, c.`tag` ORDER BY c.`cdc_position` ROWS UNBOUNDED PRECEDING) AS cdc_life
  FROM once AS c
  WHERE c.cdc_copy = 1
),
resolved AS (
  SELECT
    c.`tenant`,
    c.`at`,
    c.`tag`,
    c.`local_at` AS `local_at`,
    c.`clock` AS `clock`,
    c.`day` AS `day`,
    c.`ok` AS `ok`,
    c.`score` AS `score`,
    c.`weight` AS `weight`,
    element_at(last_value(CASE WHEN c.`cdc_operation` NOT IN ('delete', 'moved') AND NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'body') THEN array(c.`body`) END) IGNORE NULLS OVER (PARTITION BY c.`tenant`, c.`at`, c.`tag`, c.cdc_life ORDER BY c.`cdc_position` ROWS UNBOUNDED PRECEDING), 1) AS `body`,
    coalesce(c.`tries`, CAST('0' AS INT)) AS `tries`,
    CASE WHEN last_value(CASE WHEN c.`cdc_operation` NOT IN ('delete', 'moved') AND NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'lang') THEN array(c.`lang`) END) IGNORE NULLS OVER (PARTITION BY c.`tenant`, c.`at`, c.`tag`, c.cdc_life ORDER BY c.`cdc_position` ROWS UNBOUNDED PRECEDING) IS NOT NULL THEN coalesce(element_at(last_value(CASE WHEN c.`cdc_operation` NOT IN ('delete', 'moved') AND NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'lang') THEN array(c.`lang`) END) IGNORE NULLS OVER (PARTITION BY c.`tenant`, c.`at`, c.`tag`, c.cdc_life ORDER BY c.`cdc_position` ROWS UNBOUNDED PRECEDING), 1), 'en') END AS `lang`,
    c.`digest` AS `digest`,
    nullif(concat_ws(',',
          CASE WHEN last_value(CASE WHEN c.`cdc_operation` NOT IN ('delete', 'moved') AND NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'body') THEN array(c.`body`) END) IGNORE NULLS OVER (PARTITION BY c.`tenant`, c.`at`, c.`tag`, c.cdc_life ORDER BY c.`cdc_position` ROWS UNBOUNDED PRECEDING) IS NULL THEN 'body' END,
          CASE WHEN last_value(CASE WHEN c.`cdc_operation` NOT IN ('delete', 'moved') AND NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'lang') THEN array(c.`lang`) END) IGNORE NULLS OVER (PARTITION BY c.`tenant`, c.`at`, c.`tag`, c.cdc_life ORDER BY c.`cdc_position` ROWS UNBOUNDED PRECEDING) IS NULL THEN 'lang' END), '') AS `cdc_unresolved`,
    c.`cdc_operation`,
    c.`cdc_position`,
    c.`cdc_committed_at` AS `cdc_valid_from`,
    c.`cdc_valid_to_position` AS `cdc_valid_to_position`,
    c.`cdc_valid_to` AS `cdc_valid_to`
  FROM lives AS c
)
SELECT `tenant`, `at`, `tag`, `local_at`, `clock`, `day`, `ok`, `score`, `weight`, `body`, `tries`, `lang`, `digest`, `cdc_unresolved`, `cdc_position`, `cdc_valid_from`, `cdc_valid_to_position`, `cdc_valid_to`
FROM resolved
WHERE `cdc_operation` NOT IN ('delete', 'moved');
