-- Removes rows that no fold needs any more: what a change, a delete or a load has
-- replaced more than 90 days ago, loaded rows too. So the history of the last 90
-- days stays whole, and a record that is late by less finds what it must be
-- compared with; never set fewer days than a record can be late. Views and merges
-- give the same rows before and after. No merge of this table may run beside. It
-- may be killed at any time; each run can free what the one before made free. The
-- maintenance statements then free the space.
-- A delete stays as long as the current table has a row that it is still to remove.
-- Who never merges creates that table all the same, empty: tpcc.customer.folded.sql.
MERGE INTO "tpcc"."customer" AS t
USING (
  WITH bars AS (
    SELECT b."c_w_id", b."c_d_id", b."c_id", max(b.cdc_end) AS cdc_bar
    FROM (
      SELECT c."c_w_id" AS "c_w_id", c."c_d_id" AS "c_d_id", c."c_id" AS "c_id", c."cdc_position" AS cdc_end
      FROM "tpcc"."customer" AS c
      WHERE c."cdc_operation" = 'delete'
        AND coalesce(c."cdc_committed_at", CASE WHEN NOT (substr(c."cdc_position", 39, 1) = '0') OR substr(c."cdc_position", 6, 32) = '00000000000000000000000000000000' THEN NULL ELSE CAST(from_unixtime_nanos(from_base(substr(c."cdc_position", 41, 14), 16) * 1000) AS timestamp(6) with time zone) END) < current_timestamp - INTERVAL '90' DAY
      UNION ALL
      SELECT CAST(json_extract_scalar(c."cdc_old_key", '$[0]') AS integer) AS "c_w_id", CAST(json_extract_scalar(c."cdc_old_key", '$[1]') AS integer) AS "c_d_id", CAST(json_extract_scalar(c."cdc_old_key", '$[2]') AS integer) AS "c_id", c."cdc_position" AS cdc_end
      FROM "tpcc"."customer" AS c
      WHERE c."cdc_old_key" IS NOT NULL AND c."cdc_operation" <> 'delete'
        AND (CAST(json_extract_scalar(c."cdc_old_key", '$[0]') AS integer) <> c."c_w_id" OR CAST(json_extract_scalar(c."cdc_old_key", '$[1]') AS integer) <> c."c_d_id" OR CAST(json_extract_scalar(c."cdc_old_key", '$[2]') AS integer) <> c."c_id")
        AND coalesce(c."cdc_committed_at", CASE WHEN NOT (substr(c."cdc_position", 39, 1) = '0') OR substr(c."cdc_position", 6, 32) = '00000000000000000000000000000000' THEN NULL ELSE CAST(from_unixtime_nanos(from_base(substr(c."cdc_position", 41, 14), 16) * 1000) AS timestamp(6) with time zone) END) < current_timestamp - INTERVAL '90' DAY
      UNION ALL
      SELECT c."c_w_id" AS "c_w_id", c."c_d_id" AS "c_d_id", c."c_id" AS "c_id", c."cdc_position" AS cdc_end
      FROM "tpcc"."customer" AS c
      WHERE c."cdc_operation" <> 'delete' AND c."cdc_absent" IS NULL
        AND coalesce(c."cdc_committed_at", CASE WHEN NOT (substr(c."cdc_position", 39, 1) = '0') OR substr(c."cdc_position", 6, 32) = '00000000000000000000000000000000' THEN NULL ELSE CAST(from_unixtime_nanos(from_base(substr(c."cdc_position", 41, 14), 16) * 1000) AS timestamp(6) with time zone) END) < current_timestamp - INTERVAL '90' DAY
    ) AS b
    GROUP BY b."c_w_id", b."c_d_id", b."c_id"
  ),
  sources AS (
    SELECT DISTINCT CAST(json_extract_scalar(c."cdc_old_key", '$[0]') AS integer) AS "c_w_id", CAST(json_extract_scalar(c."cdc_old_key", '$[1]') AS integer) AS "c_d_id", CAST(json_extract_scalar(c."cdc_old_key", '$[2]') AS integer) AS "c_id"
    FROM "tpcc"."customer" AS c
    WHERE c."cdc_old_key" IS NOT NULL AND c."cdc_operation" <> 'delete' AND c."cdc_absent" IS NOT NULL
  )
  SELECT DISTINCT c."c_w_id" AS "c_w_id", c."c_d_id" AS "c_d_id", c."c_id" AS "c_id", c."cdc_position"
  FROM "tpcc"."customer" AS c
  JOIN bars AS b ON c."c_w_id" = b."c_w_id" AND c."c_d_id" = b."c_d_id" AND c."c_id" = b."c_id"
  WHERE c."cdc_operation" <> 'delete' AND c."cdc_old_key" IS NULL
    AND c."cdc_position" < b.cdc_bar AND NOT coalesce(coalesce(c."cdc_committed_at", CASE WHEN NOT (substr(c."cdc_position", 39, 1) = '0') OR substr(c."cdc_position", 6, 32) = '00000000000000000000000000000000' THEN NULL ELSE CAST(from_unixtime_nanos(from_base(substr(c."cdc_position", 41, 14), 16) * 1000) AS timestamp(6) with time zone) END) >= current_timestamp - INTERVAL '90' DAY, false)
    AND NOT EXISTS (SELECT 1 FROM sources AS p WHERE c."c_w_id" = p."c_w_id" AND c."c_d_id" = p."c_d_id" AND c."c_id" = p."c_id")
) AS s
ON t."c_w_id" = s."c_w_id" AND t."c_d_id" = s."c_d_id" AND t."c_id" = s."c_id" AND t."cdc_position" = s."cdc_position" AND NOT (t."cdc_operation" = 'delete' OR t."cdc_old_key" IS NOT NULL)
WHEN MATCHED THEN DELETE;

MERGE INTO "tpcc"."customer" AS t
USING (
  WITH bars AS (
    SELECT b."c_w_id", b."c_d_id", b."c_id", max(b.cdc_end) AS cdc_bar
    FROM (
      SELECT c."c_w_id" AS "c_w_id", c."c_d_id" AS "c_d_id", c."c_id" AS "c_id", c."cdc_position" AS cdc_end
      FROM "tpcc"."customer" AS c
      WHERE c."cdc_operation" = 'delete'
        AND coalesce(c."cdc_committed_at", CASE WHEN NOT (substr(c."cdc_position", 39, 1) = '0') OR substr(c."cdc_position", 6, 32) = '00000000000000000000000000000000' THEN NULL ELSE CAST(from_unixtime_nanos(from_base(substr(c."cdc_position", 41, 14), 16) * 1000) AS timestamp(6) with time zone) END) < current_timestamp - INTERVAL '90' DAY
      UNION ALL
      SELECT CAST(json_extract_scalar(c."cdc_old_key", '$[0]') AS integer) AS "c_w_id", CAST(json_extract_scalar(c."cdc_old_key", '$[1]') AS integer) AS "c_d_id", CAST(json_extract_scalar(c."cdc_old_key", '$[2]') AS integer) AS "c_id", c."cdc_position" AS cdc_end
      FROM "tpcc"."customer" AS c
      WHERE c."cdc_old_key" IS NOT NULL AND c."cdc_operation" <> 'delete'
        AND (CAST(json_extract_scalar(c."cdc_old_key", '$[0]') AS integer) <> c."c_w_id" OR CAST(json_extract_scalar(c."cdc_old_key", '$[1]') AS integer) <> c."c_d_id" OR CAST(json_extract_scalar(c."cdc_old_key", '$[2]') AS integer) <> c."c_id")
        AND coalesce(c."cdc_committed_at", CASE WHEN NOT (substr(c."cdc_position", 39, 1) = '0') OR substr(c."cdc_position", 6, 32) = '00000000000000000000000000000000' THEN NULL ELSE CAST(from_unixtime_nanos(from_base(substr(c."cdc_position", 41, 14), 16) * 1000) AS timestamp(6) with time zone) END) < current_timestamp - INTERVAL '90' DAY
      UNION ALL
      SELECT c."c_w_id" AS "c_w_id", c."c_d_id" AS "c_d_id", c."c_id" AS "c_id", c."cdc_position" AS cdc_end
      FROM "tpcc"."customer" AS c
      WHERE c."cdc_operation" <> 'delete' AND c."cdc_absent" IS NULL
        AND coalesce(c."cdc_committed_at", CASE WHEN NOT (substr(c."cdc_position", 39, 1) = '0') OR substr(c."cdc_position", 6, 32) = '00000000000000000000000000000000' THEN NULL ELSE CAST(from_unixtime_nanos(from_base(substr(c."cdc_position", 41, 14), 16) * 1000) AS timestamp(6) with time zone) END) < current_timestamp - INTERVAL '90' DAY
    ) AS b
    GROUP BY b."c_w_id", b."c_d_id", b."c_id"
  ),
  sources AS (
    SELECT DISTINCT CAST(json_extract_scalar(c."cdc_old_key", '$[0]') AS integer) AS "c_w_id", CAST(json_extract_scalar(c."cdc_old_key", '$[1]') AS integer) AS "c_d_id", CAST(json_extract_scalar(c."cdc_old_key", '$[2]') AS integer) AS "c_id"
    FROM "tpcc"."customer" AS c
    WHERE c."cdc_old_key" IS NOT NULL AND c."cdc_operation" <> 'delete' AND c."cdc_absent" IS NOT NULL
  ),
  lowest AS (
    SELECT w."c_w_id", w."c_d_id", w."c_id", min(w.cdc_lowest) AS cdc_lowest, max(w.cdc_above) AS cdc_above, max(w.cdc_current) AS cdc_current
    FROM (
      SELECT c."c_w_id" AS "c_w_id", c."c_d_id" AS "c_d_id", c."c_id" AS "c_id", c."cdc_position" AS cdc_lowest, CASE WHEN c."cdc_absent" IS NULL THEN c."cdc_position" END AS cdc_above, CAST(NULL AS varchar) AS cdc_current
      FROM "tpcc"."customer" AS c
      WHERE c."cdc_operation" <> 'delete'
      UNION ALL
      SELECT g."c_w_id" AS "c_w_id", g."c_d_id" AS "c_d_id", g."c_id" AS "c_id", g."cdc_position" AS cdc_lowest, CAST(NULL AS varchar) AS cdc_above, g."cdc_position" AS cdc_current
      FROM "tpcc"."customer_folded" AS g
      UNION ALL
      SELECT c."c_w_id" AS "c_w_id", c."c_d_id" AS "c_d_id", c."c_id" AS "c_id", CAST(NULL AS varchar) AS cdc_lowest, c."cdc_position" AS cdc_above, CAST(NULL AS varchar) AS cdc_current
      FROM "tpcc"."customer" AS c
      WHERE c."cdc_operation" = 'delete'
      UNION ALL
      SELECT CAST(json_extract_scalar(c."cdc_old_key", '$[0]') AS integer) AS "c_w_id", CAST(json_extract_scalar(c."cdc_old_key", '$[1]') AS integer) AS "c_d_id", CAST(json_extract_scalar(c."cdc_old_key", '$[2]') AS integer) AS "c_id", CAST(NULL AS varchar) AS cdc_lowest, c."cdc_position" AS cdc_above, CAST(NULL AS varchar) AS cdc_current
      FROM "tpcc"."customer" AS c
      WHERE c."cdc_old_key" IS NOT NULL AND c."cdc_operation" <> 'delete'
        AND (CAST(json_extract_scalar(c."cdc_old_key", '$[0]') AS integer) <> c."c_w_id" OR CAST(json_extract_scalar(c."cdc_old_key", '$[1]') AS integer) <> c."c_d_id" OR CAST(json_extract_scalar(c."cdc_old_key", '$[2]') AS integer) <> c."c_id")
    ) AS w
    GROUP BY w."c_w_id", w."c_d_id", w."c_id"
  )
  SELECT DISTINCT c."c_w_id" AS "c_w_id", c."c_d_id" AS "c_d_id", c."c_id" AS "c_id", c."cdc_position"
  FROM "tpcc"."customer" AS c
  LEFT JOIN lowest AS w ON c."c_w_id" = w."c_w_id" AND c."c_d_id" = w."c_d_id" AND c."c_id" = w."c_id"
  WHERE c."cdc_operation" = 'delete'
    AND coalesce(c."cdc_committed_at", CASE WHEN NOT (substr(c."cdc_position", 39, 1) = '0') OR substr(c."cdc_position", 6, 32) = '00000000000000000000000000000000' THEN NULL ELSE CAST(from_unixtime_nanos(from_base(substr(c."cdc_position", 41, 14), 16) * 1000) AS timestamp(6) with time zone) END) < current_timestamp - INTERVAL '90' DAY AND (w.cdc_lowest IS NULL OR w.cdc_lowest >= c."cdc_position") AND (w.cdc_current IS NULL OR w.cdc_above > c."cdc_position")
  UNION
  SELECT c."c_w_id" AS "c_w_id", c."c_d_id" AS "c_d_id", c."c_id" AS "c_id", c."cdc_position"
  FROM "tpcc"."customer" AS c
  JOIN bars AS b ON c."c_w_id" = b."c_w_id" AND c."c_d_id" = b."c_d_id" AND c."c_id" = b."c_id"
  LEFT JOIN lowest AS w ON CAST(json_extract_scalar(c."cdc_old_key", '$[0]') AS integer) = w."c_w_id" AND CAST(json_extract_scalar(c."cdc_old_key", '$[1]') AS integer) = w."c_d_id" AND CAST(json_extract_scalar(c."cdc_old_key", '$[2]') AS integer) = w."c_id"
  WHERE c."cdc_old_key" IS NOT NULL AND c."cdc_operation" <> 'delete'
    AND coalesce(c."cdc_committed_at", CASE WHEN NOT (substr(c."cdc_position", 39, 1) = '0') OR substr(c."cdc_position", 6, 32) = '00000000000000000000000000000000' THEN NULL ELSE CAST(from_unixtime_nanos(from_base(substr(c."cdc_position", 41, 14), 16) * 1000) AS timestamp(6) with time zone) END) < current_timestamp - INTERVAL '90' DAY
    AND c."cdc_position" < b.cdc_bar AND NOT coalesce(coalesce(c."cdc_committed_at", CASE WHEN NOT (substr(c."cdc_position", 39, 1) = '0') OR substr(c."cdc_position", 6, 32) = '00000000000000000000000000000000' THEN NULL ELSE CAST(from_unixtime_nanos(from_base(substr(c."cdc_position", 41, 14), 16) * 1000) AS timestamp(6) with time zone) END) >= current_timestamp - INTERVAL '90' DAY, false)
    AND NOT EXISTS (SELECT 1 FROM sources AS p WHERE c."c_w_id" = p."c_w_id" AND c."c_d_id" = p."c_d_id" AND c."c_id" = p."c_id") AND (w.cdc_lowest IS NULL OR w.cdc_lowest >= c."cdc_position") AND (w.cdc_current IS NULL OR w.cdc_above > c."cdc_position")
) AS s
ON t."c_w_id" = s."c_w_id" AND t."c_d_id" = s."c_d_id" AND t."c_id" = s."c_id" AND t."cdc_position" = s."cdc_position" AND (t."cdc_operation" = 'delete' OR t."cdc_old_key" IS NOT NULL)
WHEN MATCHED THEN DELETE;
