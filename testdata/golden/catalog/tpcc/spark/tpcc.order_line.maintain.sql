-- Run these regularly: each delivery adds a snapshot, small files and, in a
-- mirror, delete files that slow every reader down.
CALL system.rewrite_data_files(table => 'tpcc.order_line');

CALL system.rewrite_position_delete_files(table => 'tpcc.order_line');

CALL system.rewrite_manifests(table => 'tpcc.order_line');

CALL system.expire_snapshots(table => 'tpcc.order_line', retain_last => 20);

CALL system.remove_orphan_files(table => 'tpcc.order_line');

-- The current table: a merge writes delete files.
CALL system.rewrite_data_files(table => 'tpcc.order_line_folded', options => map('delete-file-threshold', '1'));

CALL system.rewrite_position_delete_files(table => 'tpcc.order_line_folded');

CALL system.rewrite_manifests(table => 'tpcc.order_line_folded');

CALL system.expire_snapshots(table => 'tpcc.order_line_folded', retain_last => 20);

CALL system.remove_orphan_files(table => 'tpcc.order_line_folded');
