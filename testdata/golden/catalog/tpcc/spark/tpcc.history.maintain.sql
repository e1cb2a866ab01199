-- Run these regularly: each delivery adds a snapshot, small files and, in a
-- mirror, delete files that slow every reader down.
CALL system.rewrite_data_files(table => 'tpcc.history');

CALL system.rewrite_position_delete_files(table => 'tpcc.history');

CALL system.rewrite_manifests(table => 'tpcc.history');

CALL system.expire_snapshots(table => 'tpcc.history', retain_last => 20);

CALL system.remove_orphan_files(table => 'tpcc.history');

-- The current table: a merge writes delete files.
CALL system.rewrite_data_files(table => 'tpcc.history_folded', options => map('delete-file-threshold', '1'));

CALL system.rewrite_position_delete_files(table => 'tpcc.history_folded');

CALL system.rewrite_manifests(table => 'tpcc.history_folded');

CALL system.expire_snapshots(table => 'tpcc.history_folded', retain_last => 20);

CALL system.remove_orphan_files(table => 'tpcc.history_folded');
