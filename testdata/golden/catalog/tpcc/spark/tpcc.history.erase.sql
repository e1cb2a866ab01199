-- Removes a person's rows, not only the current ones, and then their bytes. Replace
-- each ${column} by an SQL literal, of the type that the current table has. No merge
-- of this table may run beside these statements but the one that they ask for:
-- pause its schedule, and wait for one that runs, which would bring the row back.
-- Spark must be 4.0 or newer: before, CALL took no function as an argument.
-- The table has no key: keep the columns that tell the person's rows, and drop the others.
-- 1. The changelog.
DELETE FROM `tpcc`.`history`
WHERE `h_c_id` = ${h_c_id} AND `h_c_d_id` = ${h_c_d_id} AND `h_c_w_id` = ${h_c_w_id} AND `h_d_id` = ${h_d_id} AND `h_w_id` = ${h_w_id} AND `h_date` = ${h_date} AND `h_amount` = ${h_amount} AND `h_data` = ${h_data};

CALL system.rewrite_data_files(table => 'tpcc.history', options => map('delete-file-threshold', '1', 'remove-dangling-deletes', 'true'));

CALL system.rewrite_position_delete_files(table => 'tpcc.history', options => map('rewrite-all', 'true'));

CALL system.rewrite_manifests(table => 'tpcc.history');

-- Now run icehose merge. It moves the tag icehose_merged away from the snapshot that
-- still has the rows, and which expiry would spare for the tag. Other tags and
-- branches that have them keep them: drop those.

-- 2. The current table, which the merge before that one may have given them again.
DELETE FROM `tpcc`.`history_folded`
WHERE `h_c_id` = ${h_c_id} AND `h_c_d_id` = ${h_c_d_id} AND `h_c_w_id` = ${h_c_w_id} AND `h_d_id` = ${h_d_id} AND `h_w_id` = ${h_w_id} AND `h_date` = ${h_date} AND `h_amount` = ${h_amount} AND `h_data` = ${h_data};

CALL system.rewrite_data_files(table => 'tpcc.history_folded', options => map('delete-file-threshold', '1', 'remove-dangling-deletes', 'true'));

CALL system.rewrite_position_delete_files(table => 'tpcc.history_folded', options => map('rewrite-all', 'true'));

CALL system.rewrite_manifests(table => 'tpcc.history_folded');

-- 3. Each of these must be 0. Else run what is above again; delete files are left
-- where a file was not rewritten, and still has the rows.
SELECT count(*) AS cdc_left FROM `tpcc`.`history`
WHERE `h_c_id` = ${h_c_id} AND `h_c_d_id` = ${h_c_d_id} AND `h_c_w_id` = ${h_c_w_id} AND `h_d_id` = ${h_d_id} AND `h_w_id` = ${h_w_id} AND `h_date` = ${h_date} AND `h_amount` = ${h_amount} AND `h_data` = ${h_data};

SELECT count(*) AS cdc_left FROM `tpcc`.`history_folded`
WHERE `h_c_id` = ${h_c_id} AND `h_c_d_id` = ${h_c_d_id} AND `h_c_w_id` = ${h_c_w_id} AND `h_d_id` = ${h_d_id} AND `h_w_id` = ${h_w_id} AND `h_date` = ${h_date} AND `h_amount` = ${h_amount} AND `h_data` = ${h_data};

SELECT count(*) AS cdc_left FROM `tpcc`.`history`.files
WHERE content <> 0;

SELECT count(*) AS cdc_left FROM `tpcc`.`history_folded`.files
WHERE content <> 0;

-- Tags and branches that expiry would spare, with their snapshots: drop them.
SELECT count(*) AS cdc_left FROM `tpcc`.`history`.refs
WHERE name NOT IN ('main', 'icehose_merged');

SELECT count(*) AS cdc_left FROM `tpcc`.`history_folded`.refs
WHERE name NOT IN ('main', 'icehose_merged');

-- 4. The bytes go with the older snapshots. Queries of those fail from here on.
CALL system.expire_snapshots(table => 'tpcc.history', older_than => current_timestamp(), retain_last => 1);

CALL system.expire_snapshots(table => 'tpcc.history_folded', older_than => current_timestamp(), retain_last => 1);

-- 5. Each of these must be 0: snapshots of before the DELETE still hold the bytes.
-- Replace ${cdc_deleted} by when the DELETE of the same table began, as a literal in
-- the form TIMESTAMP '2026-01-31 12:00:00.000 UTC'. If the changelog's is not 0, the
-- tag icehose_merged has not moved: run icehose merge, which says so if it cannot set
-- it, and step 4 again.
SELECT count(*) AS cdc_left FROM `tpcc`.`history`.snapshots
WHERE committed_at < ${cdc_deleted}
  AND snapshot_id NOT IN (SELECT snapshot_id FROM `tpcc`.`history`.refs WHERE name = 'main');

SELECT count(*) AS cdc_left FROM `tpcc`.`history_folded`.snapshots
WHERE committed_at < ${cdc_deleted}
  AND snapshot_id NOT IN (SELECT snapshot_id FROM `tpcc`.`history_folded`.refs WHERE name = 'main');

-- A record that is still in the stream, or among Firehose's errors, brings its row
-- back: run the statements again after the stream's retention.
