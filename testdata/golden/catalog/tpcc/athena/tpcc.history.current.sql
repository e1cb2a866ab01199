-- Current rows of a table without a key: the newest load and the inserts after it,
-- each once, however often it was delivered. An update or a delete of such a table
-- means nothing, since nothing says of which row it speaks.
CREATE OR REPLACE VIEW "tpcc"."history_current" AS
WITH newest AS (
  SELECT max(substr(c."cdc_position", 1, 37)) AS cdc_floor
  FROM "tpcc"."history" AS c
  WHERE substr(c."cdc_position", 39, 1) = '0'
)
SELECT
  max(c."h_c_id") AS "h_c_id",
  max(c."h_c_d_id") AS "h_c_d_id",
  max(c."h_c_w_id") AS "h_c_w_id",
  max(c."h_d_id") AS "h_d_id",
  max(c."h_w_id") AS "h_w_id",
  max(c."h_date") AS "h_date",
  max(c."h_amount") AS "h_amount",
  max(c."h_data") AS "h_data",
  c."cdc_position" AS "cdc_position",
  CAST(max(c."cdc_committed_at") AT TIME ZONE 'UTC' AS timestamp(6)) AS "cdc_committed_at"
FROM "tpcc"."history" AS c
CROSS JOIN newest AS n
WHERE c."cdc_operation" IN ('load', 'insert')
  AND (
  n.cdc_floor IS NULL
  OR (substr(c."cdc_position", 39, 1) = '0' AND substr(c."cdc_position", 1, 37) = n.cdc_floor)
  OR (NOT substr(c."cdc_position", 39, 1) = '0' AND (substr(c."cdc_position", 1, 37) > n.cdc_floor OR (substr(c."cdc_position", 1, 37) = n.cdc_floor AND substr(c."cdc_position", 6, 32) = '00000000000000000000000000000000')))
)
GROUP BY c."cdc_position";
