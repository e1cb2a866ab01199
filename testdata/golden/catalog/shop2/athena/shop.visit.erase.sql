-- Removes a person's rows, not only the current ones, and then their bytes. Replace
-- each ${column} by an SQL literal, of the type that the current table has. No merge
-- of this table may run beside these statements but the one that they ask for:
-- pause its schedule, and wait for one that runs, which would bring the row back.
-- The table has no key: keep the columns that tell the person's rows, and drop the others.
-- 1. The changelog.
DELETE FROM "shop"."visit"
WHERE "url" = ${url} AND CAST("at" AT TIME ZONE 'UTC' AS timestamp(6)) = ${at};

-- Else OPTIMIZE leaves a file alone that is large enough and has one delete file.
-- It may end with ICEBERG_OPTIMIZE_MORE_RUNS_NEEDED: repeat it until it succeeds.
ALTER TABLE `shop`.`visit` SET TBLPROPERTIES ('optimize_rewrite_delete_file_threshold' = '1', 'optimize_rewrite_data_file_threshold' = '1');

OPTIMIZE shop.visit REWRITE DATA USING BIN_PACK;

-- Now run icehose merge. It moves the tag icehose_merged away from the snapshot that
-- still has the rows, and which expiry would spare for the tag. Other tags and
-- branches that have them keep them: drop those.

-- 2. The current table, which the merge before that one may have given them again.
DELETE FROM "shop"."visit_folded"
WHERE "url" = ${url} AND "at" = ${at};

-- Else OPTIMIZE leaves a file alone that is large enough and has one delete file.
-- It may end with ICEBERG_OPTIMIZE_MORE_RUNS_NEEDED: repeat it until it succeeds.
ALTER TABLE `shop`.`visit_folded` SET TBLPROPERTIES ('optimize_rewrite_delete_file_threshold' = '1', 'optimize_rewrite_data_file_threshold' = '1');

OPTIMIZE shop.visit_folded REWRITE DATA USING BIN_PACK;

-- 3. Each of these must be 0. Else run what is above again; delete files are left
-- where a file was not rewritten, and still has the rows.
SELECT count(*) AS cdc_left FROM "shop"."visit"
WHERE "url" = ${url} AND CAST("at" AT TIME ZONE 'UTC' AS timestamp(6)) = ${at};

SELECT count(*) AS cdc_left FROM "shop"."visit_folded"
WHERE "url" = ${url} AND "at" = ${at};

SELECT count(*) AS cdc_left FROM "shop"."visit$files"
WHERE content <> 0;

SELECT count(*) AS cdc_left FROM "shop"."visit_folded$files"
WHERE content <> 0;

-- Tags and branches that expiry would spare, with their snapshots: drop them.
SELECT count(*) AS cdc_left FROM "shop"."visit$refs"
WHERE name NOT IN ('main', 'icehose_merged');

SELECT count(*) AS cdc_left FROM "shop"."visit_folded$refs"
WHERE name NOT IN ('main', 'icehose_merged');

-- 4. A day later: the bytes go with the older snapshots. VACUUM takes every file
-- that no snapshot names and that is older than the age set here, also one that
-- Firehose or a merge has written and not committed yet: never set less than they
-- need, all retries included. VACUUM may end with ICEBERG_VACUUM_MORE_RUNS_NEEDED:
-- repeat it until it succeeds, before the properties are set back: to the values given
-- here, which are those of T.maintain.sql and Athena's defaults, or to what they were
-- (SHOW TBLPROPERTIES says so, before step 1). What stays are the least and the
-- greatest values of files that are gone, 16 characters of each column, in manifests:
-- Athena rewrites none, Spark does before this step, for both tables:
--   CALL system.rewrite_manifests(table => 'shop.visit')
ALTER TABLE `shop`.`visit` SET TBLPROPERTIES ('vacuum_max_snapshot_age_seconds' = '86400');

VACUUM shop.visit;

ALTER TABLE `shop`.`visit` SET TBLPROPERTIES ('vacuum_max_snapshot_age_seconds' = '604800', 'optimize_rewrite_delete_file_threshold' = '2', 'optimize_rewrite_data_file_threshold' = '5');

ALTER TABLE `shop`.`visit_folded` SET TBLPROPERTIES ('vacuum_max_snapshot_age_seconds' = '86400');

VACUUM shop.visit_folded;

ALTER TABLE `shop`.`visit_folded` SET TBLPROPERTIES ('vacuum_max_snapshot_age_seconds' = '604800', 'optimize_rewrite_delete_file_threshold' = '2', 'optimize_rewrite_data_file_threshold' = '5');

-- 5. Each of these must be 0: snapshots of before the DELETE still hold the bytes.
-- Replace ${cdc_deleted} by when the DELETE of the same table began, as a literal in
-- the form TIMESTAMP '2026-01-31 12:00:00.000 UTC'. If the changelog's is not 0, the
-- tag icehose_merged has not moved: run icehose merge, which says so if it cannot set
-- it, and step 4 again.
SELECT count(*) AS cdc_left FROM "shop"."visit$snapshots"
WHERE committed_at < ${cdc_deleted}
  AND snapshot_id NOT IN (SELECT snapshot_id FROM "shop"."visit$refs" WHERE name = 'main');

SELECT count(*) AS cdc_left FROM "shop"."visit_folded$snapshots"
WHERE committed_at < ${cdc_deleted}
  AND snapshot_id NOT IN (SELECT snapshot_id FROM "shop"."visit_folded$refs" WHERE name = 'main');

-- A record that is still in the stream, or among Firehose's errors, brings its row
-- back: run the statements again after the stream's retention.
