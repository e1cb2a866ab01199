-- Run these regularly: each delivery adds a snapshot, small files and, in a
-- mirror, delete files that slow every reader down.
CALL system.rewrite_data_files(table => 'tpcc.customer');

CALL system.rewrite_position_delete_files(table => 'tpcc.customer');

CALL system.rewrite_manifests(table => 'tpcc.customer');

CALL system.expire_snapshots(table => 'tpcc.customer', retain_last => 20);

CALL system.remove_orphan_files(table => 'tpcc.customer');

-- The current table: a merge writes delete files.
CALL system.rewrite_data_files(table => 'tpcc.customer_folded', options => map('delete-file-threshold', '1'));

CALL system.rewrite_position_delete_files(table => 'tpcc.customer_folded');

CALL system.rewrite_manifests(table => 'tpcc.customer_folded');

CALL system.expire_snapshots(table => 'tpcc.customer_folded', retain_last => 20);

CALL system.remove_orphan_files(table => 'tpcc.customer_folded');
