-- A column with a default was added later: null in older rows means the default.
-- Current rows: per key the changes above its last end (a delete, or a key change
-- away from it), per column the latest that carries it. cdc_unresolved lists columns
-- whose value the changelog does not give.
-- Where the catalog has no views, make it a TEMPORARY VIEW, without the database.
CREATE OR REPLACE VIEW `events`.`event_log_current` AS
WITH ends AS (
  SELECT c.`tenant` AS `tenant`, c.`at` AS `at`, c.`tag` AS `tag`, c.`cdc_position` AS cdc_end
  FROM `events`.`event_log` AS c
  WHERE c.`cdc_operation` = 'delete'
  UNION ALL
  SELECT get_json_object(c.`cdc_old_key`, '$[0]') AS `tenant`, CAST(get_json_object(c.`cdc_old_key`, '$[1]') AS TIMESTAMP) AS `at`, unhex(get_json_object(c.`cdc_old_key`, '$[2]')) AS `tag`, c.`cdc_position`
  FROM `events`.`event_log` AS c
  WHERE c.`cdc_old_key` IS NOT NULL AND c.`cdc_operation` <> 'delete'
    AND (get_json_object(c.`cdc_old_key`, '$[0]') <> c.`tenant` OR CAST(get_json_object(c.`cdc_old_key`, '$[1]') AS TIMESTAMP) <> c.`at` OR unhex(get_json_object(c.`cdc_old_key`, '$[2]')) <> c.`tag`)
),
ended AS (
  SELECT e.`tenant`, e.`at`, e.`tag`, max(e.cdc_end) AS cdc_ended
  FROM ends AS e
  GROUP BY e.`tenant`, e.`at`, e.`tag`
),
latest AS (
  SELECT c.`tenant` AS `tenant`, c.`at` AS `at`, c.`tag` AS `tag`,
    max_by(c.`local_at`, c.`cdc_position`) AS `local_at`,
    max_by(c.`clock`, c.`cdc_position`) AS `clock`,
    max_by(c.`day`, c.`cdc_position`) AS `day`,
    max_by(c.`ok`, c.`cdc_position`) AS `ok`,
    max_by(c.`score`, c.`cdc_position`) AS `score`,
    max_by(c.`weight`, c.`cdc_position`) AS `weight`,
    max_by(c.`tries`, c.`cdc_position`) AS `tries`,
    max_by(c.`digest`, c.`cdc_position`) AS `digest`,
    max_by(c.`body`, c.`cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'body') OR c.`cdc_old_key` IS NOT NULL) AS `body`,
    coalesce(max_by(array_contains(split(coalesce(`cdc_absent`, ''), ','), 'body'), c.`cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'body') OR c.`cdc_old_key` IS NOT NULL), true) AS cdc_unknown_9,
    max_by(c.`lang`, c.`cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'lang') OR c.`cdc_old_key` IS NOT NULL) AS `lang`,
    coalesce(max_by(array_contains(split(coalesce(`cdc_absent`, ''), ','), 'lang'), c.`cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'lang') OR c.`cdc_old_key` IS NOT NULL), true) AS cdc_unknown_11,
    max(c.`cdc_position`) FILTER (WHERE c.`cdc_old_key` IS NOT NULL) AS cdc_moved,
    max_by(c.`cdc_old_key`, c.`cdc_position`) FILTER (WHERE c.`cdc_old_key` IS NOT NULL) AS cdc_moved_key,
    max(c.`cdc_position`) AS `cdc_position`,
    max_by(c.`cdc_committed_at`, c.`cdc_position`) AS `cdc_committed_at`
  FROM `events`.`event_log` AS c
  LEFT JOIN ended AS e ON c.`tenant` = e.`tenant` AND c.`at` = e.`at` AND c.`tag` = e.`tag`
  WHERE c.`cdc_operation` <> 'delete' AND (e.cdc_ended IS NULL OR c.`cdc_position` > e.cdc_ended)
  GROUP BY c.`tenant`, c.`at`, c.`tag`
),
hop1 AS (
  SELECT p.`tenant`, p.`at`, p.`tag`, get_json_object(p.cdc_moved_key, '$[0]') AS cdc_old_0, CAST(get_json_object(p.cdc_moved_key, '$[1]') AS TIMESTAMP) AS cdc_old_1, unhex(get_json_object(p.cdc_moved_key, '$[2]')) AS cdc_old_2, p.cdc_moved
  FROM latest AS p
  WHERE p.cdc_moved IS NOT NULL AND (p.cdc_unknown_9 OR p.cdc_unknown_11)
),
ended1 AS (
  SELECT h.`tenant`, h.`at`, h.`tag`, max(e.cdc_end) AS cdc_ended
  FROM hop1 AS h
  JOIN ends AS e ON e.`tenant` = h.cdc_old_0 AND e.`at` = h.cdc_old_1 AND e.`tag` = h.cdc_old_2 AND e.cdc_end < h.cdc_moved
  GROUP BY h.`tenant`, h.`at`, h.`tag`
),
before1 AS (
  SELECT h.`tenant`, h.`at`, h.`tag`,
    max_by(c.`body`, c.`cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'body') OR c.`cdc_old_key` IS NOT NULL) AS `body`,
    coalesce(max_by(array_contains(split(coalesce(`cdc_absent`, ''), ','), 'body'), c.`cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'body') OR c.`cdc_old_key` IS NOT NULL), true) AS cdc_unknown_9,
    max_by(c.`lang`, c.`cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'lang') OR c.`cdc_old_key` IS NOT NULL) AS `lang`,
    coalesce(max_by(array_contains(split(coalesce(`cdc_absent`, ''), ','), 'lang'), c.`cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'lang') OR c.`cdc_old_key` IS NOT NULL), true) AS cdc_unknown_11,
    max(c.`cdc_position`) FILTER (WHERE c.`cdc_old_key` IS NOT NULL) AS cdc_moved,
    max_by(c.`cdc_old_key`, c.`cdc_position`) FILTER (WHERE c.`cdc_old_key` IS NOT NULL) AS cdc_moved_key
  FROM hop1 AS h
  JOIN `events`.`event_log` AS c ON c.`tenant` = h.cdc_old_0 AND c.`at` = h.cdc_old_1 AND c.`tag` = h.cdc_old_2 AND c.`cdc_position` < h.cdc_moved
  LEFT JOIN ended1 AS e ON h.`tenant` = e.`tenant` AND h.`at` = e.`at` AND h.`tag` = e.`tag`
  WHERE c.`cdc_operation` <> 'delete' AND (e.cdc_ended IS NULL OR c.`cdc_position` > e.cdc_ended)
  GROUP BY h.`tenant`, h.`at`, h.`tag`
)
SELECT
  l.`tenant`,
  l.`at`,
  l.`tag`,
  l.`local_at` AS `local_at`,
  l.`clock` AS `clock`,
  l.`day` AS `day`,
  l.`ok` AS `ok`,
  l.`score` AS `score`,
  l.`weight` AS `weight`,
  CASE WHEN NOT l.cdc_unknown_9 THEN l.`body` WHEN NOT b1.cdc_unknown_9 THEN b1.`body` END AS `body`,
  coalesce(l.`tries`, CAST('0' AS INT)) AS `tries`,
  CASE WHEN NOT l.cdc_unknown_11 THEN coalesce(l.`lang`, 'en') WHEN NOT b1.cdc_unknown_11 THEN coalesce(b1.`lang`, 'en') END AS `lang`,
  l.`digest` AS `digest`,
  nullif(concat_ws(',',
        CASE WHEN coalesce(l.cdc_unknown_9, true) AND coalesce(b1.cdc_unknown_9, true) THEN 'body' END,
        CASE WHEN coalesce(l.cdc_unknown_11, true) AND coalesce(b1.cdc_unknown_11, true) THEN 'lang' END), '') AS `cdc_unresolved`,
  l.`cdc_position` AS `cdc_position`,
  l.`cdc_committed_at` AS `cdc_committed_at`
FROM latest AS l
LEFT JOIN before1 AS b1 ON l.`tenant` = b1.`tenant` AND l.`at` = b1.`at` AND l.`tag` = b1.`tag`;
