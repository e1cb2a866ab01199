-- Run these regularly: each delivery adds a snapshot, small files and, in a
-- mirror, delete files that slow every reader down.
OPTIMIZE tpcc.order_line REWRITE DATA USING BIN_PACK;

ALTER TABLE `tpcc`.`order_line` SET TBLPROPERTIES ('vacuum_max_snapshot_age_seconds' = '604800');

VACUUM tpcc.order_line;

-- The current table: a merge writes delete files.
OPTIMIZE tpcc.order_line_folded REWRITE DATA USING BIN_PACK;

ALTER TABLE `tpcc`.`order_line_folded` SET TBLPROPERTIES ('vacuum_max_snapshot_age_seconds' = '604800');

VACUUM tpcc.order_line_folded;
