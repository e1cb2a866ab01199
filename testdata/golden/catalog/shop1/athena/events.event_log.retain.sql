-- Removes rows that no fold needs any more: what a change, a delete or a load has
-- replaced more than 90 days ago, loaded rows too. So the history of the last 90
-- days stays whole, and a record that is late by less finds what it must be
-- compared with; never set fewer days than a record can be late. Views and merges
-- give the same rows before and after. No merge of this table may run beside. It
-- may be killed at any time; each run can free what the one before made free. The
-- maintenance statements then free the space.
-- A delete stays as long as the current table has a row that it is still to remove.
-- Who never merges creates that table all the same, empty: events.event_log.folded.sql.
MERGE INTO "events"."event_log" AS t
USING (
  WITH bars AS (
    SELECT b."tenant", b."at", b."tag", max(b.cdc_end) AS cdc_bar
    FROM (
      SELECT CAST(c."tenant" AS varchar) AS "tenant", CAST(c."at" AT TIME ZONE 'UTC' AS timestamp(6)) AS "at", c."tag" AS "tag", c."cdc_position" AS cdc_end
      FROM "events"."event_log" AS c
      WHERE c."cdc_operation" = 'delete'
        AND coalesce(c."cdc_committed_at", CASE WHEN NOT (substr(c."cdc_position", 39, 1) = '0') OR substr(c."cdc_position", 6, 32) = '00000000000000000000000000000000' THEN NULL ELSE CAST(from_unixtime_nanos(from_base(substr(c."cdc_position", 41, 14), 16) * 1000) AS timestamp(6) with time zone) END) < current_timestamp - INTERVAL '90' DAY
      UNION ALL
      SELECT CAST(CAST(json_extract_scalar(c."cdc_old_key", '$[0]') AS uuid) AS varchar) AS "tenant", CAST(CAST(replace(replace(json_extract_scalar(c."cdc_old_key", '$[1]'), 'T', ' '), 'Z', ' UTC') AS timestamp(6) with time zone) AT TIME ZONE 'UTC' AS timestamp(6)) AS "at", from_hex(json_extract_scalar(c."cdc_old_key", '$[2]')) AS "tag", c."cdc_position" AS cdc_end
      FROM "events"."event_log" AS c
      WHERE c."cdc_old_key" IS NOT NULL AND c."cdc_operation" <> 'delete'
        AND (CAST(CAST(json_extract_scalar(c."cdc_old_key", '$[0]') AS uuid) AS varchar) <> CAST(c."tenant" AS varchar) OR CAST(CAST(replace(replace(json_extract_scalar(c."cdc_old_key", '$[1]'), 'T', ' '), 'Z', ' UTC') AS timestamp(6) with time zone) AT TIME ZONE 'UTC' AS timestamp(6)) <> CAST(c."at" AT TIME ZONE 'UTC' AS timestamp(6)) OR from_hex(json_extract_scalar(c."cdc_old_key", '$[2]')) <> c."tag")
        AND coalesce(c."cdc_committed_at", CASE WHEN NOT (substr(c."cdc_position", 39, 1) = '0') OR substr(c."cdc_position", 6, 32) = '00000000000000000000000000000000' THEN NULL ELSE CAST(from_unixtime_nanos(from_base(substr(c."cdc_position", 41, 14), 16) * 1000) AS timestamp(6) with time zone) END) < current_timestamp - INTERVAL '90' DAY
      UNION ALL
      SELECT CAST(c."tenant" AS varchar) AS "tenant", CAST(c."at" AT TIME ZONE 'UTC' AS timestamp(6)) AS "at", c."tag" AS "tag", c."cdc_position" AS cdc_end
      FROM "events"."event_log" AS c
      WHERE c."cdc_operation" <> 'delete' AND c."cdc_absent" IS NULL
        AND coalesce(c."cdc_committed_at", CASE WHEN NOT (substr(c."cdc_position", 39, 1) = '0') OR substr(c."cdc_position", 6, 32) = '00000000000000000000000000000000' THEN NULL ELSE CAST(from_unixtime_nanos(from_base(substr(c."cdc_position", 41, 14), 16) * 1000) AS timestamp(6) with time zone) END) < current_timestamp - INTERVAL '90' DAY
    ) AS b
    GROUP BY b."tenant", b."at", b."tag"
  ),
  sources AS (
    SELECT DISTINCT CAST(CAST(json_extract_scalar(c."cdc_old_key", '$[0]') AS uuid) AS varchar) AS "tenant", CAST(CAST(replace(replace(json_extract_scalar(c."cdc_old_key", '$[1]'), 'T', ' '), 'Z', ' UTC') AS timestamp(6) with time zone) AT TIME ZONE 'UTC' AS timestamp(6)) AS "at", from_hex(json_extract_scalar(c."cdc_old_key", '$[2]')) AS "tag"
    FROM "events"."event_log" AS c
    WHERE c."cdc_old_key" IS NOT NULL AND c."cdc_operation" <> 'delete' AND c."cdc_absent" IS NOT NULL
  )
  SELECT DISTINCT CAST(c."tenant" AS varchar) AS "tenant", CAST(c."at" AT TIME ZONE 'UTC' AS timestamp(6)) AS "at", c."tag" AS "tag", c."cdc_position"
  FROM "events"."event_log" AS c
  JOIN bars AS b ON CAST(c."tenant" AS varchar) = b."tenant" AND CAST(c."at" AT TIME ZONE 'UTC' AS timestamp(6)) = b."at" AND c."tag" = b."tag"
  WHERE c."cdc_operation" <> 'delete' AND c."cdc_old_key" IS NULL
    AND c."cdc_position" < b.cdc_bar AND NOT coalesce(coalesce(c."cdc_committed_at", CASE WHEN NOT (substr(c."cdc_position", 39, 1) = '0') OR substr(c."cdc_position", 6, 32) = '00000000000000000000000000000000' THEN NULL ELSE CAST(from_unixtime_nanos(from_base(substr(c."cdc_position", 41, 14), 16) * 1000) AS timestamp(6) with time zone) END) >= current_timestamp - INTERVAL '90' DAY, false)
    AND NOT EXISTS (SELECT 1 FROM sources AS p WHERE CAST(c."tenant" AS varchar) = p."tenant" AND CAST(c."at" AT TIME ZONE 'UTC' AS timestamp(6)) = p."at" AND c."tag" = p."tag")
) AS s
ON CAST(t."tenant" AS varchar) = s."tenant" AND CAST(t."at" AT TIME ZONE 'UTC' AS timestamp(6)) = s."at" AND t."tag" = s."tag" AND t."cdc_position" = s."cdc_position" AND NOT (t."cdc_operation" = 'delete' OR t."cdc_old_key" IS NOT NULL)
WHEN MATCHED THEN DELETE;

MERGE INTO "events"."event_log" AS t
USING (
  WITH bars AS (
    SELECT b."tenant", b."at", b."tag", max(b.cdc_end) AS cdc_bar
    FROM (
      SELECT CAST(c."tenant" AS varchar) AS "tenant", CAST(c."at" AT TIME ZONE 'UTC' AS timestamp(6)) AS "at", c."tag" AS "tag", c."cdc_position" AS cdc_end
      FROM "events"."event_log" AS c
      WHERE c."cdc_operation" = 'delete'
        AND coalesce(c."cdc_committed_at", CASE WHEN NOT (substr(c."cdc_position", 39, 1) = '0') OR substr(c."cdc_position", 6, 32) = '00000000000000000000000000000000' THEN NULL ELSE CAST(from_unixtime_nanos(from_base(substr(c."cdc_position", 41, 14), 16) * 1000) AS timestamp(6) with time zone) END) < current_timestamp - INTERVAL '90' DAY
      UNION ALL
      SELECT CAST(CAST(json_extract_scalar(c."cdc_old_key", '$[0]') AS uuid) AS varchar) AS "tenant", CAST(CAST(replace(replace(json_extract_scalar(c."cdc_old_key", '$[1]'), 'T', ' '), 'Z', ' UTC') AS timestamp(6) with time zone) AT TIME ZONE 'UTC' AS timestamp(6)) AS "at", from_hex(json_extract_scalar(c."cdc_old_key", '$[2]')) AS "tag", c."cdc_position" AS cdc_end
      FROM "events"."event_log" AS c
      WHERE c."cdc_old_key" IS NOT NULL AND c."cdc_operation" <> 'delete'
        AND (CAST(CAST(json_extract_scalar(c."cdc_old_key", '$[0]') AS uuid) AS varchar) <> CAST(c."tenant" AS varchar) OR CAST(CAST(replace(replace(json_extract_scalar(c."cdc_old_key", '$[1]'), 'T', ' '), 'Z', ' UTC') AS timestamp(6) with time zone) AT TIME ZONE 'UTC' AS timestamp(6)) <> CAST(c."at" AT TIME ZONE 'UTC' AS timestamp(6)) OR from_hex(json_extract_scalar(c."cdc_old_key", '$[2]')) <> c."tag")
        AND coalesce(c."cdc_committed_at", CASE WHEN NOT (substr(c."cdc_position", 39, 1) = '0') OR substr(c."cdc_position", 6, 32) = '00000000000000000000000000000000' THEN NULL ELSE CAST(from_unixtime_nanos(from_base(substr(c."cdc_position", 41, 14), 16) * 1000) AS timestamp(6) with time zone) END) < current_timestamp - INTERVAL '90' DAY
      UNION ALL
      SELECT CAST(c."tenant" AS varchar) AS "tenant", CAST(c."at" AT TIME ZONE 'UTC' AS timestamp(6)) AS "at", c."tag" AS "tag", c."cdc_position" AS cdc_end
      FROM "events"."event_log" AS c
      WHERE c."cdc_operation" <> 'delete' AND c."cdc_absent" IS NULL
        AND coalesce(c."cdc_committed_at", CASE WHEN NOT (substr(c."cdc_position", 39, 1) = '0') OR substr(c."cdc_position", 6, 32) = '00000000000000000000000000000000' THEN NULL ELSE CAST(from_unixtime_nanos(from_base(substr(c."cdc_position", 41, 14), 16) * 1000) AS timestamp(6) with time zone) END) < current_timestamp - INTERVAL '90' DAY
    ) AS b
    GROUP BY b."tenant", b."at", b."tag"
  ),
  sources AS (
    SELECT DISTINCT CAST(CAST(json_extract_scalar(c."cdc_old_key", '$[0]') AS uuid) AS varchar) AS "tenant", CAST(CAST(replace(replace(json_extract_scalar(c."cdc_old_key", '$[1]'), 'T', ' '), 'Z', ' UTC') AS timestamp(6) with time zone) AT TIME ZONE 'UTC' AS timestamp(6)) AS "at", from_hex(json_extract_scalar(c."cdc_old_key", '$[2]')) AS "tag"
    FROM "events"."event_log" AS c
    WHERE c."cdc_old_key" IS NOT NULL AND c."cdc_operation" <> 'delete' AND c."cdc_absent" IS NOT NULL
  ),
  lowest AS (
    SELECT w."tenant", w."at", w."tag", min(w.cdc_lowest) AS cdc_lowest, max(w.cdc_above) AS cdc_above, max(w.cdc_current) AS cdc_current
    FROM (
      SELECT CAST(c."tenant" AS varchar) AS "tenant", CAST(c."at" AT TIME ZONE 'UTC' AS timestamp(6)) AS "at", c."tag" AS "tag", c."cdc_position" AS cdc_lowest, CASE WHEN c."cdc_absent" IS NULL THEN c."cdc_position" END AS cdc_above, CAST(NULL AS varchar) AS cdc_current
      FROM "events"."event_log" AS c
      WHERE c."cdc_operation" <> 'delete'
      UNION ALL
      SELECT g."tenant" AS "tenant", g."at" AS "at", g."tag" AS "tag", g."cdc_position" AS cdc_lowest, CAST(NULL AS varchar) AS cdc_above, g."cdc_position" AS cdc_current
      FROM "events"."event_log_folded" AS g
      UNION ALL
      SELECT CAST(c."tenant" AS varchar) AS "tenant", CAST(c."at" AT TIME ZONE 'UTC' AS timestamp(6)) AS "at", c."tag" AS "tag", CAST(NULL AS varchar) AS cdc_lowest, c."cdc_position" AS cdc_above, CAST(NULL AS varchar) AS cdc_current
      FROM "events"."event_log" AS c
      WHERE c."cdc_operation" = 'delete'
      UNION ALL
      SELECT CAST(CAST(json_extract_scalar(c."cdc_old_key", '$[0]') AS uuid) AS varchar) AS "tenant", CAST(CAST(replace(replace(json_extract_scalar(c."cdc_old_key", '$[1]'), 'T', ' '), 'Z', ' UTC') AS timestamp(6) with time zone) AT TIME ZONE 'UTC' AS timestamp(6)) AS "at", from_hex(json_extract_scalar(c."cdc_old_key", '$[2]')) AS "tag", CAST(NULL AS varchar) AS cdc_lowest, c."cdc_position" AS cdc_above, CAST(NULL AS varchar) AS cdc_current
      FROM "events"."event_log" AS c
      WHERE c."cdc_old_key" IS NOT NULL AND c."cdc_operation" <> 'delete'
        AND (CAST(CAST(json_extract_scalar(c."cdc_old_key", '$[0]') AS uuid) AS varchar) <> CAST(c."tenant" AS varchar) OR CAST(CAST(replace(replace(json_extract_scalar(c."cdc_old_key", '$[1]'), 'T', ' '), 'Z', ' UTC') AS timestamp(6) with time zone) AT TIME ZONE 'UTC' AS timestamp(6)) <> CAST(c."at" AT TIME ZONE 'UTC' AS timestamp(6)) OR from_hex(json_extract_scalar(c."cdc_old_key", '$[2]')) <> c."tag")
    ) AS w
    GROUP BY w."tenant", w."at", w."tag"
  )
  SELECT DISTINCT CAST(c."tenant" AS varchar) AS "tenant", CAST(c."at" AT TIME ZONE 'UTC' AS timestamp(6)) AS "at", c."tag" AS "tag", c."cdc_position"
  FROM "events"."event_log" AS c
  LEFT JOIN lowest AS w ON CAST(c."tenant" AS varchar) = w."tenant" AND CAST(c."at" AT TIME ZONE 'UTC' AS timestamp(6)) = w."at" AND c."tag" = w."tag"
  WHERE c."cdc_operation" = 'delete'
    AND coalesce(c."cdc_committed_at", CASE WHEN NOT (substr(c."cdc_position", 39, 1) = '0') OR substr(c."cdc_position", 6, 32) = '00000000000000000000000000000000' THEN NULL ELSE CAST(from_unixtime_nanos(from_base(substr(c."cdc_position", 41, 14), 16) * 1000) AS timestamp(6) with time zone) END) < current_timestamp - INTERVAL '90' DAY AND (w.cdc_lowest IS NULL OR w.cdc_lowest >= c."cdc_position") AND (w.cdc_current IS NULL OR w.cdc_above > c."cdc_position")
  UNION
  SELECT CAST(c."tenant" AS varchar) AS "tenant", CAST(c."at" AT TIME ZONE 'UTC' AS timestamp(6)) AS "at", c."tag" AS "tag", c."cdc_position"
  FROM "events"."event_log" AS c
  JOIN bars AS b ON CAST(c."tenant" AS varchar) = b."tenant" AND CAST(c."at" AT TIME ZONE 'UTC' AS timestamp(6)) = b."at" AND c."tag" = b."tag"
  LEFT JOIN lowest AS w ON CAST(CAST(json_extract_scalar(c."cdc_old_key", '$[0]') AS uuid) AS varchar) = w."tenant" AND CAST(CAST(replace(replace(json_extract_scalar(c."cdc_old_key", '$[1]'), 'T', ' '), 'Z', ' UTC') AS timestamp(6) with time zone) AT TIME ZONE 'UTC' AS timestamp(6)) = w."at" AND from_hex(json_extract_scalar(c."cdc_old_key", '$[2]')) = w."tag"
  WHERE c."cdc_old_key" IS NOT NULL AND c."cdc_operation" <> 'delete'
    AND coalesce(c."cdc_committed_at", CASE WHEN NOT (substr(c."cdc_position", 39, 1) = '0') OR substr(c."cdc_position", 6, 32) = '00000000000000000000000000000000' THEN NULL ELSE CAST(from_unixtime_nanos(from_base(substr(c."cdc_position", 41, 14), 16) * 1000) AS timestamp(6) with time zone) END) < current_timestamp - INTERVAL '90' DAY
    AND c."cdc_position" < b.cdc_bar AND NOT coalesce(coalesce(c."cdc_committed_at", CASE WHEN NOT (substr(c."cdc_position", 39, 1) = '0') OR substr(c."cdc_position", 6, 32) = '00000000000000000000000000000000' THEN NULL ELSE CAST(from_unixtime_nanos(from_base(substr(c."cdc_position", 41, 14), 16) * 1000) AS timestamp(6) with time zone) END) >= current_timestamp - INTERVAL '90' DAY, false)
    AND NOT EXISTS (SELECT 1 FROM sources AS p WHERE CAST(c."tenant" AS varchar) = p."tenant" AND CAST(c."at" AT TIME ZONE 'UTC' AS timestamp(6)) = p."at" AND c."tag" = p."tag") AND (w.cdc_lowest IS NULL OR w.cdc_lowest >= c."cdc_position") AND (w.cdc_current IS NULL OR w.cdc_above > c."cdc_position")
) AS s
ON CAST(t."tenant" AS varchar) = s."tenant" AND CAST(t."at" AT TIME ZONE 'UTC' AS timestamp(6)) = s."at" AND t."tag" = s."tag" AND t."cdc_position" = s."cdc_position" AND (t."cdc_operation" = 'delete' OR t."cdc_old_key" IS NOT NULL)
WHEN MATCHED THEN DELETE;
