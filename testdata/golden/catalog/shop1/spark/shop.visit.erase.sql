-- Removes a person's rows, not only the current ones. Replace each ${column} by an
-- SQL literal.
-- The table has no key: keep the columns that tell the person's rows, and drop the others.
DELETE FROM `shop`.`visit`
WHERE `url` = ${url} AND `at` = ${at};

DELETE FROM `shop`.`visit_folded`
WHERE `url` = ${url} AND `at` = ${at};

-- Now no query of the newest snapshots finds them. The bytes go with the older
-- snapshots and the files that only they name. Run icehose merge before: the tag
-- icehose_merged keeps the snapshot that was merged last.
CALL system.rewrite_data_files(table => 'shop.visit', options => map('delete-file-threshold', '1'));
CALL system.expire_snapshots(table => 'shop.visit', older_than => current_timestamp(), retain_last => 1);
CALL system.rewrite_data_files(table => 'shop.visit_folded', options => map('delete-file-threshold', '1'));
CALL system.expire_snapshots(table => 'shop.visit_folded', older_than => current_timestamp(), retain_last => 1);
-- A record that is still in the stream, or among Firehose's errors, brings its row
-- back: run the statements again after the stream's retention.
