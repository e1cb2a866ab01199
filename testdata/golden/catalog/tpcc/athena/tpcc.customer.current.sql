-- Current rows: per key the changes above its last end (a delete, or a key change
-- away from it), per column the latest that carries it. cdc_unresolved lists columns
-- whose value the changelog does not give.
CREATE OR REPLACE VIEW "tpcc"."customer_current" AS
WITH ends AS (
  SELECT c."c_w_id" AS "c_w_id", c."c_d_id" AS "c_d_id", c."c_id" AS "c_id", c."cdc_position" AS cdc_end
  FROM "tpcc"."customer" AS c
  WHERE c."cdc_operation" = 'delete'
  UNION ALL
  SELECT CAST(json_extract_scalar(c."cdc_old_key", '$[0]') AS integer) AS "c_w_id", CAST(json_extract_scalar(c."cdc_old_key", '$[1]') AS integer) AS "c_d_id", CAST(json_extract_scalar(c."cdc_old_key", '$[2]') AS integer) AS "c_id", c."cdc_position"
  FROM "tpcc"."customer" AS c
  WHERE c."cdc_old_key" IS NOT NULL AND c."cdc_operation" <> 'delete'
    AND (CAST(json_extract_scalar(c."cdc_old_key", '$[0]') AS integer) <> c."c_w_id" OR CAST(json_extract_scalar(c."cdc_old_key", '$[1]') AS integer) <> c."c_d_id" OR CAST(json_extract_scalar(c."cdc_old_key", '$[2]') AS integer) <> c."c_id")
),
ended AS (
  SELECT e."c_w_id", e."c_d_id", e."c_id", max(e.cdc_end) AS cdc_ended
  FROM ends AS e
  GROUP BY e."c_w_id", e."c_d_id", e."c_id"
),
latest AS (
  SELECT c."c_w_id" AS "c_w_id", c."c_d_id" AS "c_d_id", c."c_id" AS "c_id",
    max_by(c."c_since", c."cdc_position") AS "c_since",
    max_by(c."c_credit_lim", c."cdc_position") AS "c_credit_lim",
    max_by(c."c_discount", c."cdc_position") AS "c_discount",
    max_by(c."c_balance", c."cdc_position") AS "c_balance",
    max_by(c."c_ytd_payment", c."cdc_position") AS "c_ytd_payment",
    max_by(c."c_payment_cnt", c."cdc_position") AS "c_payment_cnt",
    max_by(c."c_delivery_cnt", c."cdc_position") AS "c_delivery_cnt",
    max_by(c."c_first", c."cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_first') OR c."cdc_old_key" IS NOT NULL) AS "c_first",
    coalesce(max_by(contains(split(coalesce("cdc_absent", ''), ','), 'c_first'), c."cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_first') OR c."cdc_old_key" IS NOT NULL), true) AS cdc_unknown_3,
    max_by(c."c_middle", c."cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_middle') OR c."cdc_old_key" IS NOT NULL) AS "c_middle",
    coalesce(max_by(contains(split(coalesce("cdc_absent", ''), ','), 'c_middle'), c."cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_middle') OR c."cdc_old_key" IS NOT NULL), true) AS cdc_unknown_4,
    max_by(c."c_last", c."cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_last') OR c."cdc_old_key" IS NOT NULL) AS "c_last",
    coalesce(max_by(contains(split(coalesce("cdc_absent", ''), ','), 'c_last'), c."cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_last') OR c."cdc_old_key" IS NOT NULL), true) AS cdc_unknown_5,
    max_by(c."c_street_1", c."cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_street_1') OR c."cdc_old_key" IS NOT NULL) AS "c_street_1",
    coalesce(max_by(contains(split(coalesce("cdc_absent", ''), ','), 'c_street_1'), c."cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_street_1') OR c."cdc_old_key" IS NOT NULL), true) AS cdc_unknown_6,
    max_by(c."c_street_2", c."cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_street_2') OR c."cdc_old_key" IS NOT NULL) AS "c_street_2",
    coalesce(max_by(contains(split(coalesce("cdc_absent", ''), ','), 'c_street_2'), c."cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_street_2') OR c."cdc_old_key" IS NOT NULL), true) AS cdc_unknown_7,
    max_by(c."c_city", c."cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_city') OR c."cdc_old_key" IS NOT NULL) AS "c_city",
    coalesce(max_by(contains(split(coalesce("cdc_absent", ''), ','), 'c_city'), c."cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_city') OR c."cdc_old_key" IS NOT NULL), true) AS cdc_unknown_8,
    max_by(c."c_state", c."cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_state') OR c."cdc_old_key" IS NOT NULL) AS "c_state",
    coalesce(max_by(contains(split(coalesce("cdc_absent", ''), ','), 'c_state'), c."cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_state') OR c."cdc_old_key" IS NOT NULL), true) AS cdc_unknown_9,
    max_by(c."c_zip", c."cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_zip') OR c."cdc_old_key" IS NOT NULL) AS "c_zip",
    coalesce(max_by(contains(split(coalesce("cdc_absent", ''), ','), 'c_zip'), c."cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_zip') OR c."cdc_old_key" IS NOT NULL), true) AS cdc_unknown_10,
    max_by(c."c_phone", c."cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_phone') OR c."cdc_old_key" IS NOT NULL) AS "c_phone",
    coalesce(max_by(contains(split(coalesce("cdc_absent", ''), ','), 'c_phone'), c."cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_phone') OR c."cdc_old_key" IS NOT NULL), true) AS cdc_unknown_11,
    max_by(c."c_credit", c."cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_credit') OR c."cdc_old_key" IS NOT NULL) AS "c_credit",
    coalesce(max_by(contains(split(coalesce("cdc_absent", ''), ','), 'c_credit'), c."cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_credit') OR c."cdc_old_key" IS NOT NULL), true) AS cdc_unknown_13,
    max_by(c."c_data", c."cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_data') OR c."cdc_old_key" IS NOT NULL) AS "c_data",
    coalesce(max_by(contains(split(coalesce("cdc_absent", ''), ','), 'c_data'), c."cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_data') OR c."cdc_old_key" IS NOT NULL), true) AS cdc_unknown_20,
    max(c."cdc_position") FILTER (WHERE c."cdc_old_key" IS NOT NULL) AS cdc_moved,
    max_by(c."cdc_old_key", c."cdc_position") FILTER (WHERE c."cdc_old_key" IS NOT NULL) AS cdc_moved_key,
    max(c."cdc_position") AS "cdc_position",
    max_by(c."cdc_committed_at", c."cdc_position") AS "cdc_committed_at"
  FROM "tpcc"."customer" AS c
  LEFT JOIN ended AS e ON c."c_w_id" = e."c_w_id" AND c."c_d_id" = e."c_d_id" AND c."c_id" = e."c_id"
  WHERE c."cdc_operation" <> 'delete' AND (e.cdc_ended IS NULL OR c."cdc_position" > e.cdc_ended)
  GROUP BY c."c_w_id", c."c_d_id", c."c_id"
),
hop1 AS (
  SELECT p."c_w_id", p."c_d_id", p."c_id", CAST(json_extract_scalar(p.cdc_moved_key, '$[0]') AS integer) AS cdc_old_0, CAST(json_extract_scalar(p.cdc_moved_key, '$[1]') AS integer) AS cdc_old_1, CAST(json_extract_scalar(p.cdc_moved_key, '$[2]') AS integer) AS cdc_old_2, p.cdc_moved
  FROM latest AS p
  WHERE p.cdc_moved IS NOT NULL AND (p.cdc_unknown_3 OR p.cdc_unknown_4 OR p.cdc_unknown_5 OR p.cdc_unknown_6 OR p.cdc_unknown_7 OR p.cdc_unknown_8 OR p.cdc_unknown_9 OR p.cdc_unknown_10 OR p.cdc_unknown_11 OR p.cdc_unknown_13 OR p.cdc_unknown_20)
),
ended1 AS (
  SELECT h."c_w_id", h."c_d_id", h."c_id", max(e.cdc_end) AS cdc_ended
  FROM hop1 AS h
  JOIN ends AS e ON e."c_w_id" = h.cdc_old_0 AND e."c_d_id" = h.cdc_old_1 AND e."c_id" = h.cdc_old_2 AND e.cdc_end < h.cdc_moved
  GROUP BY h."c_w_id", h."c_d_id", h."c_id"
),
before1 AS (
  SELECT h."c_w_id", h."c_d_id", h."c_id",
    max_by(c."c_first", c."cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_first') OR c."cdc_old_key" IS NOT NULL) AS "c_first",
    coalesce(max_by(contains(split(coalesce("cdc_absent", ''), ','), 'c_first'), c."cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_first') OR c."cdc_old_key" IS NOT NULL), true) AS cdc_unknown_3,
    max_by(c."c_middle", c."cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_middle') OR c."cdc_old_key" IS NOT NULL) AS "c_middle",
    coalesce(max_by(contains(split(coalesce("cdc_absent", ''), ','), 'c_middle'), c."cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_middle') OR c."cdc_old_key" IS NOT NULL), true) AS cdc_unknown_4,
    max_by(c."c_last", c."cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_last') OR c."cdc_old_key" IS NOT NULL) AS "c_last",
    coalesce(max_by(contains(split(coalesce("cdc_absent", ''), ','), 'c_last'), c."cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_last') OR c."cdc_old_key" IS NOT NULL), true) AS cdc_unknown_5,
    max_by(c."c_street_1", c."cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_street_1') OR c."cdc_old_key" IS NOT NULL) AS "c_street_1",
    coalesce(max_by(contains(split(coalesce("cdc_absent", ''), ','), 'c_street_1'), c."cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_street_1') OR c."cdc_old_key" IS NOT NULL), true) AS cdc_unknown_6,
    max_by(c."c_street_2", c."cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_street_2') OR c."cdc_old_key" IS NOT NULL) AS "c_street_2",
    coalesce(max_by(contains(split(coalesce("cdc_absent", ''), ','), 'c_street_2'), c."cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_street_2') OR c."cdc_old_key" IS NOT NULL), true) AS cdc_unknown_7,
    max_by(c."c_city", c."cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_city') OR c."cdc_old_key" IS NOT NULL) AS "c_city",
    coalesce(max_by(contains(split(coalesce("cdc_absent", ''), ','), 'c_city'), c."cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_city') OR c."cdc_old_key" IS NOT NULL), true) AS cdc_unknown_8,
    max_by(c."c_state", c."cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_state') OR c."cdc_old_key" IS NOT NULL) AS "c_state",
    coalesce(max_by(contains(split(coalesce("cdc_absent", ''), ','), 'c_state'), c."cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_state') OR c."cdc_old_key" IS NOT NULL), true) AS cdc_unknown_9,
    max_by(c."c_zip", c."cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_zip') OR c."cdc_old_key" IS NOT NULL) AS "c_zip",
    coalesce(max_by(contains(split(coalesce("cdc_absent", ''), ','), 'c_zip'), c."cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_zip') OR c."cdc_old_key" IS NOT NULL), true) AS cdc_unknown_10,
    max_by(c."c_phone", c."cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_phone') OR c."cdc_old_key" IS NOT NULL) AS "c_phone",
    coalesce(max_by(contains(split(coalesce("cdc_absent", ''), ','), 'c_phone'), c."cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_phone') OR c."cdc_old_key" IS NOT NULL), true) AS cdc_unknown_11,
    max_by(c."c_credit", c."cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_credit') OR c."cdc_old_key" IS NOT NULL) AS "c_credit",
    coalesce(max_by(contains(split(coalesce("cdc_absent", ''), ','), 'c_credit'), c."cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_credit') OR c."cdc_old_key" IS NOT NULL), true) AS cdc_unknown_13,
    max_by(c."c_data", c."cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_data') OR c."cdc_old_key" IS NOT NULL) AS "c_data",
    coalesce(max_by(contains(split(coalesce("cdc_absent", ''), ','), 'c_data'), c."cdc_position") FILTER (WHERE NOT contains(split(coalesce("cdc_absent", ''), ','), 'c_data') OR c."cdc_old_key" IS NOT NULL), true) AS cdc_unknown_20,
    max(c."cdc_position") FILTER (WHERE c."cdc_old_key" IS NOT NULL) AS cdc_moved,
    max_by(c."cdc_old_key", c."cdc_position") FILTER (WHERE c."cdc_old_key" IS NOT NULL) AS cdc_moved_key
  FROM hop1 AS h
  JOIN "tpcc"."customer" AS c ON c."c_w_id" = h.cdc_old_0 AND c."c_d_id" = h.cdc_old_1 AND c."c_id" = h.cdc_old_2 AND c."cdc_position" < h.cdc_moved
  LEFT JOIN ended1 AS e ON h."c_w_id" = e."c_w_id" AND h."c_d_id" = e."c_d_id" AND h."c_id" = e."c_id"
  WHERE c."cdc_operation" <> 'delete' AND (e.cdc_ended IS NULL OR c."cdc_position" > e.cdc_ended)
  GROUP BY h."c_w_id", h."c_d_id", h."c_id"
)
SELECT
  l."c_id",
  l."c_d_id",
  l."c_w_id",
  CASE WHEN NOT l.cdc_unknown_3 THEN l."c_first" WHEN NOT b1.cdc_unknown_3 THEN b1."c_first" END AS "c_first",
  CASE WHEN NOT l.cdc_unknown_4 THEN l."c_middle" WHEN NOT b1.cdc_unknown_4 THEN b1."c_middle" END AS "c_middle",
  CASE WHEN NOT l.cdc_unknown_5 THEN l."c_last" WHEN NOT b1.cdc_unknown_5 THEN b1."c_last" END AS "c_last",
  CASE WHEN NOT l.cdc_unknown_6 THEN l."c_street_1" WHEN NOT b1.cdc_unknown_6 THEN b1."c_street_1" END AS "c_street_1",
  CASE WHEN NOT l.cdc_unknown_7 THEN l."c_street_2" WHEN NOT b1.cdc_unknown_7 THEN b1."c_street_2" END AS "c_street_2",
  CASE WHEN NOT l.cdc_unknown_8 THEN l."c_city" WHEN NOT b1.cdc_unknown_8 THEN b1."c_city" END AS "c_city",
  CASE WHEN NOT l.cdc_unknown_9 THEN l."c_state" WHEN NOT b1.cdc_unknown_9 THEN b1."c_state" END AS "c_state",
  CASE WHEN NOT l.cdc_unknown_10 THEN l."c_zip" WHEN NOT b1.cdc_unknown_10 THEN b1."c_zip" END AS "c_zip",
  CASE WHEN NOT l.cdc_unknown_11 THEN l."c_phone" WHEN NOT b1.cdc_unknown_11 THEN b1."c_phone" END AS "c_phone",
  l."c_since" AS "c_since",
  CASE WHEN NOT l.cdc_unknown_13 THEN l."c_credit" WHEN NOT b1.cdc_unknown_13 THEN b1."c_credit" END AS "c_credit",
  l."c_credit_lim" AS "c_credit_lim",
  l."c_discount" AS "c_discount",
  l."c_balance" AS "c_balance",
  l."c_ytd_payment" AS "c_ytd_payment",
  l."c_payment_cnt" AS "c_payment_cnt",
  l."c_delivery_cnt" AS "c_delivery_cnt",
  CASE WHEN NOT l.cdc_unknown_20 THEN l."c_data" WHEN NOT b1.cdc_unknown_20 THEN b1."c_data" END AS "c_data",
  nullif(array_join(ARRAY[
        CASE WHEN coalesce(l.cdc_unknown_3, true) AND coalesce(b1.cdc_unknown_3, true) THEN 'c_first' END,
        CASE WHEN coalesce(l.cdc_unknown_4, true) AND coalesce(b1.cdc_unknown_4, true) THEN 'c_middle' END,
        CASE WHEN coalesce(l.cdc_unknown_5, true) AND coalesce(b1.cdc_unknown_5, true) THEN 'c_last' END,
        CASE WHEN coalesce(l.cdc_unknown_6, true) AND coalesce(b1.cdc_unknown_6, true) THEN 'c_street_1' END,
        CASE WHEN coalesce(l.cdc_unknown_7, true) AND coalesce(b1.cdc_unknown_7, true) THEN 'c_street_2' END,
        CASE WHEN coalesce(l.cdc_unknown_8, true) AND coalesce(b1.cdc_unknown_8, true) THEN 'c_city' END,
        CASE WHEN coalesce(l.cdc_unknown_9, true) AND coalesce(b1.cdc_unknown_9, true) THEN 'c_state' END,
        CASE WHEN coalesce(l.cdc_unknown_10, true) AND coalesce(b1.cdc_unknown_10, true) THEN 'c_zip' END,
        CASE WHEN coalesce(l.cdc_unknown_11, true) AND coalesce(b1.cdc_unknown_11, true) THEN 'c_phone' END,
        CASE WHEN coalesce(l.cdc_unknown_13, true) AND coalesce(b1.cdc_unknown_13, true) THEN 'c_credit' END,
        CASE WHEN coalesce(l.cdc_unknown_20, true) AND coalesce(b1.cdc_unknown_20, true) THEN 'c_data' END], ','), '') AS "cdc_unresolved",
  l."cdc_position" AS "cdc_position",
  CAST(l."cdc_committed_at" AT TIME ZONE 'UTC' AS timestamp(6)) AS "cdc_committed_at"
FROM latest AS l
LEFT JOIN before1 AS b1 ON l."c_w_id" = b1."c_w_id" AND l."c_d_id" = b1."c_d_id" AND l."c_id" = b1."c_id";
