-- Run these regularly: each delivery adds a snapshot, small files and, in a
-- mirror, delete files that slow every reader down.
CALL system.rewrite_data_files(table => 'events.event_log');

CALL system.rewrite_position_delete_files(table => 'events.event_log');

CALL system.rewrite_manifests(table => 'events.event_log');

CALL system.expire_snapshots(table => 'events.event_log', retain_last => 20);

CALL system.remove_orphan_files(table => 'events.event_log');

-- The current table: a merge writes delete files.
CALL system.rewrite_data_files(table => 'events.event_log_folded', options => map('delete-file-threshold', '1'));

CALL system.rewrite_position_delete_files(table => 'events.event_log_folded');

CALL system.rewrite_manifests(table => 'events.event_log_folded');

CALL system.expire_snapshots(table => 'events.event_log_folded', retain_last => 20);

CALL system.remove_orphan_files(table => 'events.event_log_folded');
