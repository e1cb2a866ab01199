-- Every row that there ever was, from cdc_position on and until cdc_valid_to_position,
-- which is null for current rows. The times are those at which the source committed:
-- of a load those in loads: of the pipeline file, and of a repair that of its reading.
-- Without cdc_valid_from a row was there from the beginning, as those of a first load.
-- A row that a change with an earlier time, or none, has replaced was there at no time.
-- What a change left out is that of the position before, whatever the times say.
-- The rows as of a position, or of a time:
--   SELECT * FROM "events"."event_log_history"
--   WHERE "cdc_position" <= 'POSITION' AND ("cdc_valid_to_position" IS NULL OR "cdc_valid_to_position" > 'POSITION')
--   SELECT * FROM "events"."event_log_history"
--   WHERE ("cdc_valid_from" IS NULL OR "cdc_valid_from" <= TIMESTAMP 'YYYY-MM-DD HH:MM:SS') AND ("cdc_valid_to_position" IS NULL OR "cdc_valid_to" > TIMESTAMP 'YYYY-MM-DD HH:MM:SS')
CREATE OR REPLACE VIEW "events"."event_log_history" AS
WITH events AS (
  SELECT CAST(c."tenant" AS varchar) AS "tenant", CAST(c."at" AT TIME ZONE 'UTC' AS timestamp(6)) AS "at", c."tag" AS "tag", c."local_at", c."clock", c."day", c."ok", c."score", c."weight", c."body", c."digest", c."cdc_position", coalesce(c."cdc_committed_at", CASE WHEN NOT (substr(c."cdc_position", 39, 1) = '0') OR substr(c."cdc_position", 6, 32) = '00000000000000000000000000000000' THEN NULL ELSE CAST(from_unixtime_nanos(from_base(substr(c."cdc_position", 41, 14), 16) * 1000) AS timestamp(6) with time zone) END) AS cdc_time, c."cdc_operation", c."cdc_absent", c."cdc_old_key"
  FROM "events"."event_log" AS c
  UNION ALL
  SELECT CAST(CAST(json_extract_scalar(c."cdc_old_key", '$[0]') AS uuid) AS varchar) AS "tenant", CAST(CAST(replace(replace(json_extract_scalar(c."cdc_old_key", '$[1]'), 'T', ' '), 'Z', ' UTC') AS timestamp(6) with time zone) AT TIME ZONE 'UTC' AS timestamp(6)) AS "at", from_hex(json_extract_scalar(c."cdc_old_key", '$[2]')) AS "tag", CAST(NULL AS timestamp(6)), CAST(NULL AS time(6)), CAST(NULL AS date), CAST(NULL AS boolean), CAST(NULL AS real), CAST(NULL AS double), CAST(NULL AS varchar), CAST(NULL AS varbinary), c."cdc_position", coalesce(c."cdc_committed_at", CASE WHEN NOT (substr(c."cdc_position", 39, 1) = '0') OR substr(c."cdc_position", 6, 32) = '00000000000000000000000000000000' THEN NULL ELSE CAST(from_unixtime_nanos(from_base(substr(c."cdc_position", 41, 14), 16) * 1000) AS timestamp(6) with time zone) END) AS cdc_time, 'moved', CAST(NULL AS varchar), CAST(NULL AS varchar)
  FROM "events"."event_log" AS c
  WHERE c."cdc_old_key" IS NOT NULL AND c."cdc_operation" <> 'delete'
    AND (CAST(CAST(json_extract_scalar(c."cdc_old_key", '$[0]') AS uuid) AS varchar) <> CAST(c."tenant" AS varchar) OR CAST(CAST(replace(replace(json_extract_scalar(c."cdc_old_key", '$[1]'), 'T', ' '), 'Z', ' UTC') AS timestamp(6) with time zone) AT TIME ZONE 'UTC' AS timestamp(6)) <> CAST(c."at" AT TIME ZONE 'UTC' AS timestamp(6)) OR from_hex(json_extract_scalar(c."cdc_old_key", '$[2]')) <> c."tag")
),
once AS (
  SELECT c."tenant", c."at", c."tag",
    max(c."local_at") AS "local_at",
    max(c."clock") AS "clock",
    max(c."day") AS "day",
    max(c."ok") AS "ok",
    max(c."score") AS "score",
    max(c."weight") AS "weight",
    max(CASE WHEN NOT c."cdc_operation" IN ('delete', 'moved') AND NOT contains(split(coalesce("cdc_absent", ''), ','), 'body') THEN c."body" END) AS "body",
    count(CASE WHEN NOT c."cdc_operation" IN ('delete', 'moved') AND NOT contains(split(coalesce("cdc_absent", ''), ','), 'body') THEN 1 END) > 0 AS cdc_carried_9,
    max(c."digest") AS "digest",
    c."cdc_position", max(c.cdc_time) AS cdc_time,
    CASE WHEN count(CASE WHEN c."cdc_operation" IN ('delete', 'moved') THEN 1 END) > 0 THEN 'delete' ELSE max(c."cdc_operation") END AS "cdc_operation",
    max(c."cdc_old_key") AS "cdc_old_key"
  FROM events AS c
  GROUP BY c."tenant", c."at", c."tag", c."cdc_position"
),
lives AS (
  SELECT c.*,
    lead(c."cdc_position") OVER (PARTITION BY c."tenant", c."at", c."tag" ORDER BY c."cdc_position") AS "cdc_valid_to_position",
    CASE WHEN count(*) OVER (PARTITION BY c."tenant", c."at", c."tag" ORDER BY c."cdc_position" DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) = count(c.cdc_time) OVER (PARTITION BY c."tenant", c."at", c."tag" ORDER BY c."cdc_position" DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) THEN min(c.cdc_time) OVER (PARTITION BY c."tenant", c."at", c."tag" ORDER BY c."cdc_position" DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) END AS "cdc_valid_to",
    count(CASE WHEN c."cdc_operation" = 'delete' OR c."cdc_old_key" IS NOT NULL THEN 1 END) OVER (PARTITION BY c."tenant", c."at", c."tag" ORDER BY c."cdc_position" ROWS UNBOUNDED PRECEDING) AS cdc_life
  FROM once AS c
),
resolved AS (
  SELECT
    c."tenant",
    c."at",
    c."tag",
    c."local_at" AS "local_at",
    CAST(c."clock" AS varchar) AS "clock",
    c."day" AS "day",
    c."ok" AS "ok",
    c."score" AS "score",
    c."weight" AS "weight",
    element_at(last_value(CASE WHEN c.cdc_carried_9 THEN ARRAY[c."body"] END) IGNORE NULLS OVER (PARTITION BY c."tenant", c."at", c."tag", c.cdc_life ORDER BY c."cdc_position" ROWS UNBOUNDED PRECEDING), 1) AS "body",
    c."digest" AS "digest",
    nullif(array_join(ARRAY[
          CASE WHEN last_value(CASE WHEN c.cdc_carried_9 THEN ARRAY[c."body"] END) IGNORE NULLS OVER (PARTITION BY c."tenant", c."at", c."tag", c.cdc_life ORDER BY c."cdc_position" ROWS UNBOUNDED PRECEDING) IS NULL THEN 'body' END], ','), '') AS "cdc_unresolved",
    c."cdc_operation",
    c."cdc_position",
    CAST(c.cdc_time AT TIME ZONE 'UTC' AS timestamp(6)) AS "cdc_valid_from",
    c."cdc_valid_to_position" AS "cdc_valid_to_position",
    CAST(c."cdc_valid_to" AT TIME ZONE 'UTC' AS timestamp(6)) AS "cdc_valid_to"
  FROM lives AS c
)
SELECT "tenant", "at", "tag", "local_at", "clock", "day", "ok", "score", "weight", "body", "digest", "cdc_unresolved", "cdc_position", "cdc_valid_from", "cdc_valid_to_position", "cdc_valid_to"
FROM resolved
WHERE "cdc_operation" <> 'delete';
