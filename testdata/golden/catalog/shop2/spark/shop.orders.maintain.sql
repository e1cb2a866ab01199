-- Run these regularly: each delivery adds a snapshot, small files and, in a
-- mirror, delete files that slow every reader down.
-- Not for a mirror that icehose's own sink writes: what it knows of deleted keys
-- lies in files that only table properties name, which the removal of orphan
-- files takes for garbage. Such a table is maintained by the sink.
CALL system.rewrite_data_files(table => 'shop.orders', options => map('delete-file-threshold', '1'));

CALL system.rewrite_position_delete_files(table => 'shop.orders');

CALL system.rewrite_manifests(table => 'shop.orders');

CALL system.expire_snapshots(table => 'shop.orders', retain_last => 20);

CALL system.remove_orphan_files(table => 'shop.orders');
