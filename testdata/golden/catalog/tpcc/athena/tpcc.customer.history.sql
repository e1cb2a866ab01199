-- Every row that there ever was, from cdc_position on and until cdc_valid_to_position,
-- which is null for current rows. The times are those at which the source committed:
-- of a load those in loads: of the pipeline file, and of a repair that of its reading.
-- Without cdc_valid_from a row was there from the beginning, as those of a first load.
-- A row that a change with an earlier time, or none, has replaced was there at no time.
-- What a change left out is that of the position before, whatever the times say.
-- The rows as of a position, or of a time:
--   SELECT * FROM "tpcc"."customer_history"
--   WHERE "cdc_position" <= 'POSITION' AND ("cdc_valid_to_position" IS NULL OR "cdc_valid_to_position" > 'POSITION')
--   SELECT * FROM "tpcc"."customer_history"
--   WHERE ("cdc_valid_from" IS NULL OR "cdc_valid_from" <= TIMESTAMP 'YYYY-MM-DD HH:MM:SS') AND ("cdc_valid_to_position" IS NULL OR "cdc_valid_to" > TIMESTAMP 'YYYY-MM-DD HH:MM:SS')
CREATE OR REPLACE VIEW "tpcc"."customer_history" AS
WITH events AS (
  SELECT c."c_w_id" AS "c_w_id", c."c_d_id" AS "c_d_id", c."c_id" AS "c_id", c."c_first", c."c_middle", c."c_last", c."c_street_1", c."c_street_2", c."c_city", c."c_state", c."c_zip", c."c_phone", c."c_since", c."c_credit", c."c_credit_lim", c."c_discount", c."c_balance", c."c_ytd_payment", c."c_payment_cnt", c."c_delivery_cnt", c."c_data", c."cdc_position", coalesce(c."cdc_committed_at", CASE WHEN NOT (substr(c."cdc_position", 39, 1) = '0') OR substr(c."cdc_position", 6, 32) = '00000000000000000000000000000000' THEN NULL ELSE CAST(from_unixtime_nanos(from_base(substr(c."cdc_position", 41, 14), 16) * 1000) AS timestamp(6) with time zone) END) AS cdc_time, c."cdc_operation", c."cdc_absent", c."cdc_old_key"
  FROM "tpcc"."customer" AS c
  UNION ALL
  SELECT CAST(json_extract_scalar(c."cdc_old_key", '$[0]') AS integer) AS "c_w_id", CAST(json_extract_scalar(c."cdc_old_key", '$[1]') AS integer) AS "c_d_id", CAST(json_extract_scalar(c."cdc_old_key", '$[2]') AS integer) AS "c_id", CAST(NULL AS varchar), CAST(NULL AS varchar), CAST(NULL AS varchar), CAST(NULL AS varchar), CAST(NULL AS varchar), CAST(NULL AS varchar), CAST(NULL AS varchar), CAST(NULL AS varchar), CAST(NULL AS varchar), CAST(NULL AS timestamp(6)), CAST(NULL AS varchar), CAST(NULL AS decimal(12,2)), CAST(NULL AS decimal(4,4)), CAST(NULL AS decimal(12,2)), CAST(NULL AS decimal(12,2)), CAST(NULL AS decimal(4,0)), CAST(NULL AS decimal(4,0)), CAST(NULL AS varchar), c."cdc_position", coalesce(c."cdc_committed_at", CASE WHEN NOT (substr(c."cdc_position", 39, 1) = '0') OR substr(c."cdc_position", 6, 32) = '00000000000000000000000000000000' THEN NULL ELSE CAST(from_unixtime_nanos(from_base(substr(c."cdc_position", 41, 14), 16) * 1000) AS timestamp(6) with time zone) END) AS cdc_time, 'moved', CAST(NULL AS varchar), CAST(NULL AS varchar)
  FROM "tpcc"."customer" AS c
  WHERE c."cdc_old_key" IS NOT NULL AND c."cdc_operation" <> 'delete'
    AND (CAST(json_extract_scalar(c."cdc_old_key", '$[0]') AS integer) <> c."c_w_id" OR CAST(json_extract_scalar(c."cdc_old_key", '$[1]') AS integer) <> c."c_d_id" OR CAST(json_extract_scalar(c."cdc_old_key", '$[2]') AS integer) <> c."c_id")
),
once AS (
  SELECT c."c_w_id", c."c_d_id", c."c_id",
    max(CASE WHEN NOT c."cdc_operation" IN ('delete', 'moved') AND NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_first') THEN c."c_first" END) AS "c_first",
    count(CASE WHEN NOT c."cdc_operation" IN ('delete', 'moved') AND NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_first') THEN 1 END) > 0 AS cdc_carried_3,
    max(CASE WHEN NOT c."cdc_operation" IN ('delete', 'moved') AND NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_middle') THEN c."c_middle" END) AS "c_middle",
    count(CASE WHEN NOT c."cdc_operation" IN ('delete', 'moved') AND NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_middle') THEN 1 END) > 0 AS cdc_carried_4,
    max(CASE WHEN NOT c."cdc_operation" IN ('delete', 'moved') AND NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_last') THEN c."c_last" END) AS "c_last",
    count(CASE WHEN NOT c."cdc_operation" IN ('delete', 'moved') AND NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_last') THEN 1 END) > 0 AS cdc_carried_5,
    max(CASE WHEN NOT c."cdc_operation" IN ('delete', 'moved') AND NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_street_1') THEN c."c_street_1" END) AS "c_street_1",
    count(CASE WHEN NOT c."cdc_operation" IN ('delete', 'moved') AND NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_street_1') THEN 1 END) > 0 AS cdc_carried_6,
    max(CASE WHEN NOT c."cdc_operation" IN ('delete', 'moved') AND NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_street_2') THEN c."c_street_2" END) AS "c_street_2",
    count(CASE WHEN NOT c."cdc_operation" IN ('delete', 'moved') AND NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_street_2') THEN 1 END) > 0 AS cdc_carried_7,
    max(CASE WHEN NOT c."cdc_operation" IN ('delete', 'moved') AND NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_city') THEN c."c_city" END) AS "c_city",
    count(CASE WHEN NOT c."cdc_operation" IN ('delete', 'moved') AND NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_city') THEN 1 END) > 0 AS cdc_carried_8,
    max(CASE WHEN NOT c."cdc_operation" IN ('delete', 'moved') AND NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_state') THEN c."c_state" END) AS "c_state",
    count(CASE WHEN NOT c."cdc_operation" IN ('delete', 'moved') AND NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_state') THEN 1 END) > 0 AS cdc_carried_9,
    max(CASE WHEN NOT c."cdc_operation" IN ('delete', 'moved') AND NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_zip') THEN c."c_zip" END) AS "c_zip",
    count(CASE WHEN NOT c."cdc_operation" IN ('delete', 'moved') AND NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_zip') THEN 1 END) > 0 AS cdc_carried_10,
    max(CASE WHEN NOT c."cdc_operation" IN ('delete', 'moved') AND NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_phone') THEN c."c_phone" END) AS "c_phone",
    count(CASE WHEN NOT c."cdc_operation" IN ('delete', 'moved') AND NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_phone') THEN 1 END) > 0 AS cdc_carried_11,
    max(c."c_since") AS "c_since",
    max(CASE WHEN NOT c."cdc_operation" IN ('delete', 'moved') AND NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_credit') THEN c."c_credit" END) AS "c_credit",
    count(CASE WHEN NOT c."cdc_operation" IN ('delete', 'moved') AND NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_credit') THEN 1 END) > 0 AS cdc_carried_13,
    max(c."c_credit_lim") AS "c_credit_lim",
    max(c."c_discount") AS "c_discount",
    max(c."c_balance") AS "c_balance",
    max(c."c_ytd_payment") AS "c_ytd_payment",
    max(c."c_payment_cnt") AS "c_payment_cnt",
    max(c."c_delivery_cnt") AS "c_delivery_cnt",
    max(CASE WHEN NOT c."cdc_operation" IN ('delete', 'moved') AND NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_data') THEN c."c_data" END) AS "c_data",
    count(CASE WHEN NOT c."cdc_operation" IN ('delete', 'moved') AND NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_data') THEN 1 END) > 0 AS cdc_carried_20,
    c."cdc_position", max(c.cdc_time) AS cdc_time,
    CASE WHEN count(CASE WHEN c."cdc_operation" IN ('delete', 'moved') THEN 1 END) > 0 THEN 'delete' ELSE max(c."cdc_operation") END AS "cdc_operation",
    max(c."cdc_old_key") AS "cdc_old_key"
  FROM events AS c
  GROUP BY c."c_w_id", c."c_d_id", c."c_id", c."cdc_position"
),
lives AS (
  SELECT c.*,
    lead(c."cdc_position") OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id" ORDER BY c."cdc_position") AS "cdc_valid_to_position",
    CASE WHEN count(*) OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id" ORDER BY c."cdc_position" DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) = count(c.cdc_time) OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id" ORDER BY c."cdc_position" DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) THEN min(c.cdc_time) OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id" ORDER BY c."cdc_position" DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) END AS "cdc_valid_to",
    count(CASE WHEN c."cdc_operation" = 'delete' OR c."cdc_old_key" IS NOT NULL THEN 1 END) OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id" ORDER BY c."cdc_position" ROWS UNBOUNDED PRECEDING) AS cdc_life
  FROM once AS c
),
resolved AS (
  SELECT
    c."c_id",
    c."c_d_id",
    c."c_w_id",
    element_at(last_value(CASE WHEN c.cdc_carried_3 THEN ARRAY[c."c_first"] END) IGNORE NULLS OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id", c.cdc_life ORDER BY c."cdc_position" ROWS UNBOUNDED PRECEDING), 1) AS "c_first",
    element_at(last_value(CASE WHEN c.cdc_carried_4 THEN ARRAY[c."c_middle"] END) IGNORE NULLS OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id", c.cdc_life ORDER BY c."cdc_position" ROWS UNBOUNDED PRECEDING), 1) AS "c_middle",
    element_at(last_value(CASE WHEN c.cdc_carried_5 THEN ARRAY[c."c_last"] END) IGNORE NULLS OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id", c.cdc_life ORDER BY c."cdc_position" ROWS UNBOUNDED PRECEDING), 1) AS "c_last",
    element_at(last_value(CASE WHEN c.cdc_carried_6 THEN ARRAY[c."c_street_1"] END) IGNORE NULLS OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id", c.cdc_life ORDER BY c."cdc_position" ROWS UNBOUNDED PRECEDING), 1) AS "c_street_1",
    element_at(last_value(CASE WHEN c.cdc_carried_7 THEN ARRAY[c."c_street_2"] END) IGNORE NULLS OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id", c.cdc_life ORDER BY c."cdc_position" ROWS UNBOUNDED PRECEDING), 1) AS "c_street_2",
    element_at(last_value(CASE WHEN c.cdc_carried_8 THEN ARRAY[c."c_city"] END) IGNORE NULLS OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id", c.cdc_life ORDER BY c."cdc_position" ROWS UNBOUNDED PRECEDING), 1) AS "c_city",
    element_at(last_value(CASE WHEN c.cdc_carried_9 THEN ARRAY[c."c_state"] END) IGNORE NULLS OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id", c.cdc_life ORDER BY c."cdc_position" ROWS UNBOUNDED PRECEDING), 1) AS "c_state",
    element_at(last_value(CASE WHEN c.cdc_carried_10 THEN ARRAY[c."c_zip"] END) IGNORE NULLS OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id", c.cdc_life ORDER BY c."cdc_position" ROWS UNBOUNDED PRECEDING), 1) AS "c_zip",
    element_at(last_value(CASE WHEN c.cdc_carried_11 THEN ARRAY[c."c_phone"] END) IGNORE NULLS OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id", c.cdc_life ORDER BY c."cdc_position" ROWS UNBOUNDED PRECEDING), 1) AS "c_phone",
    c."c_since" AS "c_since",
    element_at(last_value(CASE WHEN c.cdc_carried_13 THEN ARRAY[c."c_credit"] END) IGNORE NULLS OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id", c.cdc_life ORDER BY c."cdc_position" ROWS UNBOUNDED PRECEDING), 1) AS "c_credit",
    c."c_credit_lim" AS "c_credit_lim",
    c."c_discount" AS "c_discount",
    c."c_balance" AS "c_balance",
    c."c_ytd_payment" AS "c_ytd_payment",
    c."c_payment_cnt" AS "c_payment_cnt",
    c."c_delivery_cnt" AS "c_delivery_cnt",
    element_at(last_value(CASE WHEN c.cdc_carried_20 THEN ARRAY[c."c_data"] END) IGNORE NULLS OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id", c.cdc_life ORDER BY c."cdc_position" ROWS UNBOUNDED PRECEDING), 1) AS "c_data",
    nullif(array_join(ARRAY[
          CASE WHEN last_value(CASE WHEN c.cdc_carried_3 THEN ARRAY[c."c_first"] END) IGNORE NULLS OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id", c.cdc_life ORDER BY c."cdc_position" ROWS UNBOUNDED PRECEDING) IS NULL THEN 'c_first' END,
          CASE WHEN last_value(CASE WHEN c.cdc_carried_4 THEN ARRAY[c."c_middle"] END) IGNORE NULLS OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id", c.cdc_life ORDER BY c."cdc_position" ROWS UNBOUNDED PRECEDING) IS NULL THEN 'c_middle' END,
          CASE WHEN last_value(CASE WHEN c.cdc_carried_5 THEN ARRAY[c."c_last"] END) IGNORE NULLS OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id", c.cdc_life ORDER BY c."cdc_position" ROWS UNBOUNDED PRECEDING) IS NULL THEN 'c_last' END,
          CASE WHEN last_value(CASE WHEN c.cdc_carried_6 THEN ARRAY[c."c_street_1"] END) IGNORE NULLS OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id", c.cdc_life ORDER BY c."cdc_position" ROWS UNBOUNDED PRECEDING) IS NULL THEN 'c_street_1' END,
          CASE WHEN last_value(CASE WHEN c.cdc_carried_7 THEN ARRAY[c."c_street_2"] END) IGNORE NULLS OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id", c.cdc_life ORDER BY c."cdc_position" ROWS UNBOUNDED PRECEDING) IS NULL THEN 'c_street_2' END,
          CASE WHEN last_value(CASE WHEN c.cdc_carried_8 THEN ARRAY[c."c_city"] END) IGNORE NULLS OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id", c.cdc_life ORDER BY c."cdc_position" ROWS UNBOUNDED PRECEDING) IS NULL THEN 'c_city' END,
          CASE WHEN last_value(CASE WHEN c.cdc_carried_9 THEN ARRAY[c."c_state"] END) IGNORE NULLS OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id", c.cdc_life ORDER BY c."cdc_position" ROWS UNBOUNDED PRECEDING) IS NULL THEN 'c_state' END,
          CASE WHEN last_value(CASE WHEN c.cdc_carried_10 THEN ARRAY[c."c_zip"] END) IGNORE NULLS OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id", c.cdc_life ORDER BY c."cdc_position" ROWS UNBOUNDED PRECEDING) IS NULL THEN 'c_zip' END,
          CASE WHEN last_value(CASE WHEN c.cdc_carried_11 THEN ARRAY[c."c_phone"] END) IGNORE NULLS OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id", c.cdc_life ORDER BY c."cdc_position" ROWS UNBOUNDED PRECEDING) IS NULL THEN 'c_phone' END,
          CASE WHEN last_value(CASE WHEN c.cdc_carried_13 THEN ARRAY[c."c_credit"] END) IGNORE NULLS OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id", c.cdc_life ORDER BY c."cdc_position" ROWS UNBOUNDED PRECEDING) IS NULL THEN 'c_credit' END,
          CASE WHEN last_value(CASE WHEN c.cdc_carried_20 THEN ARRAY[c."c_data"] END) IGNORE NULLS OVER (PARTITION BY c."c_w_id", c."c_d_id", c."c_id", c.cdc_life ORDER BY c."cdc_position" ROWS UNBOUNDED PRECEDING) IS NULL THEN 'c_data' END], ','), '') AS "cdc_unresolved",
    c."cdc_operation",
    c."cdc_position",
    CAST(c.cdc_time AT TIME ZONE 'UTC' AS timestamp(6)) AS "cdc_valid_from",
    c."cdc_valid_to_position" AS "cdc_valid_to_position",
    CAST(c."cdc_valid_to" AT TIME ZONE 'UTC' AS timestamp(6)) AS "cdc_valid_to"
  FROM lives AS c
)
SELECT "c_id", "c_d_id", "c_w_id", "c_first", "c_middle", "c_last", "c_street_1", "c_street_2", "c_city", "c_state", "c_zip", "c_phone", "c_since", "c_credit", "c_credit_lim", "c_discount", "c_balance", "c_ytd_payment", "c_payment_cnt", "c_delivery_cnt", "c_data", "cdc_unresolved", "cdc_position", "cdc_valid_from", "cdc_valid_to_position", "cdc_valid_to"
FROM resolved
WHERE "cdc_operation" <> 'delete';
