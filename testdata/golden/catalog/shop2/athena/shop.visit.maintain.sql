-- Run these regularly: each delivery adds a snapshot, small files and, in a
-- mirror, delete files that slow every reader down.
OPTIMIZE shop.visit REWRITE DATA USING BIN_PACK;

ALTER TABLE `shop`.`visit` SET TBLPROPERTIES ('vacuum_max_snapshot_age_seconds' = '604800');

VACUUM shop.visit;

-- The current table: a merge writes delete files.
OPTIMIZE shop.visit_folded REWRITE DATA USING BIN_PACK;

ALTER TABLE `shop`.`visit_folded` SET TBLPROPERTIES ('vacuum_max_snapshot_age_seconds' = '604800');

VACUUM shop.visit_folded;
