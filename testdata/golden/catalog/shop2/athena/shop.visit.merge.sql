-- Brings the folded table up to date for the keys that changed within the window.
-- Run it without the line marked WINDOW the first time, after a load or a reload,
-- and after deliveries that were late by more than the window.
-- Before the run after a reload, empty the folded table.
MERGE INTO "shop"."visit_folded" AS t
USING (
  SELECT *
  FROM "shop"."visit_current"
  WHERE "cdc_committed_at" >= CAST(current_timestamp AT TIME ZONE 'UTC' AS timestamp(6)) - INTERVAL '7' DAY -- WINDOW
) AS s
ON t."cdc_position" = s."cdc_position"
WHEN NOT MATCHED THEN INSERT ("url", "at", "cdc_position", "cdc_committed_at")
  VALUES (s."url", s."at", s."cdc_position", s."cdc_committed_at");
