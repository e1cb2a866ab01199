-- A column with a default was added later: null in older rows means the default.
-- Current rows: per key the changes above its last end (a delete, or a key change
-- away from it), per column the latest that carries it. cdc_unresolved lists columns
-- whose value no change of this key carries.
CREATE OR REPLACE VIEW "events"."event_log_current" AS
WITH ended AS (
  SELECT "tenant", "at", "tag", max("cdc_position") AS cdc_ended
  FROM (
    SELECT "tenant", "at", "tag", "cdc_position"
    FROM "events"."event_log"
    WHERE "cdc_operation" = 'delete'
    UNION ALL
    SELECT CAST(json_extract_scalar("cdc_old_key", '$[0]') AS uuid) AS "tenant", CAST(replace(replace(json_extract_scalar("cdc_old_key", '$[1]'), 'T', ' '), 'Z', ' UTC') AS timestamp(6) with time zone) AS "at", from_hex(json_extract_scalar("cdc_old_key", '$[2]')) AS "tag", "cdc_position"
    FROM "events"."event_log"
    WHERE "cdc_old_key" IS NOT NULL AND "cdc_operation" <> 'delete'
  ) AS ends
  GROUP BY "tenant", "at", "tag"
),
alive AS (
  SELECT c.*
  FROM "events"."event_log" AS c
  LEFT JOIN ended AS e ON c."tenant" = e."tenant" AND c."at" = e."at" AND c."tag" = e."tag"
  WHERE c."cdc_operation" <> 'delete' AND (e.cdc_ended IS NULL OR c."cdc_position" > e.cdc_ended)
)
SELECT
  CAST("tenant" AS varchar) AS "tenant",
  CAST("at" AT TIME ZONE 'UTC' AS timestamp(6)) AS "at",
  "tag",
  max_by("local_at", "cdc_position") AS "local_at",
  CAST(max_by("clock", "cdc_position") AS varchar) AS "clock",
  max_by("day", "cdc_position") AS "day",
  max_by("ok", "cdc_position") AS "ok",
  max_by("score", "cdc_position") AS "score",
  max_by("weight", "cdc_position") AS "weight",
  max_by("body", "cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'body') OR "cdc_old_key" IS NOT NULL) AS "body",
  coalesce(max_by("tries", "cdc_position"), CAST('0' AS integer)) AS "tries",
  CASE WHEN NOT coalesce(max_by(contains(split(coalesce("cdc_absent", ''), ','), 'lang'), "cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'lang') OR "cdc_old_key" IS NOT NULL), true) THEN coalesce(max_by("lang", "cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'lang') OR "cdc_old_key" IS NOT NULL), 'en') END AS "lang",
  max_by("digest", "cdc_position") AS "digest",
  max("cdc_position") AS "cdc_position",
  CAST(max_by("cdc_committed_at", "cdc_position") AT TIME ZONE 'UTC' AS timestamp(6)) AS "cdc_committed_at",
  nullif(array_join(ARRAY[
        CASE WHEN coalesce(max_by(contains(split(coalesce("cdc_absent", ''), ','), 'body'), "cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'body') OR "cdc_old_key" IS NOT NULL), true) THEN 'body' END,
        CASE WHEN coalesce(max_by(contains(split(coalesce("cdc_absent", ''), ','), 'lang'), "cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'lang') OR "cdc_old_key" IS NOT NULL), true) THEN 'lang' END], ','), '') AS "cdc_unresolved"
FROM alive
GROUP BY "tenant", "at", "tag";
