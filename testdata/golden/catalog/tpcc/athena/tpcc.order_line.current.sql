-- Current rows: per key the changes above its last end (a delete, or a key change
-- away from it), per column the latest that carries it. cdc_unresolved lists columns
-- whose value no change of this key carries.
CREATE OR REPLACE VIEW "tpcc"."order_line_current" AS
WITH ended AS (
  SELECT "ol_w_id", "ol_d_id", "ol_o_id", "ol_number", max("cdc_position") AS cdc_ended
  FROM (
    SELECT "ol_w_id", "ol_d_id", "ol_o_id", "ol_number", "cdc_position"
    FROM "tpcc"."order_line"
    WHERE "cdc_operation" = 'delete'
    UNION ALL
    SELECT CAST(json_extract_scalar("cdc_old_key", '$[0]') AS integer) AS "ol_w_id", CAST(json_extract_scalar("cdc_old_key", '$[1]') AS integer) AS "ol_d_id", CAST(json_extract_scalar("cdc_old_key", '$[2]') AS integer) AS "ol_o_id", CAST(json_extract_scalar("cdc_old_key", '$[3]') AS integer) AS "ol_number", "cdc_position"
    FROM "tpcc"."order_line"
    WHERE "cdc_old_key" IS NOT NULL AND "cdc_operation" <> 'delete'
  ) AS ends
  GROUP BY "ol_w_id", "ol_d_id", "ol_o_id", "ol_number"
),
alive AS (
  SELECT c.*
  FROM "tpcc"."order_line" AS c
  LEFT JOIN ended AS e ON c."ol_w_id" = e."ol_w_id" AND c."ol_d_id" = e."ol_d_id" AND c."ol_o_id" = e."ol_o_id" AND c."ol_number" = e."ol_number"
  WHERE c."cdc_operation" <> 'delete' AND (e.cdc_ended IS NULL OR c."cdc_position" > e.cdc_ended)
)
SELECT
  "ol_o_id",
  "ol_d_id",
  "ol_w_id",
  "ol_number",
  max_by("ol_i_id", "cdc_position") AS "ol_i_id",
  max_by("ol_supply_w_id", "cdc_position") AS "ol_supply_w_id",
  max_by("ol_delivery_d", "cdc_position") AS "ol_delivery_d",
  max_by("ol_quantity", "cdc_position") AS "ol_quantity",
  max_by("ol_amount", "cdc_position") AS "ol_amount",
  max_by("ol_dist_info", "cdc_position") AS "ol_dist_info",
  max("cdc_position") AS "cdc_position",
  CAST(max_by("cdc_committed_at", "cdc_position") AT TIME ZONE 'UTC' AS timestamp(6)) AS "cdc_committed_at",
  CAST(NULL AS varchar) AS "cdc_unresolved"
FROM alive
GROUP BY "ol_w_id", "ol_d_id", "ol_o_id", "ol_number";
