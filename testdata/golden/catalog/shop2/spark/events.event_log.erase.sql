-- Removes a person's rows, not only the current ones. Replace each ${column} by an
-- SQL literal.
-- A key may have had other values: erase what this query lists too, one after the
-- other, and begin with the oldest.
SELECT DISTINCT `tenant`, `at`, `tag`, `cdc_old_key`
FROM `events`.`event_log`
WHERE `cdc_old_key` IS NOT NULL AND (`tenant` = ${tenant} AND `at` = ${at} AND `tag` = ${tag} OR (get_json_object(`cdc_old_key`, '$[0]') = ${tenant} AND CAST(get_json_object(`cdc_old_key`, '$[1]') AS TIMESTAMP) = ${at} AND unhex(get_json_object(`cdc_old_key`, '$[2]')) = ${tag}));

-- The changelog first: else a merge between the two could bring the row back.
DELETE FROM `events`.`event_log`
WHERE `tenant` = ${tenant} AND `at` = ${at} AND `tag` = ${tag} OR (`cdc_old_key` IS NOT NULL AND get_json_object(`cdc_old_key`, '$[0]') = ${tenant} AND CAST(get_json_object(`cdc_old_key`, '$[1]') AS TIMESTAMP) = ${at} AND unhex(get_json_object(`cdc_old_key`, '$[2]')) = ${tag});

DELETE FROM `events`.`event_log_folded`
WHERE `tenant` = ${tenant} AND `at` = ${at} AND `tag` = ${tag};

-- Now no query of the newest snapshots finds them. The bytes go with the older
-- snapshots and the files that only they name. Run icehose merge before: the tag
-- icehose_merged keeps the snapshot that was merged last.
CALL system.rewrite_data_files(table => 'events.event_log', options => map('delete-file-threshold', '1'));
CALL system.expire_snapshots(table => 'events.event_log', older_than => current_timestamp(), retain_last => 1);
CALL system.rewrite_data_files(table => 'events.event_log_folded', options => map('delete-file-threshold', '1'));
CALL system.expire_snapshots(table => 'events.event_log_folded', older_than => current_timestamp(), retain_last => 1);
-- A record that is still in the stream, or among Firehose's errors, brings its row
-- back: run the statements again after the stream's retention.
