-- Brings "tpcc"."order_line_folded" up to date: the keys that new files of the changelog
-- speak of are folded anew, whenever their rows arrived. icehose merge runs it,
-- the first time too, and keeps account. To run it yourself, replace
--   ${from}     the snapshot of the changelog that the last run read up to
--   ${to}       the changelog's newest snapshot
--   ${current}  the newest snapshot of the current table
-- and keep ${to} for the next run only after this one has succeeded: a run that
-- was killed, or that is repeated, does no harm. If another run has changed the
-- current table since ${current}, this one changes nothing: begin again.
MERGE INTO "tpcc"."order_line_folded" AS t
USING (SELECT * FROM (
WITH touched AS (
  SELECT c."ol_w_id" AS "ol_w_id", c."ol_d_id" AS "ol_d_id", c."ol_o_id" AS "ol_o_id", c."ol_number" AS "ol_number"
  FROM (SELECT * FROM "tpcc"."order_line" FOR VERSION AS OF ${to} WHERE "$path" NOT IN (SELECT "$path" FROM "tpcc"."order_line" FOR VERSION AS OF ${from})) AS c
  UNION
  SELECT CAST(json_extract_scalar(c."cdc_old_key", '$[0]') AS integer) AS "ol_w_id", CAST(json_extract_scalar(c."cdc_old_key", '$[1]') AS integer) AS "ol_d_id", CAST(json_extract_scalar(c."cdc_old_key", '$[2]') AS integer) AS "ol_o_id", CAST(json_extract_scalar(c."cdc_old_key", '$[3]') AS integer) AS "ol_number"
  FROM (SELECT * FROM "tpcc"."order_line" FOR VERSION AS OF ${to} WHERE "$path" NOT IN (SELECT "$path" FROM "tpcc"."order_line" FOR VERSION AS OF ${from})) AS c
  WHERE c."cdc_old_key" IS NOT NULL AND c."cdc_operation" <> 'delete'
  UNION
  SELECT "ol_w_id", "ol_d_id", "ol_o_id", "ol_number"
  FROM "tpcc"."order_line_folded"
  WHERE false
),
ends AS (
  SELECT c."ol_w_id" AS "ol_w_id", c."ol_d_id" AS "ol_d_id", c."ol_o_id" AS "ol_o_id", c."ol_number" AS "ol_number", c."cdc_position" AS cdc_end
  FROM "tpcc"."order_line" FOR VERSION AS OF ${to} AS c
  WHERE c."cdc_operation" = 'delete'
  UNION ALL
  SELECT CAST(json_extract_scalar(c."cdc_old_key", '$[0]') AS integer) AS "ol_w_id", CAST(json_extract_scalar(c."cdc_old_key", '$[1]') AS integer) AS "ol_d_id", CAST(json_extract_scalar(c."cdc_old_key", '$[2]') AS integer) AS "ol_o_id", CAST(json_extract_scalar(c."cdc_old_key", '$[3]') AS integer) AS "ol_number", c."cdc_position"
  FROM "tpcc"."order_line" FOR VERSION AS OF ${to} AS c
  WHERE c."cdc_old_key" IS NOT NULL AND c."cdc_operation" <> 'delete'
    AND (CAST(json_extract_scalar(c."cdc_old_key", '$[0]') AS integer) <> c."ol_w_id" OR CAST(json_extract_scalar(c."cdc_old_key", '$[1]') AS integer) <> c."ol_d_id" OR CAST(json_extract_scalar(c."cdc_old_key", '$[2]') AS integer) <> c."ol_o_id" OR CAST(json_extract_scalar(c."cdc_old_key", '$[3]') AS integer) <> c."ol_number")
),
ended AS (
  SELECT e."ol_w_id", e."ol_d_id", e."ol_o_id", e."ol_number", max(e.cdc_end) AS cdc_ended
  FROM ends AS e
  JOIN touched AS k ON e."ol_w_id" = k."ol_w_id" AND e."ol_d_id" = k."ol_d_id" AND e."ol_o_id" = k."ol_o_id" AND e."ol_number" = k."ol_number"
  GROUP BY e."ol_w_id", e."ol_d_id", e."ol_o_id", e."ol_number"
),
latest AS (
  SELECT a."ol_w_id", a."ol_d_id", a."ol_o_id", a."ol_number",
    CASE WHEN (a.cdc_4)[1] = a."cdc_position" THEN (a.cdc_4)[2] END AS "ol_i_id",
    CASE WHEN (a.cdc_5)[1] = a."cdc_position" THEN (a.cdc_5)[2] END AS "ol_supply_w_id",
    CASE WHEN (a.cdc_6)[1] = a."cdc_position" THEN (a.cdc_6)[2] END AS "ol_delivery_d",
    CASE WHEN (a.cdc_7)[1] = a."cdc_position" THEN (a.cdc_7)[2] END AS "ol_quantity",
    CASE WHEN (a.cdc_8)[1] = a."cdc_position" THEN (a.cdc_8)[2] END AS "ol_amount",
    CASE WHEN (a.cdc_9)[1] = a."cdc_position" THEN (a.cdc_9)[2] END AS "ol_dist_info",
    a."cdc_position",
    CASE WHEN (a.cdc_10)[1] = a."cdc_position" THEN (a.cdc_10)[2] END AS "cdc_committed_at"
  FROM (
    SELECT c."ol_w_id" AS "ol_w_id", c."ol_d_id" AS "ol_d_id", c."ol_o_id" AS "ol_o_id", c."ol_number" AS "ol_number",
      max(ROW(c."cdc_position", c."ol_i_id")) FILTER (WHERE c."ol_i_id" IS NOT NULL) AS cdc_4,
      max(ROW(c."cdc_position", c."ol_supply_w_id")) FILTER (WHERE c."ol_supply_w_id" IS NOT NULL) AS cdc_5,
      max(ROW(c."cdc_position", c."ol_delivery_d")) FILTER (WHERE c."ol_delivery_d" IS NOT NULL) AS cdc_6,
      max(ROW(c."cdc_position", c."ol_quantity")) FILTER (WHERE c."ol_quantity" IS NOT NULL) AS cdc_7,
      max(ROW(c."cdc_position", c."ol_amount")) FILTER (WHERE c."ol_amount" IS NOT NULL) AS cdc_8,
      max(ROW(c."cdc_position", c."ol_dist_info")) FILTER (WHERE c."ol_dist_info" IS NOT NULL) AS cdc_9,
      max(c."cdc_position") AS "cdc_position",
      max(ROW(c."cdc_position", c."cdc_committed_at")) FILTER (WHERE c."cdc_committed_at" IS NOT NULL) AS cdc_10
    FROM "tpcc"."order_line" FOR VERSION AS OF ${to} AS c
    JOIN touched AS k ON c."ol_w_id" = k."ol_w_id" AND c."ol_d_id" = k."ol_d_id" AND c."ol_o_id" = k."ol_o_id" AND c."ol_number" = k."ol_number"
    LEFT JOIN ended AS e ON c."ol_w_id" = e."ol_w_id" AND c."ol_d_id" = e."ol_d_id" AND c."ol_o_id" = e."ol_o_id" AND c."ol_number" = e."ol_number"
    WHERE c."cdc_operation" <> 'delete' AND (e.cdc_ended IS NULL OR c."cdc_position" > e.cdc_ended)
    GROUP BY c."ol_w_id", c."ol_d_id", c."ol_o_id", c."ol_number"
  ) AS a
)
SELECT
  k."ol_o_id",
  k."ol_d_id",
  k."ol_w_id",
  k."ol_number",
  l."ol_i_id" AS "ol_i_id",
  l."ol_supply_w_id" AS "ol_supply_w_id",
  l."ol_delivery_d" AS "ol_delivery_d",
  l."ol_quantity" AS "ol_quantity",
  l."ol_amount" AS "ol_amount",
  l."ol_dist_info" AS "ol_dist_info",
  CAST(NULL AS varchar) AS "cdc_unresolved",
  l."cdc_position" AS "cdc_position",
  CAST(l."cdc_committed_at" AT TIME ZONE 'UTC' AS timestamp(6)) AS "cdc_committed_at",
  e.cdc_ended
FROM touched AS k
LEFT JOIN latest AS l ON k."ol_w_id" = l."ol_w_id" AND k."ol_d_id" = l."ol_d_id" AND k."ol_o_id" = l."ol_o_id" AND k."ol_number" = l."ol_number"
LEFT JOIN ended AS e ON k."ol_w_id" = e."ol_w_id" AND k."ol_d_id" = e."ol_d_id" AND k."ol_o_id" = e."ol_o_id" AND k."ol_number" = e."ol_number"
) AS r WHERE EXISTS (SELECT 1 FROM "tpcc"."order_line_folded$refs" WHERE name = 'main' AND snapshot_id = ${current})) AS s
ON t."ol_w_id" = s."ol_w_id" AND t."ol_d_id" = s."ol_d_id" AND t."ol_o_id" = s."ol_o_id" AND t."ol_number" = s."ol_number"
WHEN MATCHED AND s."cdc_position" IS NULL AND (false OR t."cdc_position" <= s.cdc_ended) THEN DELETE
WHEN MATCHED AND s."cdc_position" IS NOT NULL AND (false OR t."cdc_position" <= s."cdc_position")
  AND (t."ol_i_id" IS DISTINCT FROM s."ol_i_id"
    OR t."ol_supply_w_id" IS DISTINCT FROM s."ol_supply_w_id"
    OR t."ol_delivery_d" IS DISTINCT FROM s."ol_delivery_d"
    OR t."ol_quantity" IS DISTINCT FROM s."ol_quantity"
    OR t."ol_amount" IS DISTINCT FROM s."ol_amount"
    OR t."ol_dist_info" IS DISTINCT FROM s."ol_dist_info"
    OR t."cdc_unresolved" IS DISTINCT FROM s."cdc_unresolved"
    OR t."cdc_position" IS DISTINCT FROM s."cdc_position"
    OR t."cdc_committed_at" IS DISTINCT FROM s."cdc_committed_at") THEN UPDATE SET
  "ol_i_id" = s."ol_i_id",
  "ol_supply_w_id" = s."ol_supply_w_id",
  "ol_delivery_d" = s."ol_delivery_d",
  "ol_quantity" = s."ol_quantity",
  "ol_amount" = s."ol_amount",
  "ol_dist_info" = s."ol_dist_info",
  "cdc_unresolved" = s."cdc_unresolved",
  "cdc_position" = s."cdc_position",
  "cdc_committed_at" = s."cdc_committed_at"
WHEN NOT MATCHED AND s."cdc_position" IS NOT NULL THEN INSERT ("ol_o_id", "ol_d_id", "ol_w_id", "ol_number", "ol_i_id", "ol_supply_w_id", "ol_delivery_d", "ol_quantity", "ol_amount", "ol_dist_info", "cdc_unresolved", "cdc_position", "cdc_committed_at")
  VALUES (s."ol_o_id", s."ol_d_id", s."ol_w_id", s."ol_number", s."ol_i_id", s."ol_supply_w_id", s."ol_delivery_d", s."ol_quantity", s."ol_amount", s."ol_dist_info", s."cdc_unresolved", s."cdc_position", s."cdc_committed_at");
