-- A column with a default was added later: null in older rows means the default.
CREATE OR REPLACE VIEW "shop"."customer_current" AS
SELECT
  "id",
  coalesce("since", CAST('2020-02-29' AS date)) AS "since",
  coalesce("note", 'it''s a \') AS "note",
  "cdc_position",
  CAST("cdc_committed_at" AT TIME ZONE 'UTC' AS timestamp(6)) AS "cdc_committed_at"
FROM "shop"."customer";
