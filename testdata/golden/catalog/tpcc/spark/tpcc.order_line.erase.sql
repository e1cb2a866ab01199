-- Removes a person's rows, not only the current ones, and then their bytes. Replace
-- each ${column} by an SQL literal, of the type that the current table has. No merge
-- of this table may run beside these statements but the one that they ask for:
-- pause its schedule, and wait for one that runs, which would bring the row back.
-- Spark must be 4.0 or newer: before, CALL took no function as an argument.
-- A key may have had other values: erase what this query lists too, one after the
-- other, and begin with the oldest.
SELECT DISTINCT `ol_w_id`, `ol_d_id`, `ol_o_id`, `ol_number`, `cdc_old_key`
FROM `tpcc`.`order_line`
WHERE `cdc_old_key` IS NOT NULL AND (`ol_w_id` = ${ol_w_id} AND `ol_d_id` = ${ol_d_id} AND `ol_o_id` = ${ol_o_id} AND `ol_number` = ${ol_number} OR (CAST(get_json_object(`cdc_old_key`, '$[0]') AS INT) = ${ol_w_id} AND CAST(get_json_object(`cdc_old_key`, '$[1]') AS INT) = ${ol_d_id} AND CAST(get_json_object(`cdc_old_key`, '$[2]') AS INT) = ${ol_o_id} AND CAST(get_json_object(`cdc_old_key`, '$[3]') AS INT) = ${ol_number}));

-- 1. The changelog.
DELETE FROM `tpcc`.`order_line`
WHERE `ol_w_id` = ${ol_w_id} AND `ol_d_id` = ${ol_d_id} AND `ol_o_id` = ${ol_o_id} AND `ol_number` = ${ol_number} OR (`cdc_old_key` IS NOT NULL AND CAST(get_json_object(`cdc_old_key`, '$[0]') AS INT) = ${ol_w_id} AND CAST(get_json_object(`cdc_old_key`, '$[1]') AS INT) = ${ol_d_id} AND CAST(get_json_object(`cdc_old_key`, '$[2]') AS INT) = ${ol_o_id} AND CAST(get_json_object(`cdc_old_key`, '$[3]') AS INT) = ${ol_number});

CALL system.rewrite_data_files(table => 'tpcc.order_line', options => map('delete-file-threshold', '1', 'remove-dangling-deletes', 'true'));

CALL system.rewrite_position_delete_files(table => 'tpcc.order_line', options => map('rewrite-all', 'true'));

CALL system.rewrite_manifests(table => 'tpcc.order_line');

-- Now run icehose merge. It moves the tag icehose_merged away from the snapshot that
-- still has the rows, and which expiry would spare for the tag. Other tags and
-- branches that have them keep them: drop those.

-- 2. The current table, which the merge before that one may have given them again.
DELETE FROM `tpcc`.`order_line_folded`
WHERE `ol_w_id` = ${ol_w_id} AND `ol_d_id` = ${ol_d_id} AND `ol_o_id` = ${ol_o_id} AND `ol_number` = ${ol_number};

CALL system.rewrite_data_files(table => 'tpcc.order_line_folded', options => map('delete-file-threshold', '1', 'remove-dangling-deletes', 'true'));

CALL system.rewrite_position_delete_files(table => 'tpcc.order_line_folded', options => map('rewrite-all', 'true'));

CALL system.rewrite_manifests(table => 'tpcc.order_line_folded');

-- 3. Each of these must be 0. Else run what is above again; delete files are left
-- where a file was not rewritten, and still has the rows.
SELECT count(*) AS cdc_left FROM `tpcc`.`order_line`
WHERE `ol_w_id` = ${ol_w_id} AND `ol_d_id` = ${ol_d_id} AND `ol_o_id` = ${ol_o_id} AND `ol_number` = ${ol_number} OR (`cdc_old_key` IS NOT NULL AND CAST(get_json_object(`cdc_old_key`, '$[0]') AS INT) = ${ol_w_id} AND CAST(get_json_object(`cdc_old_key`, '$[1]') AS INT) = ${ol_d_id} AND CAST(get_json_object(`cdc_old_key`, '$[2]') AS INT) = ${ol_o_id} AND CAST(get_json_object(`cdc_old_key`, '$[3]') AS INT) = ${ol_number});

SELECT count(*) AS cdc_left FROM `tpcc`.`order_line_folded`
WHERE `ol_w_id` = ${ol_w_id} AND `ol_d_id` = ${ol_d_id} AND `ol_o_id` = ${ol_o_id} AND `ol_number` = ${ol_number};

SELECT count(*) AS cdc_left FROM `tpcc`.`order_line`.files
WHERE content <> 0;

SELECT count(*) AS cdc_left FROM `tpcc`.`order_line_folded`.files
WHERE content <> 0;

-- Tags and branches that expiry would spare, with their snapshots: drop them.
SELECT count(*) AS cdc_left FROM `tpcc`.`order_line`.refs
WHERE name NOT IN ('main', 'icehose_merged');

SELECT count(*) AS cdc_left FROM `tpcc`.`order_line_folded`.refs
WHERE name NOT IN ('main', 'icehose_merged');

-- 4. The bytes go with the older snapshots. Queries of those fail from here on.
CALL system.expire_snapshots(table => 'tpcc.order_line', older_than => current_timestamp(), retain_last => 1);

CALL system.expire_snapshots(table => 'tpcc.order_line_folded', older_than => current_timestamp(), retain_last => 1);

-- 5. Each of these must be 0: snapshots of before the DELETE still hold the bytes.
-- Replace ${cdc_deleted} by when the DELETE of the same table began, as a literal in
-- the form TIMESTAMP '2026-01-31 12:00:00.000 UTC'. If the changelog's is not 0, the
-- tag icehose_merged has not moved: run icehose merge, which says so if it cannot set
-- it, and step 4 again.
SELECT count(*) AS cdc_left FROM `tpcc`.`order_line`.snapshots
WHERE committed_at < ${cdc_deleted}
  AND snapshot_id NOT IN (SELECT snapshot_id FROM `tpcc`.`order_line`.refs WHERE name = 'main');

SELECT count(*) AS cdc_left FROM `tpcc`.`order_line_folded`.snapshots
WHERE committed_at < ${cdc_deleted}
  AND snapshot_id NOT IN (SELECT snapshot_id FROM `tpcc`.`order_line_folded`.refs WHERE name = 'main');

-- A record that is still in the stream, or among Firehose's errors, brings its row
-- back: run the statements again after the stream's retention.
