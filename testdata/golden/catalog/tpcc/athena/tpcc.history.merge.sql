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
SELECT r."h_c_id", r."h_c_d_id", r."h_c_w_id", r."h_d_id", r."h_w_id", r."h_date", r."h_amount", r."h_data", r."cdc_position", r."cdc_committed_at", false AS cdc_ghost
FROM (
SELECT
  c."h_c_id" AS "h_c_id",
  c."h_c_d_id" AS "h_c_d_id",
  c."h_c_w_id" AS "h_c_w_id",
  c."h_d_id" AS "h_d_id",
  c."h_w_id" AS "h_w_id",
  c."h_date" AS "h_date",
  c."h_amount" AS "h_amount",
  c."h_data" AS "h_data",
  c."cdc_position" AS "cdc_position",
  CAST(c."cdc_committed_at" AT TIME ZONE 'UTC' AS timestamp(6)) AS "cdc_committed_at",
  row_number() OVER (PARTITION BY c."cdc_position" ORDER BY c."cdc_committed_at", c."h_c_id", c."h_c_d_id", c."h_c_w_id", c."h_d_id", c."h_w_id", c."h_date", c."h_amount", c."h_data") AS cdc_copy
FROM (SELECT * FROM "tpcc"."history" FOR VERSION AS OF ${to} WHERE "$path" NOT IN (SELECT "$path" FROM "tpcc"."history" FOR VERSION AS OF ${from})) AS c
CROSS JOIN newest AS n
WHERE c."cdc_operation" IN ('load', 'insert')
  AND (
  n.cdc_floor IS NULL
  OR (substr(c."cdc_position", 39, 1) = '0' AND substr(c."cdc_position", 1, 37) = n.cdc_floor)
  OR (NOT substr(c."cdc_position", 39, 1) = '0' AND (substr(c."cdc_position", 1, 37) > n.cdc_floor OR (substr(c."cdc_position", 1, 37) = n.cdc_floor AND substr(c."cdc_position", 6, 32) = '00000000000000000000000000000000')))
)
) AS r
WHERE r.cdc_copy = 1
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
WHEN MATCHED AND false THEN UPDATE SET
  "h_c_id" = s."h_c_id",
  "h_c_d_id" = s."h_c_d_id",
  "h_c_w_id" = s."h_c_w_id",
  "h_d_id" = s."h_d_id",
  "h_w_id" = s."h_w_id",
  "h_date" = s."h_date",
  "h_amount" = s."h_amount",
  "h_data" = s."h_data",
  "cdc_position" = s."cdc_position",
  "cdc_committed_at" = s."cdc_committed_at"
WHEN NOT MATCHED AND NOT s.cdc_ghost THEN INSERT ("h_c_id", "h_c_d_id", "h_c_w_id", "h_d_id", "h_w_id", "h_date", "h_amount", "h_data", "cdc_position", "cdc_committed_at")
  VALUES (s."h_c_id", s."h_c_d_id", s."h_c_w_id", s."h_d_id", s."h_w_id", s."h_date", s."h_amount", s."h_data", s."cdc_position", s."cdc_committed_at");
