-- Brings the folded table up to date for the keys that changed within the window.
-- Run it without the line marked WINDOW the first time, after a load or a reload,
-- and after deliveries that were late by more than the window.
MERGE INTO "tpcc"."order_line_folded" AS t
USING (
  WITH recent AS (
    SELECT *
    FROM "tpcc"."order_line"
    WHERE "cdc_committed_at" >= current_timestamp - INTERVAL '7' DAY -- WINDOW
  ),
  touched AS (
    SELECT "ol_w_id" AS "ol_w_id", "ol_d_id" AS "ol_d_id", "ol_o_id" AS "ol_o_id", "ol_number" AS "ol_number"
    FROM recent
    UNION
    SELECT CAST(json_extract_scalar("cdc_old_key", '$[0]') AS integer) AS "ol_w_id", CAST(json_extract_scalar("cdc_old_key", '$[1]') AS integer) AS "ol_d_id", CAST(json_extract_scalar("cdc_old_key", '$[2]') AS integer) AS "ol_o_id", CAST(json_extract_scalar("cdc_old_key", '$[3]') AS integer) AS "ol_number"
    FROM recent
    WHERE "cdc_old_key" IS NOT NULL AND "cdc_operation" <> 'delete'
  )
  SELECT k."ol_w_id", k."ol_d_id", k."ol_o_id", k."ol_number", c."ol_i_id", c."ol_supply_w_id", c."ol_delivery_d", c."ol_quantity", c."ol_amount", c."ol_dist_info", c."cdc_position", c."cdc_committed_at", c."cdc_unresolved"
  FROM touched AS k
  LEFT JOIN "tpcc"."order_line_current" AS c ON k."ol_w_id" = c."ol_w_id" AND k."ol_d_id" = c."ol_d_id" AND k."ol_o_id" = c."ol_o_id" AND k."ol_number" = c."ol_number"
) AS s
ON t."ol_w_id" = s."ol_w_id" AND t."ol_d_id" = s."ol_d_id" AND t."ol_o_id" = s."ol_o_id" AND t."ol_number" = s."ol_number"
WHEN MATCHED AND s."cdc_position" IS NULL THEN DELETE
WHEN MATCHED THEN UPDATE SET
  "ol_i_id" = s."ol_i_id",
  "ol_supply_w_id" = s."ol_supply_w_id",
  "ol_delivery_d" = s."ol_delivery_d",
  "ol_quantity" = s."ol_quantity",
  "ol_amount" = s."ol_amount",
  "ol_dist_info" = s."ol_dist_info",
  "cdc_position" = s."cdc_position",
  "cdc_committed_at" = s."cdc_committed_at",
  "cdc_unresolved" = s."cdc_unresolved"
WHEN NOT MATCHED AND s."cdc_position" IS NOT NULL THEN INSERT ("ol_o_id", "ol_d_id", "ol_w_id", "ol_number", "ol_i_id", "ol_supply_w_id", "ol_delivery_d", "ol_quantity", "ol_amount", "ol_dist_info", "cdc_position", "cdc_committed_at", "cdc_unresolved")
  VALUES (s."ol_o_id", s."ol_d_id", s."ol_w_id", s."ol_number", s."ol_i_id", s."ol_supply_w_id", s."ol_delivery_d", s."ol_quantity", s."ol_amount", s."ol_dist_info", s."cdc_position", s."cdc_committed_at", s."cdc_unresolved");
