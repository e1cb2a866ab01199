-- Removes a person's rows, not only the current ones. Replace each ${column} by an
-- SQL literal.
-- A key may have had other values: erase what this query lists too, one after the
-- other, and begin with the oldest.
SELECT DISTINCT "c_w_id", "c_d_id", "c_id", "cdc_old_key"
FROM "tpcc"."customer"
WHERE "cdc_old_key" IS NOT NULL AND ("c_w_id" = ${c_w_id} AND "c_d_id" = ${c_d_id} AND "c_id" = ${c_id} OR (CAST(json_extract_scalar("cdc_old_key", '$[0]') AS integer) = ${c_w_id} AND CAST(json_extract_scalar("cdc_old_key", '$[1]') AS integer) = ${c_d_id} AND CAST(json_extract_scalar("cdc_old_key", '$[2]') AS integer) = ${c_id}));

-- The changelog first: else a merge between the two could bring the row back.
DELETE FROM "tpcc"."customer"
WHERE "c_w_id" = ${c_w_id} AND "c_d_id" = ${c_d_id} AND "c_id" = ${c_id} OR ("cdc_old_key" IS NOT NULL AND CAST(json_extract_scalar("cdc_old_key", '$[0]') AS integer) = ${c_w_id} AND CAST(json_extract_scalar("cdc_old_key", '$[1]') AS integer) = ${c_d_id} AND CAST(json_extract_scalar("cdc_old_key", '$[2]') AS integer) = ${c_id});

DELETE FROM "tpcc"."customer_folded"
WHERE "c_w_id" = ${c_w_id} AND "c_d_id" = ${c_d_id} AND "c_id" = ${c_id};

-- Now no query of the newest snapshots finds them. The bytes go with the older
-- snapshots and the files that only they name. Run icehose merge before: the tag
-- icehose_merged keeps the snapshot that was merged last.
OPTIMIZE tpcc.customer REWRITE DATA USING BIN_PACK;
ALTER TABLE `tpcc`.`customer` SET TBLPROPERTIES ('vacuum_max_snapshot_age_seconds' = '60');
VACUUM tpcc.customer;
OPTIMIZE tpcc.customer_folded REWRITE DATA USING BIN_PACK;
ALTER TABLE `tpcc`.`customer_folded` SET TBLPROPERTIES ('vacuum_max_snapshot_age_seconds' = '60');
VACUUM tpcc.customer_folded;
-- A record that is still in the stream, or among Firehose's errors, brings its row
-- back: run the statements again after the stream's retention.
