-- Run these regularly: each delivery adds a snapshot, small files and, in a
-- mirror, delete files that slow every reader down.
-- Not for a mirror that icehose's own sink writes: what it knows of deleted keys
-- lies in files that only table properties name, which the removal of orphan
-- files takes for garbage. Such a table is maintained by the sink.
OPTIMIZE shop.orders REWRITE DATA USING BIN_PACK;

ALTER TABLE `shop`.`orders` SET TBLPROPERTIES ('vacuum_max_snapshot_age_seconds' = '604800');

VACUUM shop.orders;
