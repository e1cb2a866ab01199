-- Current rows: per key the changes above its last end (a delete, or a key change
-- away from it), per column the latest that carries it. cdc_unresolved lists columns
-- whose value the changelog does not give.
CREATE OR REPLACE VIEW "tpcc"."order_line_current" AS
WITH ends AS (
  SELECT c."ol_w_id" AS "ol_w_id", c."ol_d_id" AS "ol_d_id", c."ol_o_id" AS "ol_o_id", c."ol_number" AS "ol_number", c."cdc_position" AS cdc_end
  FROM "tpcc"."order_line" AS c
  WHERE c."cdc_operation" = 'delete'
  UNION ALL
  SELECT CAST(json_extract_scalar(c."cdc_old_key", '$[0]') AS integer) AS "ol_w_id", CAST(json_extract_scalar(c."cdc_old_key", '$[1]') AS integer) AS "ol_d_id", CAST(json_extract_scalar(c."cdc_old_key", '$[2]') AS integer) AS "ol_o_id", CAST(json_extract_scalar(c."cdc_old_key", '$[3]') AS integer) AS "ol_number", c."cdc_position"
  FROM "tpcc"."order_line" AS c
  WHERE c."cdc_old_key" IS NOT NULL AND c."cdc_operation" <> 'delete'
    AND (CAST(json_extract_scalar(c."cdc_old_key", '$[0]') AS integer) <> c."ol_w_id" OR CAST(json_extract_scalar(c."cdc_old_key", '$[1]') AS integer) <> c."ol_d_id" OR CAST(json_extract_scalar(c."cdc_old_key", '$[2]') AS integer) <> c."ol_o_id" OR CAST(json_extract_scalar(c."cdc_old_key", '$[3]') AS integer) <> c."ol_number")
),
ended AS (
  SELECT e."ol_w_id", e."ol_d_id", e."ol_o_id", e."ol_number", max(e.cdc_end) AS cdc_ended
  FROM ends AS e
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
    FROM "tpcc"."order_line" AS c
    LEFT JOIN ended AS e ON c."ol_w_id" = e."ol_w_id" AND c."ol_d_id" = e."ol_d_id" AND c."ol_o_id" = e."ol_o_id" AND c."ol_number" = e."ol_number"
    WHERE c."cdc_operation" <> 'delete' AND (e.cdc_ended IS NULL OR c."cdc_position" > e.cdc_ended)
    GROUP BY c."ol_w_id", c."ol_d_id", c."ol_o_id", c."ol_number"
  ) AS a
)
SELECT
  l."ol_o_id",
  l."ol_d_id",
  l."ol_w_id",
  l."ol_number",
  l."ol_i_id" AS "ol_i_id",
  l."ol_supply_w_id" AS "ol_supply_w_id",
  l."ol_delivery_d" AS "ol_delivery_d",
  l."ol_quantity" AS "ol_quantity",
  l."ol_amount" AS "ol_amount",
  l."ol_dist_info" AS "ol_dist_info",
  CAST(NULL AS varchar) AS "cdc_unresolved",
  l."cdc_position" AS "cdc_position",
  CAST(l."cdc_committed_at" AT TIME ZONE 'UTC' AS timestamp(6)) AS "cdc_committed_at"
FROM latest AS l;
