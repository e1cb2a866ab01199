-- Current rows: per key the changes above its last end (a delete, or a key change
-- away from it), per column the latest that carries it. cdc_unresolved lists columns
-- whose value no change of this key carries.
-- Where the catalog has no views, make it a TEMPORARY VIEW, without the database.
CREATE OR REPLACE VIEW `events`.`event_log_current` AS
WITH ended AS (
  SELECT `tenant`, `at`, `tag`, max(`cdc_position`) AS cdc_ended
  FROM (
    SELECT `tenant`, `at`, `tag`, `cdc_position`
    FROM `events`.`event_log`
    WHERE `cdc_operation` = 'delete'
    UNION ALL
    SELECT get_json_object(`cdc_old_key`, '$[0]') AS `tenant`, CAST(get_json_object(`cdc_old_key`, '$[1]') AS TIMESTAMP) AS `at`, unhex(get_json_object(`cdc_old_key`, '$[2]')) AS `tag`, `cdc_position`
    FROM `events`.`event_log`
    WHERE `cdc_old_key` IS NOT NULL AND `cdc_operation` <> 'delete'
  ) AS ends
  GROUP BY `tenant`, `at`, `tag`
),
alive AS (
  SELECT c.*
  FROM `events`.`event_log` AS c
  LEFT JOIN ended AS e ON c.`tenant` = e.`tenant` AND c.`at` = e.`at` AND c.`tag` = e.`tag`
  WHERE c.`cdc_operation` <> 'delete' AND (e.cdc_ended IS NULL OR c.`cdc_position` > e.cdc_ended)
)
SELECT
  `tenant`,
  `at`,
  `tag`,
  max_by(`local_at`, `cdc_position`) AS `local_at`,
  max_by(`clock`, `cdc_position`) AS `clock`,
  max_by(`day`, `cdc_position`) AS `day`,
  max_by(`ok`, `cdc_position`) AS `ok`,
  max_by(`score`, `cdc_position`) AS `score`,
  max_by(`weight`, `cdc_position`) AS `weight`,
  max_by(`body`, `cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'body') OR `cdc_old_key` IS NOT NULL) AS `body`,
  max_by(`digest`, `cdc_position`) AS `digest`,
  max(`cdc_position`) AS `cdc_position`,
  max_by(`cdc_committed_at`, `cdc_position`) AS `cdc_committed_at`,
  nullif(concat_ws(',',
        CASE WHEN coalesce(max_by(array_contains(split(coalesce(`cdc_absent`, ''), ','), 'body'), `cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'body') OR `cdc_old_key` IS NOT NULL), true) THEN 'body' END), '') AS `cdc_unresolved`
FROM alive
GROUP BY `tenant`, `at`, `tag`;
