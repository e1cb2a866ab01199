-- Removes rows that no fold needs any more: what a change, a delete or a load has
-- replaced more than 90 days ago, loaded rows too. So the history of the last 90
-- days stays whole, and a record that is late by less finds what it must be
-- compared with; never set fewer days than a record can be late. Views and merges
-- give the same rows before and after. No merge of this table may run beside. It
-- may be killed at any time; each run can free what the one before made free. The
-- maintenance statements then free the space.
-- A delete stays as long as the current table has a row that it is still to remove.
-- Who never merges creates that table all the same, empty: events.event_log.folded.sql.
MERGE INTO `events`.`event_log` AS t
USING (
  WITH bars AS (
    SELECT b.`tenant`, b.`at`, b.`tag`, max(b.cdc_end) AS cdc_bar
    FROM (
      SELECT c.`tenant` AS `tenant`, c.`at` AS `at`, c.`tag` AS `tag`, c.`cdc_position` AS cdc_end
      FROM `events`.`event_log` AS c
      WHERE c.`cdc_operation` = 'delete'
        AND coalesce(c.`cdc_committed_at`, CASE WHEN NOT (substr(c.`cdc_position`, 39, 1) = '0') OR substr(c.`cdc_position`, 6, 32) = '00000000000000000000000000000000' THEN NULL ELSE timestamp_micros(CAST(conv(substr(c.`cdc_position`, 41, 14), 16, 10) AS BIGINT)) END) < current_timestamp - INTERVAL '90' DAY
      UNION ALL
      SELECT get_json_object(c.`cdc_old_key`, '$[0]') AS `tenant`, CAST(get_json_object(c.`cdc_old_key`, '$[1]') AS TIMESTAMP) AS `at`, unhex(get_json_object(c.`cdc_old_key`, '$[2]')) AS `tag`, c.`cdc_position` AS cdc_end
      FROM `events`.`event_log` AS c
      WHERE c.`cdc_old_key` IS NOT NULL AND c.`cdc_operation` <> 'delete'
        AND (get_json_object(c.`cdc_old_key`, '$[0]') <> c.`tenant` OR CAST(get_json_object(c.`cdc_old_key`, '$[1]') AS TIMESTAMP) <> c.`at` OR unhex(get_json_object(c.`cdc_old_key`, '$[2]')) <> c.`tag`)
        AND coalesce(c.`cdc_committed_at`, CASE WHEN NOT (substr(c.`cdc_position`, 39, 1) = '0') OR substr(c.`cdc_position`, 6, 32) = '00000000000000000000000000000000' THEN NULL ELSE timestamp_micros(CAST(conv(substr(c.`cdc_position`, 41, 14), 16, 10) AS BIGINT)) END) < current_timestamp - INTERVAL '90' DAY
      UNION ALL
      SELECT c.`tenant` AS `tenant`, c.`at` AS `at`, c.`tag` AS `tag`, c.`cdc_position` AS cdc_end
      FROM `events`.`event_log` AS c
      WHERE c.`cdc_operation` <> 'delete' AND c.`cdc_absent` IS NULL
        AND coalesce(c.`cdc_committed_at`, CASE WHEN NOT (substr(c.`cdc_position`, 39, 1) = '0') OR substr(c.`cdc_position`, 6, 32) = '00000000000000000000000000000000' THEN NULL ELSE timestamp_micros(CAST(conv(substr(c.`cdc_position`, 41, 14), 16, 10) AS BIGINT)) END) < current_timestamp - INTERVAL '90' DAY
    ) AS b
    GROUP BY b.`tenant`, b.`at`, b.`tag`
  ),
  sources AS (
    SELECT DISTINCT get_json_object(c.`cdc_old_key`, '$[0]') AS `tenant`, CAST(get_json_object(c.`cdc_old_key`, '$[1]') AS TIMESTAMP) AS `at`, unhex(get_json_object(c.`cdc_old_key`, '$[2]')) AS `tag`
    FROM `events`.`event_log` AS c
    WHERE c.`cdc_old_key` IS NOT NULL AND c.`cdc_operation` <> 'delete' AND c.`cdc_absent` IS NOT NULL
  )
  SELECT DISTINCT c.`tenant` AS `tenant`, c.`at` AS `at`, c.`tag` AS `tag`, c.`cdc_position`
  FROM `events`.`event_log` AS c
  JOIN bars AS b ON c.`tenant` = b.`tenant` AND c.`at` = b.`at` AND c.`tag` = b.`tag`
  WHERE c.`cdc_operation` <> 'delete' AND c.`cdc_old_key` IS NULL
    AND c.`cdc_position` < b.cdc_bar AND NOT coalesce(coalesce(c.`cdc_committed_at`, CASE WHEN NOT (substr(c.`cdc_position`, 39, 1) = '0') OR substr(c.`cdc_position`, 6, 32) = '00000000000000000000000000000000' THEN NULL ELSE timestamp_micros(CAST(conv(substr(c.`cdc_position`, 41, 14), 16, 10) AS BIGINT)) END) >= current_timestamp - INTERVAL '90' DAY, false)
    AND NOT EXISTS (SELECT 1 FROM sources AS p WHERE c.`tenant` = p.`tenant` AND c.`at` = p.`at` AND c.`tag` = p.`tag`)
) AS s
ON t.`tenant` = s.`tenant` AND t.`at` = s.`at` AND t.`tag` = s.`tag` AND t.`cdc_position` = s.`cdc_position` AND NOT (t.`cdc_operation` = 'delete' OR t.`cdc_old_key` IS NOT NULL)
WHEN MATCHED THEN DELETE;

MERGE INTO `events`.`event_log` AS t
USING (
  WITH bars AS (
    SELECT b.`tenant`, b.`at`, b.`tag`, max(b.cdc_end) AS cdc_bar
    FROM (
      SELECT c.`tenant` AS `tenant`, c.`at` AS `at`, c.`tag` AS `tag`, c.`cdc_position` AS cdc_end
      FROM `events`.`event_log` AS c
      WHERE c.`cdc_operation` = 'delete'
        AND coalesce(c.`cdc_committed_at`, CASE WHEN NOT (substr(c.`cdc_position`, 39, 1) = '0') OR substr(c.`cdc_position`, 6, 32) = '00000000000000000000000000000000' THEN NULL ELSE timestamp_micros(CAST(conv(substr(c.`cdc_position`, 41, 14), 16, 10) AS BIGINT)) END) < current_timestamp - INTERVAL '90' DAY
      UNION ALL
      SELECT get_json_object(c.`cdc_old_key`, '$[0]') AS `tenant`, CAST(get_json_object(c.`cdc_old_key`, '$[1]') AS TIMESTAMP) AS `at`, unhex(get_json_object(c.`cdc_old_key`, '$[2]')) AS `tag`, c.`cdc_position` AS cdc_end
      FROM `events`.`event_log` AS c
      WHERE c.`cdc_old_key` IS NOT NULL AND c.`cdc_operation` <> 'delete'
        AND (get_json_object(c.`cdc_old_key`, '$[0]') <> c.`tenant` OR CAST(get_json_object(c.`cdc_old_key`, '$[1]') AS TIMESTAMP) <> c.`at` OR unhex(get_json_object(c.`cdc_old_key`, '$[2]')) <> c.`tag`)
        AND coalesce(c.`cdc_committed_at`, CASE WHEN NOT (substr(c.`cdc_position`, 39, 1) = '0') OR substr(c.`cdc_position`, 6, 32) = '00000000000000000000000000000000' THEN NULL ELSE timestamp_micros(CAST(conv(substr(c.`cdc_position`, 41, 14), 16, 10) AS BIGINT)) END) < current_timestamp - INTERVAL '90' DAY
      UNION ALL
      SELECT c.`tenant` AS `tenant`, c.`at` AS `at`, c.`tag` AS `tag`, c.`cdc_position` AS cdc_end
      FROM `events`.`event_log` AS c
      WHERE c.`cdc_operation` <> 'delete' AND c.`cdc_absent` IS NULL
        AND coalesce(c.`cdc_committed_at`, CASE WHEN NOT (substr(c.`cdc_position`, 39, 1) = '0') OR substr(c.`cdc_position`, 6, 32) = '00000000000000000000000000000000' THEN NULL ELSE timestamp_micros(CAST(conv(substr(c.`cdc_position`, 41, 14), 16, 10) AS BIGINT)) END) < current_timestamp - INTERVAL '90' DAY
    ) AS b
    GROUP BY b.`tenant`, b.`at`, b.`tag`
  ),
  sources AS (
    SELECT DISTINCT get_json_object(c.`cdc_old_key`, '$[0]') AS `tenant`, CAST(get_json_object(c.`cdc_old_key`, '$[1]') AS TIMESTAMP) AS `at`, unhex(get_json_object(c.`cdc_old_key`, '$[2]')) AS `tag`
    FROM `events`.`event_log` AS c
    WHERE c.`cdc_old_key` IS NOT NULL AND c.`cdc_operation` <> 'delete' AND c.`cdc_absent` IS NOT NULL
  ),
  lowest AS (
    SELECT w.`tenant`, w.`at`, w.`tag`, min(w.cdc_lowest) AS cdc_lowest, max(w.cdc_above) AS cdc_above, max(w.cdc_current) AS cdc_current
    FROM (
      SELECT c.`tenant` AS `tenant`, c.`at` AS `at`, c.`tag` AS `tag`, c.`cdc_position` AS cdc_lowest, CASE WHEN c.`cdc_absent` IS NULL THEN c.`cdc_position` END AS cdc_above, CAST(NULL AS STRING) AS cdc_current
      FROM `events`.`event_log` AS c
      WHERE c.`cdc_operation` <> 'delete'
      UNION ALL
      SELECT g.`tenant` AS `tenant`, g.`at` AS `at`, g.`tag` AS `tag`, g.`cdc_position` AS cdc_lowest, CAST(NULL AS STRING) AS cdc_above, g.`cdc_position` AS cdc_current
      FROM `events`.`event_log_folded` AS g
      UNION ALL
      SELECT c.`tenant` AS `tenant`, c.`at` AS `at`, c.`tag` AS `tag`, CAST(NULL AS STRING) AS cdc_lowest, c.`cdc_position` AS cdc_above, CAST(NULL AS STRING) AS cdc_current
      FROM `events`.`event_log` AS c
      WHERE c.`cdc_operation` = 'delete'
      UNION ALL
      SELECT get_json_object(c.`cdc_old_key`, '$[0]') AS `tenant`, CAST(get_json_object(c.`cdc_old_key`, '$[1]') AS TIMESTAMP) AS `at`, unhex(get_json_object(c.`cdc_old_key`, '$[2]')) AS `tag`, CAST(NULL AS STRING) AS cdc_lowest, c.`cdc_position` AS cdc_above, CAST(NULL AS STRING) AS cdc_current
      FROM `events`.`event_log` AS c
      WHERE c.`cdc_old_key` IS NOT NULL AND c.`cdc_operation` <> 'delete'
        AND (get_json_object(c.`cdc_old_key`, '$[0]') <> c.`tenant` OR CAST(get_json_object(c.`cdc_old_key`, '$[1]') AS TIMESTAMP) <> c.`at` OR unhex(get_json_object(c.`cdc_old_key`, '$[2]')) <> c.`tag`)
    ) AS w
    GROUP BY w.`tenant`, w.`at`, w.`tag`
  )
  SELECT DISTINCT c.`tenant` AS `tenant`, c.`at` AS `at`, c.`tag` AS `tag`, c.`cdc_position`
  FROM `events`.`event_log` AS c
  LEFT JOIN lowest AS w ON c.`tenant` = w.`tenant` AND c.`at` = w.`at` AND c.`tag` = w.`tag`
  WHERE c.`cdc_operation` = 'delete'
    AND coalesce(c.`cdc_committed_at`, CASE WHEN NOT (substr(c.`cdc_position`, 39, 1) = '0') OR substr(c.`cdc_position`, 6, 32) = '00000000000000000000000000000000' THEN NULL ELSE timestamp_micros(CAST(conv(substr(c.`cdc_position`, 41, 14), 16, 10) AS BIGINT)) END) < current_timestamp - INTERVAL '90' DAY AND (w.cdc_lowest IS NULL OR w.cdc_lowest >= c.`cdc_position`) AND (w.cdc_current IS NULL OR w.cdc_above > c.`cdc_position`)
  UNION
  SELECT c.`tenant` AS `tenant`, c.`at` AS `at`, c.`tag` AS `tag`, c.`cdc_position`
  FROM `events`.`event_log` AS c
  JOIN bars AS b ON c.`tenant` = b.`tenant` AND c.`at` = b.`at` AND c.`tag` = b.`tag`
  LEFT JOIN lowest AS w ON get_json_object(c.`cdc_old_key`, '$[0]') = w.`tenant` AND CAST(get_json_object(c.`cdc_old_key`, '$[1]') AS TIMESTAMP) = w.`at` AND unhex(get_json_object(c.`cdc_old_key`, '$[2]')) = w.`tag`
  WHERE c.`cdc_old_key` IS NOT NULL AND c.`cdc_operation` <> 'delete'
    AND coalesce(c.`cdc_committed_at`, CASE WHEN NOT (substr(c.`cdc_position`, 39, 1) = '0') OR substr(c.`cdc_position`, 6, 32) = '00000000000000000000000000000000' THEN NULL ELSE timestamp_micros(CAST(conv(substr(c.`cdc_position`, 41, 14), 16, 10) AS BIGINT)) END) < current_timestamp - INTERVAL '90' DAY
    AND c.`cdc_position` < b.cdc_bar AND NOT coalesce(coalesce(c.`cdc_committed_at`, CASE WHEN NOT (substr(c.`cdc_position`, 39, 1) = '0') OR substr(c.`cdc_position`, 6, 32) = '00000000000000000000000000000000' THEN NULL ELSE timestamp_micros(CAST(conv(substr(c.`cdc_position`, 41, 14), 16, 10) AS BIGINT)) END) >= current_timestamp - INTERVAL '90' DAY, false)
    AND NOT EXISTS (SELECT 1 FROM sources AS p WHERE c.`tenant` = p.`tenant` AND c.`at` = p.`at` AND c.`tag` = p.`tag`) AND (w.cdc_lowest IS NULL OR w.cdc_lowest >= c.`cdc_position`) AND (w.cdc_current IS NULL OR w.cdc_above > c.`cdc_position`)
) AS s
ON t.`tenant` = s.`tenant` AND t.`at` = s.`at` AND t.`tag` = s.`tag` AND t.`cdc_position` = s.`cdc_position` AND (t.`cdc_operation` = 'delete' OR t.`cdc_old_key` IS NOT NULL)
WHEN MATCHED THEN DELETE;
