-- Removes a person's rows, not only the current ones. Replace each ${column} by an
-- SQL literal.
-- A key may have had other values: erase what this query lists too, one after the
-- other, and begin with the oldest.
SELECT DISTINCT "tenant", "at", "tag", "cdc_old_key"
FROM "events"."event_log"
WHERE "cdc_old_key" IS NOT NULL AND ("tenant" = ${tenant} AND "at" = ${at} AND "tag" = ${tag} OR (CAST(CAST(json_extract_scalar("cdc_old_key", '$[0]') AS uuid) AS varchar) = ${tenant} AND CAST(CAST(replace(replace(json_extract_scalar("cdc_old_key", '$[1]'), 'T', ' '), 'Z', ' UTC') AS timestamp(6) with time zone) AT TIME ZONE 'UTC' AS timestamp(6)) = ${at} AND from_hex(json_extract_scalar("cdc_old_key", '$[2]')) = ${tag}));

-- The changelog first: else a merge between the two could bring the row back.
DELETE FROM "events"."event_log"
WHERE "tenant" = ${tenant} AND "at" = ${at} AND "tag" = ${tag} OR ("cdc_old_key" IS NOT NULL AND CAST(CAST(json_extract_scalar("cdc_old_key", '$[0]') AS uuid) AS varchar) = ${tenant} AND CAST(CAST(replace(replace(json_extract_scalar("cdc_old_key", '$[1]'), 'T', ' '), 'Z', ' UTC') AS timestamp(6) with time zone) AT TIME ZONE 'UTC' AS timestamp(6)) = ${at} AND from_hex(json_extract_scalar("cdc_old_key", '$[2]')) = ${tag});

DELETE FROM "events"."event_log_folded"
WHERE "tenant" = ${tenant} AND "at" = ${at} AND "tag" = ${tag};

-- Now no query of the newest snapshots finds them. The bytes go with the older
-- snapshots and the files that only they name. Run icehose merge before: the tag
-- icehose_merged keeps the snapshot that was merged last.
OPTIMIZE events.event_log REWRITE DATA USING BIN_PACK;
ALTER TABLE `events`.`event_log` SET TBLPROPERTIES ('vacuum_max_snapshot_age_seconds' = '60');
VACUUM events.event_log;
OPTIMIZE events.event_log_folded REWRITE DATA USING BIN_PACK;
ALTER TABLE `events`.`event_log_folded` SET TBLPROPERTIES ('vacuum_max_snapshot_age_seconds' = '60');
VACUUM events.event_log_folded;
-- A record that is still in the stream, or among Firehose's errors, brings its row
-- back: run the statements again after the stream's retention.
