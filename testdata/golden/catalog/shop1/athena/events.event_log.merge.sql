-- Brings "events"."event_log_folded" up to date: the keys that new files of the changelog
-- speak of are folded anew, whenever their rows arrived. icehose merge runs it,
-- the first time too, and keeps account. To run it yourself, replace
--   ${from}     the snapshot of the changelog that the last run read up to
--   ${to}       the changelog's newest snapshot
--   ${current}  the newest snapshot of the current table
-- and keep ${to} for the next run only after this one has succeeded: a run that
-- was killed, or that is repeated, does no harm. If another run has changed the
-- current table since ${current}, this one changes nothing: begin again.
MERGE INTO "events"."event_log_folded" AS t
USING (SELECT * FROM (
WITH spoken AS (
  SELECT CAST(c."tenant" AS varchar) AS "tenant", CAST(c."at" AT TIME ZONE 'UTC' AS timestamp(6)) AS "at", c."tag" AS "tag"
  FROM (SELECT * FROM "events"."event_log" FOR VERSION AS OF ${to} WHERE "$path" NOT IN (SELECT "$path" FROM "events"."event_log" FOR VERSION AS OF ${from})) AS c
  UNION
  SELECT CAST(CAST(json_extract_scalar(c."cdc_old_key", '$[0]') AS uuid) AS varchar) AS "tenant", CAST(CAST(replace(replace(json_extract_scalar(c."cdc_old_key", '$[1]'), 'T', ' '), 'Z', ' UTC') AS timestamp(6) with time zone) AT TIME ZONE 'UTC' AS timestamp(6)) AS "at", from_hex(json_extract_scalar(c."cdc_old_key", '$[2]')) AS "tag"
  FROM (SELECT * FROM "events"."event_log" FOR VERSION AS OF ${to} WHERE "$path" NOT IN (SELECT "$path" FROM "events"."event_log" FOR VERSION AS OF ${from})) AS c
  WHERE c."cdc_old_key" IS NOT NULL AND c."cdc_operation" <> 'delete'
  UNION
  SELECT "tenant", "at", "tag"
  FROM "events"."event_log_folded"
  WHERE false
),
heirs1 AS (
  SELECT CAST(c."tenant" AS varchar) AS "tenant", CAST(c."at" AT TIME ZONE 'UTC' AS timestamp(6)) AS "at", c."tag" AS "tag"
  FROM "events"."event_log" FOR VERSION AS OF ${to} AS c
  JOIN spoken AS k ON CAST(CAST(json_extract_scalar(c."cdc_old_key", '$[0]') AS uuid) AS varchar) = k."tenant" AND CAST(CAST(replace(replace(json_extract_scalar(c."cdc_old_key", '$[1]'), 'T', ' '), 'Z', ' UTC') AS timestamp(6) with time zone) AT TIME ZONE 'UTC' AS timestamp(6)) = k."at" AND from_hex(json_extract_scalar(c."cdc_old_key", '$[2]')) = k."tag"
  WHERE c."cdc_old_key" IS NOT NULL AND c."cdc_operation" <> 'delete' AND c."cdc_absent" IS NOT NULL
),
touched AS (
  SELECT "tenant", "at", "tag"
  FROM spoken
  UNION
  SELECT "tenant", "at", "tag"
  FROM heirs1
),
ends AS (
  SELECT CAST(c."tenant" AS varchar) AS "tenant", CAST(c."at" AT TIME ZONE 'UTC' AS timestamp(6)) AS "at", c."tag" AS "tag", c."cdc_position" AS cdc_end
  FROM "events"."event_log" FOR VERSION AS OF ${to} AS c
  WHERE c."cdc_operation" = 'delete'
  UNION ALL
  SELECT CAST(CAST(json_extract_scalar(c."cdc_old_key", '$[0]') AS uuid) AS varchar) AS "tenant", CAST(CAST(replace(replace(json_extract_scalar(c."cdc_old_key", '$[1]'), 'T', ' '), 'Z', ' UTC') AS timestamp(6) with time zone) AT TIME ZONE 'UTC' AS timestamp(6)) AS "at", from_hex(json_extract_scalar(c."cdc_old_key", '$[2]')) AS "tag", c."cdc_position"
  FROM "events"."event_log" FOR VERSION AS OF ${to} AS c
  WHERE c."cdc_old_key" IS NOT NULL AND c."cdc_operation" <> 'delete'
    AND (CAST(CAST(json_extract_scalar(c."cdc_old_key", '$[0]') AS uuid) AS varchar) <> CAST(c."tenant" AS varchar) OR CAST(CAST(replace(replace(json_extract_scalar(c."cdc_old_key", '$[1]'), 'T', ' '), 'Z', ' UTC') AS timestamp(6) with time zone) AT TIME ZONE 'UTC' AS timestamp(6)) <> CAST(c."at" AT TIME ZONE 'UTC' AS timestamp(6)) OR from_hex(json_extract_scalar(c."cdc_old_key", '$[2]')) <> c."tag")
),
ended AS (
  SELECT e."tenant", e."at", e."tag", max(e.cdc_end) AS cdc_ended
  FROM ends AS e
  JOIN touched AS k ON e."tenant" = k."tenant" AND e."at" = k."at" AND e."tag" = k."tag"
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
    FROM "events"."event_log" FOR VERSION AS OF ${to} AS c
    JOIN touched AS k ON CAST(c."tenant" AS varchar) = k."tenant" AND CAST(c."at" AT TIME ZONE 'UTC' AS timestamp(6)) = k."at" AND c."tag" = k."tag"
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
    JOIN "events"."event_log" FOR VERSION AS OF ${to} AS c ON CAST(c."tenant" AS varchar) = h.cdc_old_0 AND CAST(c."at" AT TIME ZONE 'UTC' AS timestamp(6)) = h.cdc_old_1 AND c."tag" = h.cdc_old_2 AND c."cdc_position" < h.cdc_moved
    LEFT JOIN ended1 AS e ON h."tenant" = e."tenant" AND h."at" = e."at" AND h."tag" = e."tag"
    WHERE c."cdc_operation" <> 'delete' AND (e.cdc_ended IS NULL OR c."cdc_position" > e.cdc_ended)
    GROUP BY h."tenant", h."at", h."tag"
  ) AS a
)
SELECT
  k."tenant",
  k."at",
  k."tag",
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
  CAST(l."cdc_committed_at" AT TIME ZONE 'UTC' AS timestamp(6)) AS "cdc_committed_at",
  e.cdc_ended
FROM touched AS k
LEFT JOIN latest AS l ON k."tenant" = l."tenant" AND k."at" = l."at" AND k."tag" = l."tag"
LEFT JOIN ended AS e ON k."tenant" = e."tenant" AND k."at" = e."at" AND k."tag" = e."tag"
LEFT JOIN before1 AS b1 ON k."tenant" = b1."tenant" AND k."at" = b1."at" AND k."tag" = b1."tag"
) AS r WHERE EXISTS (SELECT 1 FROM "events"."event_log_folded$refs" WHERE name = 'main' AND snapshot_id = ${current})) AS s
ON t."tenant" = s."tenant" AND t."at" = s."at" AND t."tag" = s."tag"
WHEN MATCHED AND s."cdc_position" IS NULL AND (false OR t."cdc_position" <= s.cdc_ended) THEN DELETE
WHEN MATCHED AND s."cdc_position" IS NOT NULL AND (false OR t."cdc_position" <= s."cdc_position")
  AND (t."local_at" IS DISTINCT FROM s."local_at"
    OR t."clock" IS DISTINCT FROM s."clock"
    OR t."day" IS DISTINCT FROM s."day"
    OR t."ok" IS DISTINCT FROM s."ok"
    OR t."score" IS DISTINCT FROM s."score"
    OR t."weight" IS DISTINCT FROM s."weight"
    OR t."body" IS DISTINCT FROM s."body"
    OR t."digest" IS DISTINCT FROM s."digest"
    OR t."cdc_unresolved" IS DISTINCT FROM s."cdc_unresolved"
    OR t."cdc_position" IS DISTINCT FROM s."cdc_position"
    OR t."cdc_committed_at" IS DISTINCT FROM s."cdc_committed_at") THEN UPDATE SET
  "local_at" = s."local_at",
  "clock" = s."clock",
  "day" = s."day",
  "ok" = s."ok",
  "score" = s."score",
  "weight" = s."weight",
  "body" = s."body",
  "digest" = s."digest",
  "cdc_unresolved" = s."cdc_unresolved",
  "cdc_position" = s."cdc_position",
  "cdc_committed_at" = s."cdc_committed_at"
WHEN NOT MATCHED AND s."cdc_position" IS NOT NULL THEN INSERT ("tenant", "at", "tag", "local_at", "clock", "day", "ok", "score", "weight", "body", "digest", "cdc_unresolved", "cdc_position", "cdc_committed_at")
  VALUES (s."tenant", s."at", s."tag", s."local_at", s."clock", s."day", s."ok", s."score", s."weight", s."body", s."digest", s."cdc_unresolved", s."cdc_position", s."cdc_committed_at");
