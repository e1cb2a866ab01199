-- Run these regularly: each delivery adds a snapshot, small files and, in a
-- mirror, delete files that slow every reader down.
OPTIMIZE tpcc.history REWRITE DATA USING BIN_PACK;

ALTER TABLE `tpcc`.`history` SET TBLPROPERTIES ('vacuum_max_snapshot_age_seconds' = '604800');

VACUUM tpcc.history;

-- The current table: a merge writes delete files.
OPTIMIZE tpcc.history_folded REWRITE DATA USING BIN_PACK;

ALTER TABLE `tpcc`.`history_folded` SET TBLPROPERTIES ('vacuum_max_snapshot_age_seconds' = '604800');

VACUUM tpcc.history_folded;
