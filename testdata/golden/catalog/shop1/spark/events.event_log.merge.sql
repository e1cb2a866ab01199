-- Brings the folded table up to date for the keys that changed within the window.
-- Run it without the line marked WINDOW the first time, after a load or a reload,
-- and after deliveries that were late by more than the window.
MERGE INTO `events`.`event_log_folded` AS t
USING (
  WITH recent AS (
    SELECT *
    FROM `events`.`event_log`
    WHERE `cdc_committed_at` >= current_timestamp - INTERVAL '7' DAY -- WINDOW
  ),
  touched AS (
    SELECT `tenant` AS `tenant`, `at` AS `at`, `tag` AS `tag`
    FROM recent
    UNION
    SELECT get_json_object(`cdc_old_key`, '$[0]') AS `tenant`, CAST(get_json_object(`cdc_old_key`, '$[1]') AS TIMESTAMP) AS `at`, unhex(get_json_object(`cdc_old_key`, '$[2]')) AS `tag`
    FROM recent
    WHERE `cdc_old_key` IS NOT NULL AND `cdc_operation` <> 'delete'
  )
  SELECT k.`tenant`, k.`at`, k.`tag`, c.`local_at`, c.`clock`, c.`day`, c.`ok`, c.`score`, c.`weight`, c.`body`, c.`digest`, c.`cdc_position`, c.`cdc_committed_at`, c.`cdc_unresolved`
  FROM touched AS k
  LEFT JOIN `events`.`event_log_current` AS c ON k.`tenant` = c.`tenant` AND k.`at` = c.`at` AND k.`tag` = c.`tag`
) AS s
ON t.`tenant` = s.`tenant` AND t.`at` = s.`at` AND t.`tag` = s.`tag`
WHEN MATCHED AND s.`cdc_position` IS NULL THEN DELETE
WHEN MATCHED THEN UPDATE SET
  `local_at` = s.`local_at`,
  `clock` = s.`clock`,
  `day` = s.`day`,
  `ok` = s.`ok`,
  `score` = s.`score`,
  `weight` = s.`weight`,
  `body` = s.`body`,
  `digest` = s.`digest`,
  `cdc_position` = s.`cdc_position`,
  `cdc_committed_at` = s.`cdc_committed_at`,
  `cdc_unresolved` = s.`cdc_unresolved`
WHEN NOT MATCHED AND s.`cdc_position` IS NOT NULL THEN INSERT (`tenant`, `at`, `tag`, `local_at`, `clock`, `day`, `ok`, `score`, `weight`, `body`, `digest`, `cdc_position`, `cdc_committed_at`, `cdc_unresolved`)
  VALUES (s.`tenant`, s.`at`, s.`tag`, s.`local_at`, s.`clock`, s.`day`, s.`ok`, s.`score`, s.`weight`, s.`body`, s.`digest`, s.`cdc_position`, s.`cdc_committed_at`, s.`cdc_unresolved`);
