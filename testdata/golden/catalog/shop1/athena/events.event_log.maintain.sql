-- Run these regularly: each delivery adds a snapshot, small files and, in a
-- mirror, delete files that slow every reader down.
OPTIMIZE events.event_log REWRITE DATA USING BIN_PACK;

ALTER TABLE `events`.`event_log` SET TBLPROPERTIES ('vacuum_max_snapshot_age_seconds' = '604800');

VACUUM events.event_log;

-- The current table: a merge writes delete files.
OPTIMIZE events.event_log_folded REWRITE DATA USING BIN_PACK;

ALTER TABLE `events`.`event_log_folded` SET TBLPROPERTIES ('vacuum_max_snapshot_age_seconds' = '604800');

VACUUM events.event_log_folded;
