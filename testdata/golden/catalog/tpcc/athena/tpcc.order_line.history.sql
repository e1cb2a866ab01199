-- Every row that there ever was, from cdc_position on and until cdc_valid_to_position,
-- which is null for current rows. The times are those at which the source committed:
-- of a load those in loads: of the pipeline file, and of a repair that of its reading.
-- Without cdc_valid_from a row was there from the beginning, as those of a first load.
-- A row that a change with an earlier time, or none, has replaced was there at no time.
-- The rows as of a position, or of a time:
--   SELECT * FROM "tpcc"."order_line_history"
--   WHERE "cdc_position" <= 'POSITION' AND ("cdc_valid_to_position" IS NULL OR "cdc_valid_to_position" > 'POSITION')
--   SELECT * FROM "tpcc"."order_line_history"
--   WHERE ("cdc_valid_from" IS NULL OR "cdc_valid_from" <= TIMESTAMP 'YYYY-MM-DD HH:MM:SS') AND ("cdc_valid_to_position" IS NULL OR "cdc_valid_to" > TIMESTAMP 'YYYY-MM-DD HH:MM:SS')
CREATE OR REPLACE VIEW "tpcc"."order_line_history" AS
WITH events AS (
  SELECT c."ol_w_id" AS "ol_w_id", c."ol_d_id" AS "ol_d_id", c."ol_o_id" AS "ol_o_id", c."ol_number" AS "ol_number", c."ol_i_id", c."ol_supply_w_id", c."ol_delivery_d", c."ol_quantity", c."ol_amount", c."ol_dist_info", c."cdc_position", coalesce(c."cdc_committed_at", CASE WHEN NOT (substr(c."cdc_position", 39, 1) = '0') OR substr(c."cdc_position", 6, 32) = '00000000000000000000000000000000' THEN NULL ELSE CAST(from_unixtime_nanos(from_base(substr(c."cdc_position", 41, 14), 16) * 1000) AS timestamp(6) with time zone) END) AS cdc_time, c."cdc_operation", c."cdc_absent", c."cdc_old_key"
  FROM "tpcc"."order_line" AS c
  UNION ALL
  SELECT CAST(json_extract_scalar(c."cdc_old_key", '$[0]') AS integer) AS "ol_w_id", CAST(json_extract_scalar(c."cdc_old_key", '$[1]') AS integer) AS "ol_d_id", CAST(json_extract_scalar(c."cdc_old_key", '$[2]') AS integer) AS "ol_o_id", CAST(json_extract_scalar(c."cdc_old_key", '$[3]') AS integer) AS "ol_number", CAST(NULL AS integer), CAST(NULL AS integer), CAST(NULL AS timestamp(6)), CAST(NULL AS decimal(2,0)), CAST(NULL AS decimal(6,2)), CAST(NULL AS varchar), c."cdc_position", coalesce(c."cdc_committed_at", CASE WHEN NOT (substr(c."cdc_position", 39, 1) = '0') OR substr(c."cdc_position", 6, 32) = '00000000000000000000000000000000' THEN NULL ELSE CAST(from_unixtime_nanos(from_base(substr(c."cdc_position", 41, 14), 16) * 1000) AS timestamp(6) with time zone) END) AS cdc_time, 'moved', CAST(NULL AS varchar), CAST(NULL AS varchar)
  FROM "tpcc"."order_line" AS c
  WHERE c."cdc_old_key" IS NOT NULL AND c."cdc_operation" <> 'delete'
    AND (CAST(json_extract_scalar(c."cdc_old_key", '$[0]') AS integer) <> c."ol_w_id" OR CAST(json_extract_scalar(c."cdc_old_key", '$[1]') AS integer) <> c."ol_d_id" OR CAST(json_extract_scalar(c."cdc_old_key", '$[2]') AS integer) <> c."ol_o_id" OR CAST(json_extract_scalar(c."cdc_old_key", '$[3]') AS integer) <> c."ol_number")
),
once AS (
  SELECT c."ol_w_id", c."ol_d_id", c."ol_o_id", c."ol_number",
    max(c."ol_i_id") AS "ol_i_id",
    max(c."ol_supply_w_id") AS "ol_supply_w_id",
    max(c."ol_delivery_d") AS "ol_delivery_d",
    max(c."ol_quantity") AS "ol_quantity",
    max(c."ol_amount") AS "ol_amount",
    max(c."ol_dist_info") AS "ol_dist_info",
    c."cdc_position", max(c.cdc_time) AS cdc_time,
    CASE WHEN count(CASE WHEN c."cdc_operation" IN ('delete', 'moved') THEN 1 END) > 0 THEN 'delete' ELSE max(c."cdc_operation") END AS "cdc_operation",
    max(c."cdc_old_key") AS "cdc_old_key"
  FROM events AS c
  GROUP BY c."ol_w_id", c."ol_d_id", c."ol_o_id", c."ol_number", c."cdc_position"
),
lives AS (
  SELECT c.*,
    lead(c."cdc_position") OVER (PARTITION BY c."ol_w_id", c."ol_d_id", c."ol_o_id", c."ol_number" ORDER BY c."cdc_position") AS "cdc_valid_to_position",
    CASE WHEN count(*) OVER (PARTITION BY c."ol_w_id", c."ol_d_id", c."ol_o_id", c."ol_number" ORDER BY c."cdc_position" DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) = count(c.cdc_time) OVER (PARTITION BY c."ol_w_id", c."ol_d_id", c."ol_o_id", c."ol_number" ORDER BY c."cdc_position" DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) THEN min(c.cdc_time) OVER (PARTITION BY c."ol_w_id", c."ol_d_id", c."ol_o_id", c."ol_number" ORDER BY c."cdc_position" DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) END AS "cdc_valid_to",
    count(CASE WHEN c."cdc_operation" = 'delete' OR c."cdc_old_key" IS NOT NULL THEN 1 END) OVER (PARTITION BY c."ol_w_id", c."ol_d_id", c."ol_o_id", c."ol_number" ORDER BY c."cdc_position" ROWS UNBOUNDED PRECEDING) AS cdc_life
  FROM once AS c
),
resolved AS (
  SELECT
    c."ol_o_id",
    c."ol_d_id",
    c."ol_w_id",
    c."ol_number",
    c."ol_i_id" AS "ol_i_id",
    c."ol_supply_w_id" AS "ol_supply_w_id",
    c."ol_delivery_d" AS "ol_delivery_d",
    c."ol_quantity" AS "ol_quantity",
    c."ol_amount" AS "ol_amount",
    c."ol_dist_info" AS "ol_dist_info",
    CAST(NULL AS varchar) AS "cdc_unresolved",
    c."cdc_operation",
    c."cdc_position",
    CAST(c.cdc_time AT TIME ZONE 'UTC' AS timestamp(6)) AS "cdc_valid_from",
    c."cdc_valid_to_position" AS "cdc_valid_to_position",
    CAST(c."cdc_valid_to" AT TIME ZONE 'UTC' AS timestamp(6)) AS "cdc_valid_to"
  FROM lives AS c
)
SELECT "ol_o_id", "ol_d_id", "ol_w_id", "ol_number", "ol_i_id", "ol_supply_w_id", "ol_delivery_d", "ol_quantity", "ol_amount", "ol_dist_info", "cdc_unresolved", "cdc_position", "cdc_valid_from", "cdc_valid_to_position", "cdc_valid_to"
FROM resolved
WHERE "cdc_operation" <> 'delete';
