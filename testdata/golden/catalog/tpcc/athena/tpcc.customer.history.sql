-- Every row that a key ever had, from cdc_position on and until cdc_valid_to_position,
-- which is null for current rows. The times are those at which the source committed.
-- The rows as of a position, or of a time:
--   SELECT * FROM "tpcc"."customer_history"
--   WHERE "cdc_position" <= 'POSITION' AND ("cdc_valid_to_position" IS NULL OR "cdc_valid_to_position" > 'POSITION')
--   SELECT * FROM "tpcc"."customer_history"
--   WHERE "cdc_valid_from" <= TIMESTAMP 'YYYY-MM-DD HH:MM:SS' AND ("cdc_valid_to" IS NULL OR "cdc_valid_to" > TIMESTAMP 'YYYY-MM-DD HH:MM:SS')
CREATE OR REPLACE VIEW "tpcc"."customer_history" AS
WITH events AS (
  SELECT c."c_w_id" AS "c_w_id", c."c_d_id" AS "c_d_id", c."c_id" AS "c_id", c."c_first", c."c_middle", c."c_last", c."c_street_1", c."c_street_2", c."c_city", c."c_state", c."c_zip", c."c_phone", c."c_since", c."c_credit", c."c_credit_lim", c."c_discount", c."c_balance", c."c_ytd_payment", c."c_payment_cnt", c."c_delivery_cnt", c."c_data", c."cdc_position", c."cdc_committed_at", c."cdc_operation", c."cdc_absent", c."cdc_old_key"
  FROM "tpcc"."customer" AS c
  UNION ALL
  SELECT CAST(json_extract_scalar(c."cdc_old_key", '$[0]') AS integer) AS "c_w_id", CAST(json_extract_scalar(c."cdc_old_key", '$[1]') AS integer) AS "c_d_id", CAST(json_extract_scalar(c."cdc_old_key", '$[2]') AS integer) AS "c_id", CAST(NULL AS varchar), CAST(NULL AS varchar), CAST(NULL AS varchar), CAST(NULL AS varchar), CAST(NULL AS varchar), CAST(NULL AS varchar), CAST(NULL AS varchar), CAST(NULL AS varchar), CAST(NULL AS varchar), CAST(NULL AS timestamp(6)), CAST(NULL AS varchar), CAST(NULL AS decimal(12,2)), CAST(NULL AS decimal(4,4)), CAST(NULL AS decimal(12,2)), CAST(NULL AS decimal(12,2)), CAST(NULL AS decimal(4,0)), CAST(NULL AS decimal(4,0)), CAST(NULL AS varchar), c."cdc_position", c."cdc_committed_at", 'moved', CAST(NULL AS varchar), CAST(NULL AS varchar)
  FROM "tpcc"."customer" AS c
  WHERE c."cdc_old_key" IS NOT NULL AND c."cdc_operation" <> 'delete'
    AND (CAST(json_extract_scalar(c."cdc_old_key", '$[0]') AS integer) <> c."c_w_id" OR CAST(json_extract_scalar(c."cdc_old_key", '$[1]') AS integer) <> c."c_d_id" OR CAST(json_extract_scalar(c."cdc_old_key", '$[2]') AS integer) <> c."c_id")
),
once AS (
  SELECT c.*, row_number() OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id", c."cdc_position" ORDER BY c."cdc_operation") AS cdc_copy
  FROM events AS c
),
lives AS (
  SELECT c.*,
    lead(c."cdc_position") OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id" ORDER BY c."cdc_position") AS "cdc_valid_to_position",
    lead(c."cdc_committed_at") OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id" ORDER BY c."cdc_position") AS "cdc_valid_to",
    count(CASE WHEN c."cdc_operation" IN ('delete', 'moved') OR c."cdc_old_key" IS NOT NULL THEN 1 END) OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id" ORDER BY c."cdc_position" ROWS UNBOUNDED PRECEDING) AS cdc_life
  FROM once AS c
  WHERE c.cdc_copy = 1
),
resolved AS (
  SELECT
    c."c_id",
    c."c_d_id",
    c."c_w_id",
    element_at(last_value(CASE WHEN c."cdc_operation" NOT IN ('delete', 'moved') AND NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_first') THEN ARRAY[c."c_first"] END) IGNORE NULLS OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id", c.cdc_life ORDER BY c."cdc_position" ROWS UNBOUNDED PRECEDING), 1) AS "c_first",
    element_at(last_value(CASE WHEN c."cdc_operation" NOT IN ('delete', 'moved') AND NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_middle') THEN ARRAY[c."c_middle"] END) IGNORE NULLS OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id", c.cdc_life ORDER BY c."cdc_position" ROWS UNBOUNDED PRECEDING), 1) AS "c_middle",
    element_at(last_value(CASE WHEN c."cdc_operation" NOT IN ('delete', 'moved') AND NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_last') THEN ARRAY[c."c_last"] END) IGNORE NULLS OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id", c.cdc_life ORDER BY c."cdc_position" ROWS UNBOUNDED PRECEDING), 1) AS "c_last",
    element_at(last_value(CASE WHEN c."cdc_operation" NOT IN ('delete', 'moved') AND NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_street_1') THEN ARRAY[c."c_street_1"] END) IGNORE NULLS OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id", c.cdc_life ORDER BY c."cdc_position" ROWS UNBOUNDED PRECEDING), 1) AS "c_street_1",
    element_at(last_value(CASE WHEN c."cdc_operation" NOT IN ('delete', 'moved') AND NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_street_2') THEN ARRAY[c."c_street_2"] END) IGNORE NULLS OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id", c.cdc_life ORDER BY c."cdc_position" ROWS UNBOUNDED PRECEDING), 1) AS "c_street_2",
    element_at(last_value(CASE WHEN c."cdc_operation" NOT IN ('delete', 'moved') AND NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_city') THEN ARRAY[c."c_city"] END) IGNORE NULLS OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id", c.cdc_life ORDER BY c."cdc_position" ROWS UNBOUNDED PRECEDING), 1) AS "c_city",
    element_at(last_value(CASE WHEN c."cdc_operation" NOT IN ('delete', 'moved') AND NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_state') THEN ARRAY[c."c_state"] END) IGNORE NULLS OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id", c.cdc_life ORDER BY c."cdc_position" ROWS UNBOUNDED PRECEDING), 1) AS "c_state",
    element_at(last_value(CASE WHEN c."cdc_operation" NOT IN ('delete', 'moved') AND NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_zip') THEN ARRAY[c."c_zip"] END) IGNORE NULLS OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id", c.cdc_life ORDER BY c."cdc_position" ROWS UNBOUNDED PRECEDING), 1) AS "c_zip",
    element_at(last_value(CASE WHEN c."cdc_operation" NOT IN ('delete', 'moved') AND NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_phone') THEN ARRAY[c."c_phone"] END) IGNORE NULLS OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id", c.cdc_life ORDER BY c."cdc_position" ROWS UNBOUNDED PRECEDING), 1) AS "c_phone",
    c."c_since" AS "c_since",
    element_at(last_value(CASE WHEN c."cdc_operation" NOT IN ('delete', 'moved') AND NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_credit') THEN ARRAY[c."c_credit"] END) IGNORE NULLS OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id", c.cdc_life ORDER BY c."cdc_position" ROWS UNBOUNDED PRECEDING), 1) AS "c_credit",
    c."c_credit_lim" AS "c_credit_lim",
    c."c_discount" AS "c_discount",
    c."c_balance" AS "c_balance",
    c."c_ytd_payment" AS "c_ytd_payment",
    c."c_payment_cnt" AS "c_payment_cnt",
    c."c_delivery_cnt" AS "c_delivery_cnt",
    element_at(last_value(CASE WHEN c."cdc_operation" NOT IN ('delete', 'moved') AND NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_data') THEN ARRAY[c."c_data"] END) IGNORE NULLS OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id", c.cdc_life ORDER BY c."cdc_position" ROWS UNBOUNDED PRECEDING), 1) AS "c_data",
    nullif(array_join(ARRAY[
          CASE WHEN last_value(CASE WHEN c."cdc_operation" NOT IN ('delete', 'moved') AND NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_first') THEN ARRAY[c."c_first"] END) IGNORE NULLS OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id", c.cdc_life ORDER BY c."cdc_position" ROWS UNBOUNDED PRECEDING) IS NULL THEN 'c_first' END,
          CASE WHEN last_value(CASE WHEN c."cdc_operation" NOT IN ('delete', 'moved') AND NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_middle') THEN ARRAY[c."c_middle"] END) IGNORE NULLS OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id", c.cdc_life ORDER BY c."cdc_position" ROWS UNBOUNDED PRECEDING) IS NULL THEN 'c_middle' END,
          CASE WHEN last_value(CASE WHEN c."cdc_operation" NOT IN ('delete', 'moved') AND NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_last') THEN ARRAY[c."c_last"] END) IGNORE NULLS OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id", c.cdc_life ORDER BY c."cdc_position" ROWS UNBOUNDED PRECEDING) IS NULL THEN 'c_last' END,
          CASE WHEN last_value(CASE WHEN c."cdc_operation" NOT IN ('delete', 'moved') AND NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_street_1') THEN ARRAY[c."c_street_1"] END) IGNORE NULLS OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id", c.cdc_life ORDER BY c."cdc_position" ROWS UNBOUNDED PRECEDING) IS NULL THEN 'c_street_1' END,
          CASE WHEN last_value(CASE WHEN c."cdc_operation" NOT IN ('delete', 'moved') AND NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_street_2') THEN ARRAY[c."c_street_2"] END) IGNORE NULLS OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id", c.cdc_life ORDER BY c."cdc_position" ROWS UNBOUNDED PRECEDING) IS NULL THEN 'c_street_2' END,
          CASE WHEN last_value(CASE WHEN c."cdc_operation" NOT IN ('delete', 'moved') AND NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_city') THEN ARRAY[c."c_city"] END) IGNORE NULLS OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id", c.cdc_life ORDER BY c."cdc_position" ROWS UNBOUNDED PRECEDING) IS NULL THEN 'c_city' END,
          CASE WHEN last_value(CASE WHEN c."cdc_operation" NOT IN ('delete', 'moved') AND NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_state') THEN ARRAY[c."c_state"] END) IGNORE NULLS OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id", c.cdc_life ORDER BY c."cdc_position" ROWS UNBOUNDED PRECEDING) IS NULL THEN 'c_state' END,
          CASE WHEN last_value(CASE WHEN c."cdc_operation" NOT IN ('delete', 'moved') AND NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_zip') THEN ARRAY[c."c_zip"] END) IGNORE NULLS OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id", c.cdc_life ORDER BY c."cdc_position" ROWS UNBOUNDED PRECEDING) IS NULL THEN 'c_zip' END,
          CASE WHEN last_value(CASE WHEN c."cdc_operation" NOT IN ('delete', 'moved') AND NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_phone') THEN ARRAY[c."c_phone"] END) IGNORE NULLS OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id", c.cdc_life ORDER BY c."cdc_position" ROWS UNBOUNDED PRECEDING) IS NULL THEN 'c_phone' END,
          CASE WHEN last_value(CASE WHEN c."cdc_operation" NOT IN ('delete', 'moved') AND NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_credit') THEN ARRAY[c."c_credit"] END) IGNORE NULLS OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id", c.cdc_life ORDER BY c."cdc_position" ROWS UNBOUNDED PRECEDING) IS NULL THEN 'c_credit' END,
          CASE WHEN last_value(CASE WHEN c."cdc_operation" NOT IN ('delete', 'moved') AND NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_data') THEN ARRAY[c."c_data"] END) IGNORE NULLS OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id", c.cdc_life ORDER BY c."cdc_position" ROWS UNBOUNDED PRECEDING) IS NULL THEN 'c_data' END], ','), '') AS "cdc_unresolved",
    c."cdc_operation",
    c."cdc_position",
    CAST(c."cdc_committed_at" AT TIME ZONE 'UTC' AS timestamp(6)) AS "cdc_valid_from",
    c."cdc_valid_to_position" AS "cdc_valid_to_position",
    CAST(c."cdc_valid_to" AT TIME ZONE 'UTC' AS timestamp(6)) AS "cdc_valid_to"
  FROM lives AS c
)
SELECT "c_id", "c_d_id", "c_w_id", "c_first", "c_middle", "c_last", "c_street_1", "c_street_2", "c_city", "c_state", "c_zip", "c_phone", "c_since", "c_credit", "c_credit_lim", "c_discount", "c_balance", "c_ytd_payment", "c_payment_cnt", "c_delivery_cnt", "c_data", "cdc_unresolved", "cdc_position", "cdc_valid_from", "cdc_valid_to_position", "cdc_valid_to"
FROM resolved
WHERE "cdc_operation" NOT IN ('delete', 'moved');
