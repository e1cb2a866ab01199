-- Brings "tpcc"."history_folded" up to date: the keys that new files of the changelog
-- speak of are folded anew, whenever their rows arrived. icehose merge runs it,
-- the first time too, and keeps account. To run it yourself, replace
--   ${from}     the snapshot of the changelog that the last run read up to
--   ${to}       the changelog's newest snapshot
--   ${current}  the newest snapshot of the current table
-- and keep ${to} for the next run only after this one has succeeded: a run that
-- was killed, or that is repeated, does no harm. If another run has changed the
-- current table since ${current}, this one changes nothing: begin again.
MERGE INTO "tpcc"."history_folded" AS t
USING (SELECT * FROM (
WITH newest AS (
  SELECT max(substr(c."cdc_position", 1, 37)) AS cdc_floor
  FROM "tpcc"."history" FOR VERSION AS OF ${to} AS c
  WHERE substr(c."cdc_position", 39, 1) = '0'
)
SELECT
  max(c."h_c_id") AS "h_c_id",
  max(c."h_c_d_id") AS "h_c_d_id",
  max(c."h_c_w_id") AS "h_c_w_id",
  max(c."h_d_id") AS "h_d_id",
  max(c."h_w_id") AS "h_w_id",
  max(c."h_date") AS "h_date",
  max(c."h_amount") AS "h_amount",
  max(c."h_data") AS "h_data",
  c."cdc_position" AS "cdc_position",
  CAST(max(c."cdc_committed_at") AT TIME ZONE 'UTC' AS timestamp(6)) AS "cdc_committed_at", false AS cdc_ghost
FROM (SELECT * FROM "tpcc"."history" FOR VERSION AS OF ${to} WHERE "$path" NOT IN (SELECT "$path" FROM "tpcc"."history" FOR VERSION AS OF ${from})) AS c
CROSS JOIN newest AS n
WHERE c."cdc_operation" IN ('load', 'insert')
  AND (
  n.cdc_floor IS NULL
  OR (substr(c."cdc_position", 39, 1) = '0' AND substr(c."cdc_position", 1, 37) = n.cdc_floor)
  OR (NOT substr(c."cdc_position", 39, 1) = '0' AND (substr(c."cdc_position", 1, 37) > n.cdc_floor OR (substr(c."cdc_position", 1, 37) = n.cdc_floor AND substr(c."cdc_position", 6, 32) = '00000000000000000000000000000000')))
)
GROUP BY c."cdc_position"
UNION ALL
SELECT c."h_c_id", c."h_c_d_id", c."h_c_w_id", c."h_d_id", c."h_w_id", c."h_date", c."h_amount", c."h_data", c."cdc_position", c."cdc_committed_at", true
FROM "tpcc"."history_folded" AS c
CROSS JOIN newest AS n
WHERE NOT (
  n.cdc_floor IS NULL
  OR (substr(c."cdc_position", 39, 1) = '0' AND substr(c."cdc_position", 1, 37) = n.cdc_floor)
  OR (NOT substr(c."cdc_position", 39, 1) = '0' AND (substr(c."cdc_position", 1, 37) > n.cdc_floor OR (substr(c."cdc_position", 1, 37) = n.cdc_floor AND substr(c."cdc_position", 6, 32) = '00000000000000000000000000000000')))
)
  OR (false AND c."cdc_position" NOT IN (SELECT "cdc_position" FROM "tpcc"."history" FOR VERSION AS OF ${to}))
) AS r WHERE EXISTS (SELECT 1 FROM "tpcc"."history_folded$refs" WHERE name = 'main' AND snapshot_id = ${current})) AS s
ON t."cdc_position" = s."cdc_position"
WHEN MATCHED AND s.cdc_ghost THEN DELETE
WHEN MATCHED AND false AND (t."h_c_id" IS DISTINCT FROM s."h_c_id"
    OR t."h_c_d_id" IS DISTINCT FROM s."h_c_d_id"
    OR t."h_c_w_id" IS DISTINCT FROM s."h_c_w_id"
    OR t."h_d_id" IS DISTINCT FROM s."h_d_id"
    OR t."h_w_id" IS DISTINCT FROM s."h_w_id"
    OR t."h_date" IS DISTINCT FROM s."h_date"
    OR t."h_amount" IS DISTINCT FROM s."h_amount"
    OR t."h_data" IS DISTINCT FROM s."h_data"
    OR t."cdc_committed_at" IS DISTINCT FROM s."cdc_committed_at") THEN UPDATE SET
  "h_c_id" = s."h_c_id",
  "h_c_d_id" = s."h_c_d_id",
  "h_c_w_id" = s."h_c_w_id",
  "h_d_id" = s."h_d_id",
  "h_w_id" = s."h_w_id",
  "h_date" = s."h_date",
  "h_amount" = s."h_amount",
  "h_data" = s."h_data",
  "cdc_committed_at" = s."cdc_committed_at"
WHEN MATCHED AND NOT false AND (coalesce(s."h_c_id" > t."h_c_id", t."h_c_id" IS NULL AND s."h_c_id" IS NOT NULL)
    OR coalesce(s."h_c_d_id" > t."h_c_d_id", t."h_c_d_id" IS NULL AND s."h_c_d_id" IS NOT NULL)
    OR coalesce(s."h_c_w_id" > t."h_c_w_id", t."h_c_w_id" IS NULL AND s."h_c_w_id" IS NOT NULL)
    OR coalesce(s."h_d_id" > t."h_d_id", t."h_d_id" IS NULL AND s."h_d_id" IS NOT NULL)
    OR coalesce(s."h_w_id" > t."h_w_id", t."h_w_id" IS NULL AND s."h_w_id" IS NOT NULL)
    OR coalesce(s."h_date" > t."h_date", t."h_date" IS NULL AND s."h_date" IS NOT NULL)
    OR coalesce(s."h_amount" > t."h_amount", t."h_amount" IS NULL AND s."h_amount" IS NOT NULL)
    OR coalesce(s."h_data" > t."h_data", t."h_data" IS NULL AND s."h_data" IS NOT NULL)
    OR coalesce(s."cdc_committed_at" > t."cdc_committed_at", t."cdc_committed_at" IS NULL AND s."cdc_committed_at" IS NOT NULL)) THEN UPDATE SET
  "h_c_id" = CASE WHEN t."h_c_id" IS NULL OR s."h_c_id" > t."h_c_id" THEN s."h_c_id" ELSE t."h_c_id" END,
  "h_c_d_id" = CASE WHEN t."h_c_d_id" IS NULL OR s."h_c_d_id" > t."h_c_d_id" THEN s."h_c_d_id" ELSE t."h_c_d_id" END,
  "h_c_w_id" = CASE WHEN t."h_c_w_id" IS NULL OR s."h_c_w_id" > t."h_c_w_id" THEN s."h_c_w_id" ELSE t."h_c_w_id" END,
  "h_d_id" = CASE WHEN t."h_d_id" IS NULL OR s."h_d_id" > t."h_d_id" THEN s."h_d_id" ELSE t."h_d_id" END,
  "h_w_id" = CASE WHEN t."h_w_id" IS NULL OR s."h_w_id" > t."h_w_id" THEN s."h_w_id" ELSE t."h_w_id" END,
  "h_date" = CASE WHEN t."h_date" IS NULL OR s."h_date" > t."h_date" THEN s."h_date" ELSE t."h_date" END,
  "h_amount" = CASE WHEN t."h_amount" IS NULL OR s."h_amount" > t."h_amount" THEN s."h_amount" ELSE t."h_amount" END,
  "h_data" = CASE WHEN t."h_data" IS NULL OR s."h_data" > t."h_data" THEN s."h_data" ELSE t."h_data" END,
  "cdc_committed_at" = CASE WHEN t."cdc_committed_at" IS NULL OR s."cdc_committed_at" > t."cdc_committed_at" THEN s."cdc_committed_at" ELSE t."cdc_committed_at" END
WHEN NOT MATCHED AND NOT s.cdc_ghost THEN INSERT ("h_c_id", "h_c_d_id", "h_c_w_id", "h_d_id", "h_w_id", "h_date", "h_amount", "h_data", "cdc_position", "cdc_committed_at")
  VALUES (s."h_c_id", s."h_c_d_id", s."h_c_w_id", s."h_d_id", s."h_w_id", s."h_date", s."h_amount", s."h_data", s."cdc_position", s."cdc_committed_at");
