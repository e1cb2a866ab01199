-- Brings "shop"."visit_folded" up to date: the keys that new files of the changelog
-- speak of are folded anew, whenever their rows arrived. icehose merge runs it,
-- the first time too, and keeps account. To run it yourself, replace
--   ${from}     the snapshot of the changelog that the last run read up to
--   ${to}       the changelog's newest snapshot
--   ${current}  the newest snapshot of the current table
-- and keep ${to} for the next run only after this one has succeeded: a run that
-- was killed, or that is repeated, does no harm. If another run has changed the
-- current table since ${current}, this one changes nothing: begin again.
MERGE INTO "shop"."visit_folded" AS t
USING (SELECT * FROM (
WITH newest AS (
  SELECT max(substr(c."cdc_position", 1, 37)) AS cdc_floor
  FROM "shop"."visit" FOR VERSION AS OF ${to} AS c
  WHERE substr(c."cdc_position", 39, 1) = '0'
)
SELECT
  max(c."url") AS "url",
  CAST(max(c."at") AT TIME ZONE 'UTC' AS timestamp(6)) AS "at",
  c."cdc_position" AS "cdc_position",
  CAST(max(c."cdc_committed_at") AT TIME ZONE 'UTC' AS timestamp(6)) AS "cdc_committed_at", false AS cdc_ghost
FROM (SELECT * FROM "shop"."visit" FOR VERSION AS OF ${to} WHERE "$path" NOT IN (SELECT "$path" FROM "shop"."visit" FOR VERSION AS OF ${from})) AS c
CROSS JOIN newest AS n
WHERE c."cdc_operation" IN ('load', 'insert')
  AND (
  n.cdc_floor IS NULL
  OR (substr(c."cdc_position", 39, 1) = '0' AND substr(c."cdc_position", 1, 37) = n.cdc_floor)
  OR (NOT substr(c."cdc_position", 39, 1) = '0' AND (substr(c."cdc_position", 1, 37) > n.cdc_floor OR (substr(c."cdc_position", 1, 37) = n.cdc_floor AND substr(c."cdc_position", 6, 32) = '00000000000000000000000000000000')))
)
GROUP BY c."cdc_position"
UNION ALL
SELECT c."url", c."at", c."cdc_position", c."cdc_committed_at", true
FROM "shop"."visit_folded" AS c
CROSS JOIN newest AS n
WHERE NOT (
  n.cdc_floor IS NULL
  OR (substr(c."cdc_position", 39, 1) = '0' AND substr(c."cdc_position", 1, 37) = n.cdc_floor)
  OR (NOT substr(c."cdc_position", 39, 1) = '0' AND (substr(c."cdc_position", 1, 37) > n.cdc_floor OR (substr(c."cdc_position", 1, 37) = n.cdc_floor AND substr(c."cdc_position", 6, 32) = '00000000000000000000000000000000')))
)
  OR (false AND c."cdc_position" NOT IN (SELECT "cdc_position" FROM "shop"."visit" FOR VERSION AS OF ${to}))
) AS r WHERE EXISTS (SELECT 1 FROM "shop"."visit_folded$refs" WHERE name = 'main' AND snapshot_id = ${current})) AS s
ON t."cdc_position" = s."cdc_position"
WHEN MATCHED AND s.cdc_ghost THEN DELETE
WHEN MATCHED AND false AND (t."url" IS DISTINCT FROM s."url"
    OR t."at" IS DISTINCT FROM s."at"
    OR t."cdc_committed_at" IS DISTINCT FROM s."cdc_committed_at") THEN UPDATE SET
  "url" = s."url",
  "at" = s."at",
  "cdc_committed_at" = s."cdc_committed_at"
WHEN MATCHED AND NOT false AND (coalesce(s."url" > t."url", t."url" IS NULL AND s."url" IS NOT NULL)
    OR coalesce(s."at" > t."at", t."at" IS NULL AND s."at" IS NOT NULL)
    OR coalesce(s."cdc_committed_at" > t."cdc_committed_at", t."cdc_committed_at" IS NULL AND s."cdc_committed_at" IS NOT NULL)) THEN UPDATE SET
  "url" = CASE WHEN t."url" IS NULL OR s."url" > t."url" THEN s."url" ELSE t."url" END,
  "at" = CASE WHEN t."at" IS NULL OR s."at" > t."at" THEN s."at" ELSE t."at" END,
  "cdc_committed_at" = CASE WHEN t."cdc_committed_at" IS NULL OR s."cdc_committed_at" > t."cdc_committed_at" THEN s."cdc_committed_at" ELSE t."cdc_committed_at" END
WHEN NOT MATCHED AND NOT s.cdc_ghost THEN INSERT ("url", "at", "cdc_position", "cdc_committed_at")
  VALUES (s."url", s."at", s."cdc_position", s."cdc_committed_at");
