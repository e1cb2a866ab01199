-- Current rows: per key the changes above its last end (a delete, or a key change
-- away from it), per column the latest that carries it. cdc_unresolved lists columns
-- whose value the changelog does not give.
CREATE OR REPLACE VIEW "events"."event_log_current" AS
WITH ends AS (
  SELECT CAST(c."tenant" AS varchar) AS "tenant", CAST(c."at" AT TIME ZONE 'UTC' AS timestamp(6)) AS "at", c."tag" AS "tag", c."cdc_position" AS cdc_end
  FROM "events"."event_log" AS c
  WHERE c."cdc_operation" = 'delete'
  UNION ALL
  SELECT CAST(CAST(json_extract_scalar(c."cdc_old_key", '$[0]') AS uuid) AS varchar) AS "tenant", CAST(CAST(replace(replace(json_extract_scalar(c."cdc_old_key", '$[1]'), 'T', ' '), 'Z', ' UTC') AS timestamp(6) with time zone) AT TIME ZONE 'UTC' AS timestamp(6)) AS "at", from_hex(json_extract_scalar(c."cdc_old_key", '$[2]')) AS "tag", c."cdc_position"
  FROM "events"."event_log" AS c
  WHERE c."cdc_old_key" IS NOT NULL AND c."cdc_operation" <> 'delete'
    AND (CAST(CAST(json_extract_scalar(c."cdc_old_key", '$[0]') AS uuid) AS varchar) <> CAST(c."tenant" AS varchar) OR CAST(CAST(replace(replace(json_extract_scalar(c."cdc_old_key", '$[1]'), 'T', ' '), 'Z', ' UTC') AS timestamp(6) with time zone) AT TIME ZONE 'UTC' AS timestamp(6)) <> CAST(c."at" AT TIME ZONE 'UTC' AS timestamp(6)) OR from_hex(json_extract_scalar(c."cdc_old_key", '$[2]')) <> c."tag")
),
ended AS (
  SELECT e."tenant", e."at", e."tag", max(e.cdc_end) AS cdc_ended
  FROM ends AS e
  GROUP BY e."tenant", e."at", e."tag"
),
latest AS (
  SELECT a."tenant", a."at", a."tag",
    CASE WHEN (a.cdc_3)[1] = a."cdc_position" THEN (a.cdc_3)[2] END AS "local_at",
    CASE WHEN (a.cdc_4)[1] = a."cdc_position" THEN (a.cdc_4)[2] END AS "clock",
    CASE WHEN (a.cdc_5)[1] = a."cdc_position" THEN (a.cdc_5)[2] END AS "day",
    CASE WHEN (a.cdc_6)[1] = a."cdc_position" THEN (a.cdc_6)[2] END AS "ok",
    CASE WHEN (a.cdc_7)[1] = a."cdc_position" THEN (a.cdc_7)[2] END AS "score",
    CASE WHEN (a.cdc_8)[1] = a."cdc_position" THEN (a.cdc_8)[2] END AS "weight",
    CASE WHEN (a.cdc_10)[1] = a."cdc_position" THEN (a.cdc_10)[2] END AS "digest",
    CASE WHEN (a.cdc_9)[1] = a.cdc_carried_9 THEN (a.cdc_9)[2] END AS "body",
    coalesce(a.cdc_carried_9 <> a.cdc_known_9, true) AS cdc_unknown_9,
    (a.cdc_move)[1] AS cdc_moved,
    (a.cdc_move)[2] AS cdc_moved_key,
    a."cdc_position",
    CASE WHEN (a.cdc_11)[1] = a."cdc_position" THEN (a.cdc_11)[2] END AS "cdc_committed_at"
  FROM (
    SELECT CAST(c."tenant" AS varchar) AS "tenant", CAST(c."at" AT TIME ZONE 'UTC' AS timestamp(6)) AS "at", c."tag" AS "tag",
      max(ROW(c."cdc_position", c."local_at")) FILTER (WHERE c."local_at" IS NOT NULL) AS cdc_3,
      max(ROW(c."cdc_position", c."clock")) FILTER (WHERE c."clock" IS NOT NULL) AS cdc_4,
      max(ROW(c."cdc_position", c."day")) FILTER (WHERE c."day" IS NOT NULL) AS cdc_5,
      max(ROW(c."cdc_position", c."ok")) FILTER (WHERE c."ok" IS NOT NULL) AS cdc_6,
      max(ROW(c."cdc_position", c."score")) FILTER (WHERE c."score" IS NOT NULL) AS cdc_7,
      max(ROW(c."cdc_position", c."weight")) FILTER (WHERE c."weight" IS NOT NULL) AS cdc_8,
      max(ROW(c."cdc_position", c."digest")) FILTER (WHERE c."digest" IS NOT NULL) AS cdc_10,
      max(c."cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'body')) AS cdc_carried_9,
      max(c."cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'body') OR c."cdc_old_key" IS NOT NULL) AS cdc_known_9,
      max(ROW(c."cdc_position", c."body")) FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'body') AND c."body" IS NOT NULL) AS cdc_9,
      max(ROW(c."cdc_position", c."cdc_old_key")) FILTER (WHERE c."cdc_old_key" IS NOT NULL) AS cdc_move,
      max(c."cdc_position") AS "cdc_position",
      max(ROW(c."cdc_position", c."cdc_committed_at")) FILTER (WHERE c."cdc_committed_at" IS NOT NULL) AS cdc_11
    FROM "events"."event_log" AS c
    LEFT JOIN ended AS e ON CAST(c."tenant" AS varchar) = e."tenant" AND CAST(c."at" AT TIME ZONE 'UTC' AS timestamp(6)) = e."at" AND c."tag" = e."tag"
    WHERE c."cdc_operation" <> 'delete' AND (e.cdc_ended IS NULL OR c."cdc_position" > e.cdc_ended)
    GROUP BY CAST(c."tenant" AS varchar), CAST(c."at" AT TIME ZONE 'UTC' AS timestamp(6)), c."tag"
  ) AS a
),
hop1 AS (
  SELECT p."tenant", p."at", p."tag", CAST(CAST(json_extract_scalar(p.cdc_moved_key, '$[0]') AS uuid) AS varchar) AS cdc_old_0, CAST(CAST(replace(replace(json_extract_scalar(p.cdc_moved_key, '$[1]'), 'T', ' '), 'Z', ' UTC') AS timestamp(6) with time zone) AT TIME ZONE 'UTC' AS timestamp(6)) AS cdc_old_1, from_hex(json_extract_scalar(p.cdc_moved_key, '$[2]')) AS cdc_old_2, p.cdc_moved
  FROM latest AS p
  WHERE p.cdc_moved IS NOT NULL AND (p.cdc_unknown_9)
),
ended1 AS (
  SELECT h."tenant", h."at", h."tag", max(e.cdc_end) AS cdc_ended
  FROM hop1 AS h
  JOIN ends AS e ON e."tenant" = h.cdc_old_0 AND e."at" = h.cdc_old_1 AND e."tag" = h.cdc_old_2 AND e.cdc_end < h.cdc_moved
  GROUP BY h."tenant", h."at", h."tag"
),
before1 AS (
  SELECT a."tenant", a."at", a."tag",
    CASE WHEN (a.cdc_9)[1] = a.cdc_carried_9 THEN (a.cdc_9)[2] END AS "body",
    coalesce(a.cdc_carried_9 <> a.cdc_known_9, true) AS cdc_unknown_9,
    (a.cdc_move)[1] AS cdc_moved,
    (a.cdc_move)[2] AS cdc_moved_key
  FROM (
    SELECT h."tenant", h."at", h."tag",
      max(c."cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'body')) AS cdc_carried_9,
      max(c."cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'body') OR c."cdc_old_key" IS NOT NULL) AS cdc_known_9,
      max(ROW(c."cdc_position", c."body")) FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'body') AND c."body" IS NOT NULL) AS cdc_9,
      max(ROW(c."cdc_position", c."cdc_old_key")) FILTER (WHERE c."cdc_old_key" IS NOT NULL) AS cdc_move
    FROM hop1 AS h
    JOIN "events"."event_log" AS c ON CAST(c."tenant" AS varchar) = h.cdc_old_0 AND CAST(c."at" AT TIME ZONE 'UTC' AS timestamp(6)) = h.cdc_old_1 AND c."tag" = h.cdc_old_2 AND c."cdc_position" < h.cdc_moved
    LEFT JOIN ended1 AS e ON h."tenant" = e."tenant" AND h."at" = e."at" AND h."tag" = e."tag"
    WHERE c."cdc_operation" <> 'delete' AND (e.cdc_ended IS NULL OR c."cdc_position" > e.cdc_ended)
    GROUP BY h."tenant", h."at", h."tag"
  ) AS a
)
SELECT
  l."tenant",
  l."at",
  l."tag",
  l."local_at" AS "local_at",
  CAST(l."clock" AS varchar) AS "clock",
  l."day" AS "day",
  l."ok" AS "ok",
  l."score" AS "score",
  l."weight" AS "weight",
  CASE WHEN NOT l.cdc_unknown_9 THEN l."body" WHEN NOT b1.cdc_unknown_9 THEN b1."body" END AS "body",
  l."digest" AS "digest",
  nullif(array_join(ARRAY[
        CASE WHEN coalesce(l.cdc_unknown_9, true) AND coalesce(b1.cdc_unknown_9, true) THEN 'body' END], ','), '') AS "cdc_unresolved",
  l."cdc_position" AS "cdc_position",
  CAST(l."cdc_committed_at" AT TIME ZONE 'UTC' AS timestamp(6)) AS "cdc_committed_at"
FROM latest AS l
LEFT JOIN before1 AS b1 ON l."tenant" = b1."tenant" AND l."at" = b1."at" AND l."tag" = b1."tag";
