-- Removes a person's rows, not only the current ones. Replace each ${column} by an
-- SQL literal.
-- The table has no key: keep the columns that tell the person's rows, and drop the others.
DELETE FROM "tpcc"."history"
WHERE "h_c_id" = ${h_c_id} AND "h_c_d_id" = ${h_c_d_id} AND "h_c_w_id" = ${h_c_w_id} AND "h_d_id" = ${h_d_id} AND "h_w_id" = ${h_w_id} AND "h_date" = ${h_date} AND "h_amount" = ${h_amount} AND "h_data" = ${h_data};

DELETE FROM "tpcc"."history_folded"
WHERE "h_c_id" = ${h_c_id} AND "h_c_d_id" = ${h_c_d_id} AND "h_c_w_id" = ${h_c_w_id} AND "h_d_id" = ${h_d_id} AND "h_w_id" = ${h_w_id} AND "h_date" = ${h_date} AND "h_amount" = ${h_amount} AND "h_data" = ${h_data};

-- Now no query of the newest snapshots finds them. The bytes go with the older
-- snapshots and the files that only they name. Run icehose merge before: the tag
-- icehose_merged keeps the snapshot that was merged last.
OPTIMIZE tpcc.history REWRITE DATA USING BIN_PACK;
ALTER TABLE `tpcc`.`history` SET TBLPROPERTIES ('vacuum_max_snapshot_age_seconds' = '60');
VACUUM tpcc.history;
OPTIMIZE tpcc.history_folded REWRITE DATA USING BIN_PACK;
ALTER TABLE `tpcc`.`history_folded` SET TBLPROPERTIES ('vacuum_max_snapshot_age_seconds' = '60');
VACUUM tpcc.history_folded;
-- A record that is still in the stream, or among Firehose's errors, brings its row
-- back: run the statements again after the stream's retention.
