-- Run these regularly: each delivery adds a snapshot, small files and, in a
-- mirror, delete files that slow every reader down.
OPTIMIZE tpcc.customer REWRITE DATA USING BIN_PACK;

ALTER TABLE `tpcc`.`customer` SET TBLPROPERTIES ('vacuum_max_snapshot_age_seconds' = '604800');

VACUUM tpcc.customer;

-- The current table: a merge writes delete files.
OPTIMIZE tpcc.customer_folded REWRITE DATA USING BIN_PACK;

ALTER TABLE `tpcc`.`customer_folded` SET TBLPROPERTIES ('vacuum_max_snapshot_age_seconds' = '604800');

VACUUM tpcc.customer_folded;
