-- Removes rows that no fold needs any more: what a later change, a delete or a
-- reload has replaced. Nothing younger than 90 days goes, so that a record that
-- is late by less finds what it must be compared with; never set fewer days than
-- a record can be late. Views and merges give the same rows before and after.
-- It may be run at any time and be killed at any time; each run can free what
-- the one before made free. The maintenance statements then free the space.
MERGE INTO "tpcc"."order_line" AS t
USING (
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
  bars AS (
    SELECT b."ol_w_id", b."ol_d_id", b."ol_o_id", b."ol_number", max(b.cdc_end) AS cdc_bar
    FROM (
      SELECT * FROM ends
      UNION ALL
      SELECT c."ol_w_id" AS "ol_w_id", c."ol_d_id" AS "ol_d_id", c."ol_o_id" AS "ol_o_id", c."ol_number" AS "ol_number", c."cdc_position"
      FROM "tpcc"."order_line" AS c
      WHERE c."cdc_operation" <> 'delete' AND c."cdc_absent" IS NULL
    ) AS b
    GROUP BY b."ol_w_id", b."ol_d_id", b."ol_o_id", b."ol_number"
  )
  SELECT DISTINCT c."ol_w_id" AS "ol_w_id", c."ol_d_id" AS "ol_d_id", c."ol_o_id" AS "ol_o_id", c."ol_number" AS "ol_number", c."cdc_position"
  FROM "tpcc"."order_line" AS c
  JOIN bars AS b ON c."ol_w_id" = b."ol_w_id" AND c."ol_d_id" = b."ol_d_id" AND c."ol_o_id" = b."ol_o_id" AND c."ol_number" = b."ol_number"
  WHERE c."cdc_committed_at" < current_timestamp - INTERVAL '90' DAY
    AND c."cdc_operation" <> 'delete' AND c."cdc_old_key" IS NULL
    AND c."cdc_position" < b.cdc_bar
) AS s
ON t."ol_w_id" = s."ol_w_id" AND t."ol_d_id" = s."ol_d_id" AND t."ol_o_id" = s."ol_o_id" AND t."ol_number" = s."ol_number" AND t."cdc_position" = s."cdc_position" AND NOT (t."cdc_operation" = 'delete' OR t."cdc_old_key" IS NOT NULL)
WHEN MATCHED THEN DELETE;

MERGE INTO "tpcc"."order_line" AS t
USING (
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
  bars AS (
    SELECT b."ol_w_id", b."ol_d_id", b."ol_o_id", b."ol_number", max(b.cdc_end) AS cdc_bar
    FROM (
      SELECT * FROM ends
      UNION ALL
      SELECT c."ol_w_id" AS "ol_w_id", c."ol_d_id" AS "ol_d_id", c."ol_o_id" AS "ol_o_id", c."ol_number" AS "ol_number", c."cdc_position"
      FROM "tpcc"."order_line" AS c
      WHERE c."cdc_operation" <> 'delete' AND c."cdc_absent" IS NULL
    ) AS b
    GROUP BY b."ol_w_id", b."ol_d_id", b."ol_o_id", b."ol_number"
  ),
  lowest AS (
    SELECT c."ol_w_id" AS "ol_w_id", c."ol_d_id" AS "ol_d_id", c."ol_o_id" AS "ol_o_id", c."ol_number" AS "ol_number", min(c."cdc_position") AS cdc_lowest
    FROM "tpcc"."order_line" AS c
    WHERE c."cdc_operation" <> 'delete'
    GROUP BY c."ol_w_id", c."ol_d_id", c."ol_o_id", c."ol_number"
  )
  SELECT DISTINCT c."ol_w_id" AS "ol_w_id", c."ol_d_id" AS "ol_d_id", c."ol_o_id" AS "ol_o_id", c."ol_number" AS "ol_number", c."cdc_position"
  FROM "tpcc"."order_line" AS c
  LEFT JOIN lowest AS w ON c."ol_w_id" = w."ol_w_id" AND c."ol_d_id" = w."ol_d_id" AND c."ol_o_id" = w."ol_o_id" AND c."ol_number" = w."ol_number"
  WHERE c."cdc_committed_at" < current_timestamp - INTERVAL '90' DAY
    AND c."cdc_operation" = 'delete' AND (w.cdc_lowest IS NULL OR w.cdc_lowest >= c."cdc_position")
  UNION
  SELECT c."ol_w_id" AS "ol_w_id", c."ol_d_id" AS "ol_d_id", c."ol_o_id" AS "ol_o_id", c."ol_number" AS "ol_number", c."cdc_position"
  FROM "tpcc"."order_line" AS c
  JOIN bars AS b ON c."ol_w_id" = b."ol_w_id" AND c."ol_d_id" = b."ol_d_id" AND c."ol_o_id" = b."ol_o_id" AND c."ol_number" = b."ol_number"
  LEFT JOIN lowest AS w ON CAST(json_extract_scalar(c."cdc_old_key", '$[0]') AS integer) = w."ol_w_id" AND CAST(json_extract_scalar(c."cdc_old_key", '$[1]') AS integer) = w."ol_d_id" AND CAST(json_extract_scalar(c."cdc_old_key", '$[2]') AS integer) = w."ol_o_id" AND CAST(json_extract_scalar(c."cdc_old_key", '$[3]') AS integer) = w."ol_number"
  WHERE c."cdc_committed_at" < current_timestamp - INTERVAL '90' DAY
    AND c."cdc_old_key" IS NOT NULL AND c."cdc_operation" <> 'delete'
    AND c."cdc_position" < b.cdc_bar AND (w.cdc_lowest IS NULL OR w.cdc_lowest >= c."cdc_position")
) AS s
ON t."ol_w_id" = s."ol_w_id" AND t."ol_d_id" = s."ol_d_id" AND t."ol_o_id" = s."ol_o_id" AND t."ol_number" = s."ol_number" AND t."cdc_position" = s."cdc_position" AND (t."cdc_operation" = 'delete' OR t."cdc_old_key" IS NOT NULL)
WHEN MATCHED THEN DELETE;
