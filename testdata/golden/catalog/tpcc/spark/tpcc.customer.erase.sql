-- Removes a person's rows, not only the current ones. Replace each ${column} by an
-- SQL literal.
-- A key may have had other values: erase what this query lists too, one after the
-- other, and begin with the oldest.
SELECT DISTINCT `c_w_id`, `c_d_id`, `c_id`, `cdc_old_key`
FROM `tpcc`.`customer`
WHERE `cdc_old_key` IS NOT NULL AND (`c_w_id` = ${c_w_id} AND `c_d_id` = ${c_d_id} AND `c_id` = ${c_id} OR (CAST(get_json_object(`cdc_old_key`, '$[0]') AS INT) = ${c_w_id} AND CAST(get_json_object(`cdc_old_key`, '$[1]') AS INT) = ${c_d_id} AND CAST(get_json_object(`cdc_old_key`, '$[2]') AS INT) = ${c_id}));

-- The changelog first: else a merge between the two could bring the row back.
DELETE FROM `tpcc`.`customer`
WHERE `c_w_id` = ${c_w_id} AND `c_d_id` = ${c_d_id} AND `c_id` = ${c_id} OR (`cdc_old_key` IS NOT NULL AND CAST(get_json_object(`cdc_old_key`, '$[0]') AS INT) = ${c_w_id} AND CAST(get_json_object(`cdc_old_key`, '$[1]') AS INT) = ${c_d_id} AND CAST(get_json_object(`cdc_old_key`, '$[2]') AS INT) = ${c_id});

DELETE FROM `tpcc`.`customer_folded`
WHERE `c_w_id` = ${c_w_id} AND `c_d_id` = ${c_d_id} AND `c_id` = ${c_id};

-- Now no query of the newest snapshots finds them. The bytes go with the older
-- snapshots and the files that only they name. Run icehose merge before: the tag
-- icehose_merged keeps the snapshot that was merged last.
CALL system.rewrite_data_files(table => 'tpcc.customer', options => map('delete-file-threshold', '1'));
CALL system.expire_snapshots(table => 'tpcc.customer', older_than => current_timestamp(), retain_last => 1);
CALL system.rewrite_data_files(table => 'tpcc.customer_folded', options => map('delete-file-threshold', '1'));
CALL system.expire_snapshots(table => 'tpcc.customer_folded', older_than => current_timestamp(), retain_last => 1);
-- A record that is still in the stream, or among Firehose's errors, brings its row
-- back: run the statements again after the stream's retention.
