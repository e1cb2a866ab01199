-- Removes a person's rows, not only the current ones. Replace each ${column} by an
-- SQL literal.
-- A key may have had other values: erase what this query lists too, one after the
-- other, and begin with the oldest.
SELECT DISTINCT "ol_w_id", "ol_d_id", "ol_o_id", "ol_number", "cdc_old_key"
FROM "tpcc"."order_line"
WHERE "cdc_old_key" IS NOT NULL AND ("ol_w_id" = ${ol_w_id} AND "ol_d_id" = ${ol_d_id} AND "ol_o_id" = ${ol_o_id} AND "ol_number" = ${ol_number} OR (CAST(json_extract_scalar("cdc_old_key", '$[0]') AS integer) = ${ol_w_id} AND CAST(json_extract_scalar("cdc_old_key", '$[1]') AS integer) = ${ol_d_id} AND CAST(json_extract_scalar("cdc_old_key", '$[2]') AS integer) = ${ol_o_id} AND CAST(json_extract_scalar("cdc_old_key", '$[3]') AS integer) = ${ol_number}));

-- The changelog first: else a merge between the two could bring the row back.
DELETE FROM "tpcc"."order_line"
WHERE "ol_w_id" = ${ol_w_id} AND "ol_d_id" = ${ol_d_id} AND "ol_o_id" = ${ol_o_id} AND "ol_number" = ${ol_number} OR ("cdc_old_key" IS NOT NULL AND CAST(json_extract_scalar("cdc_old_key", '$[0]') AS integer) = ${ol_w_id} AND CAST(json_extract_scalar("cdc_old_key", '$[1]') AS integer) = ${ol_d_id} AND CAST(json_extract_scalar("cdc_old_key", '$[2]') AS integer) = ${ol_o_id} AND CAST(json_extract_scalar("cdc_old_key", '$[3]') AS integer) = ${ol_number});

DELETE FROM "tpcc"."order_line_folded"
WHERE "ol_w_id" = ${ol_w_id} AND "ol_d_id" = ${ol_d_id} AND "ol_o_id" = ${ol_o_id} AND "ol_number" = ${ol_number};

-- Now no query of the newest snapshots finds them. The bytes go with the older
-- snapshots and the files that only they name. Run icehose merge before: the tag
-- icehose_merged keeps the snapshot that was merged last.
OPTIMIZE tpcc.order_line REWRITE DATA USING BIN_PACK;
ALTER TABLE `tpcc`.`order_line` SET TBLPROPERTIES ('vacuum_max_snapshot_age_seconds' = '60');
VACUUM tpcc.order_line;
OPTIMIZE tpcc.order_line_folded REWRITE DATA USING BIN_PACK;
ALTER TABLE `tpcc`.`order_line_folded` SET TBLPROPERTIES ('vacuum_max_snapshot_age_seconds' = '60');
VACUUM tpcc.order_line_folded;
-- A record that is still in the stream, or among Firehose's errors, brings its row
-- back: run the statements again after the stream's retention.
