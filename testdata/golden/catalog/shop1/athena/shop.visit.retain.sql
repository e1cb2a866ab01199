-- Removes rows that no fold needs any more: what a change, a delete or a load has
-- replaced more than 90 days ago, loaded rows too. So the history of the last 90
-- days stays whole, and a record that is late by less finds what it must be
-- compared with; never set fewer days than a record can be late. Views and merges
-- give the same rows before and after. No merge of this table may run beside. It
-- may be killed at any time; each run can free what the one before made free. The
-- maintenance statements then free the space.
MERGE INTO "shop"."visit" AS t
USING (
  WITH newest AS (
    SELECT max(substr(c."cdc_position", 1, 37)) AS cdc_floor
    FROM "shop"."visit" AS c
    WHERE substr(c."cdc_position", 39, 1) = '0'
      AND coalesce(c."cdc_committed_at", CASE WHEN NOT (substr(c."cdc_position", 39, 1) = '0') OR substr(c."cdc_position", 6, 32) = '00000000000000000000000000000000' THEN NULL ELSE CAST(from_unixtime_nanos(from_base(substr(c."cdc_position", 41, 14), 16) * 1000) AS timestamp(6) with time zone) END) < current_timestamp - INTERVAL '90' DAY
  )
  SELECT DISTINCT c."cdc_position"
  FROM "shop"."visit" AS c
  CROSS JOIN newest AS n
  WHERE NOT coalesce(coalesce(c."cdc_committed_at", CASE WHEN NOT (substr(c."cdc_position", 39, 1) = '0') OR substr(c."cdc_position", 6, 32) = '00000000000000000000000000000000' THEN NULL ELSE CAST(from_unixtime_nanos(from_base(substr(c."cdc_position", 41, 14), 16) * 1000) AS timestamp(6) with time zone) END) >= current_timestamp - INTERVAL '90' DAY, false)
    AND (substr(c."cdc_position", 1, 37) < n.cdc_floor OR (substr(c."cdc_position", 1, 37) = n.cdc_floor AND NOT substr(c."cdc_position", 39, 1) = '0' AND NOT substr(c."cdc_position", 6, 32) = '00000000000000000000000000000000'))
) AS s
ON t."cdc_position" = s."cdc_position"
WHEN MATCHED THEN DELETE;
