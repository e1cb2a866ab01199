-- Run these regularly: each delivery adds a snapshot, small files and, in a
-- mirror, delete files that slow every reader down.
CALL system.rewrite_data_files(table => 'shop.visit');

CALL system.rewrite_position_delete_files(table => 'shop.visit');

CALL system.rewrite_manifests(table => 'shop.visit');

CALL system.expire_snapshots(table => 'shop.visit', retain_last => 20);

CALL system.remove_orphan_files(table => 'shop.visit');

-- The current table: a merge writes delete files.
CALL system.rewrite_data_files(table => 'shop.visit_folded', options => map('delete-file-threshold', '1'));

CALL system.rewrite_position_delete_files(table => 'shop.visit_folded');

CALL system.rewrite_manifests(table => 'shop.visit_folded');

CALL system.expire_snapshots(table => 'shop.visit_folded', retain_last => 20);

CALL system.remove_orphan_files(table => 'shop.visit_folded');
