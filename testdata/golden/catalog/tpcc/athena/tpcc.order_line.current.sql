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
  SELECT c."ol_w_id" AS "ol_w_id", c."ol_d_id" AS "ol_d_id", c."ol_o_id" AS "ol_o_id", c."ol_number" AS "ol_number",
    max_by(c."ol_i_id", c."cdc_position") AS "ol_i_id",
    max_by(c."ol_supply_w_id", c."cdc_position") AS "ol_supply_w_id",
    max_by(c."ol_delivery_d", c."cdc_position") AS "ol_delivery_d",
    max_by(c."ol_quantity", c."cdc_position") AS "ol_quantity",
    max_by(c."ol_amount", c."cdc_position") AS "ol_amount",
    max_by(c."ol_dist_info", c."cdc_position") AS "ol_dist_info",
    max(c."cdc_position") AS "cdc_position",
    max_by(c."cdc_committed_at", c."cdc_position") AS "cdc_committed_at"
  FROM "tpcc"."order_line" AS c
  LEFT JOIN ended AS e ON c."ol_w_id" = e."ol_w_id" AND c."ol_d_id" = e."ol_d_id" AND c."ol_o_id" = e."ol_o_id" AND c."ol_number" = e."ol_number"
  WHERE c."cdc_operation" <> 'delete' AND (e.cdc_ended IS NULL OR c."cdc_position" > e.cdc_ended)
  GROUP BY c."ol_w_id", c."ol_d_id", c."ol_o_id", c."ol_number"
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
