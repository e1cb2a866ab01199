-- A column with a default was added later: null in older rows means the default.
CREATE OR REPLACE VIEW "shop"."orders_current" AS
SELECT
  "id",
  "user",
  "total",
  coalesce("currency", 'EUR') AS "currency",
  "cdc_position",
  CAST("cdc_committed_at" AT TIME ZONE 'UTC' AS timestamp(6)) AS "cdc_committed_at"
FROM "shop"."orders";
