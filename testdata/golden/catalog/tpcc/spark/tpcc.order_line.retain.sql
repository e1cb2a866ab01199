-- Removes rows that no fold needs any more: what a change, a delete or a load has
-- replaced more than 90 days ago, loaded rows too. So the history of the last 90
-- days stays whole, and a record that is late by less finds what it must be
-- compared with; never set fewer days than a record can be late. Views and merges
-- give the same rows before and after. No merge of this table may run beside. It
-- may be killed at any time; each run can free what the one before made free. The
-- maintenance statements then free the space.
-- A delete stays as long as the current table has a row that it is still to remove.
-- Who never merges creates that table all the same, empty: tpcc.order_line.folded.sql.
MERGE INTO `tpcc`.`order_line` AS t
USING (
  WITH bars AS (
    SELECT b.`ol_w_id`, b.`ol_d_id`, b.`ol_o_id`, b.`ol_number`, max(b.cdc_end) AS cdc_bar
    FROM (
      SELECT c.`ol_w_id` AS `ol_w_id`, c.`ol_d_id` AS `ol_d_id`, c.`ol_o_id` AS `ol_o_id`, c.`ol_number` AS `ol_number`, c.`cdc_position` AS cdc_end
      FROM `tpcc`.`order_line` AS c
      WHERE c.`cdc_operation` = 'delete'
        AND coalesce(c.`cdc_committed_at`, CASE WHEN NOT (substr(c.`cdc_position`, 39, 1) = '0') OR substr(c.`cdc_position`, 6, 32) = '00000000000000000000000000000000' THEN NULL ELSE timestamp_micros(CAST(conv(substr(c.`cdc_position`, 41, 14), 16, 10) AS BIGINT)) END) < current_timestamp - INTERVAL '90' DAY
      UNION ALL
      SELECT CAST(get_json_object(c.`cdc_old_key`, '$[0]') AS INT) AS `ol_w_id`, CAST(get_json_object(c.`cdc_old_key`, '$[1]') AS INT) AS `ol_d_id`, CAST(get_json_object(c.`cdc_old_key`, '$[2]') AS INT) AS `ol_o_id`, CAST(get_json_object(c.`cdc_old_key`, '$[3]') AS INT) AS `ol_number`, c.`cdc_position` AS cdc_end
      FROM `tpcc`.`order_line` AS c
      WHERE c.`cdc_old_key` IS NOT NULL AND c.`cdc_operation` <> 'delete'
        AND (CAST(get_json_object(c.`cdc_old_key`, '$[0]') AS INT) <> c.`ol_w_id` OR CAST(get_json_object(c.`cdc_old_key`, '$[1]') AS INT) <> c.`ol_d_id` OR CAST(get_json_object(c.`cdc_old_key`, '$[2]') AS INT) <> c.`ol_o_id` OR CAST(get_json_object(c.`cdc_old_key`, '$[3]') AS INT) <> c.`ol_number`)
        AND coalesce(c.`cdc_committed_at`, CASE WHEN NOT (substr(c.`cdc_position`, 39, 1) = '0') OR substr(c.`cdc_position`, 6, 32) = '00000000000000000000000000000000' THEN NULL ELSE timestamp_micros(CAST(conv(substr(c.`cdc_position`, 41, 14), 16, 10) AS BIGINT)) END) < current_timestamp - INTERVAL '90' DAY
      UNION ALL
      SELECT c.`ol_w_id` AS `ol_w_id`, c.`ol_d_id` AS `ol_d_id`, c.`ol_o_id` AS `ol_o_id`, c.`ol_number` AS `ol_number`, c.`cdc_position` AS cdc_end
      FROM `tpcc`.`order_line` AS c
      WHERE c.`cdc_operation` <> 'delete' AND c.`cdc_absent` IS NULL
        AND coalesce(c.`cdc_committed_at`, CASE WHEN NOT (substr(c.`cdc_position`, 39, 1) = '0') OR substr(c.`cdc_position`, 6, 32) = '00000000000000000000000000000000' THEN NULL ELSE timestamp_micros(CAST(conv(substr(c.`cdc_position`, 41, 14), 16, 10) AS BIGINT)) END) < current_timestamp - INTERVAL '90' DAY
    ) AS b
    GROUP BY b.`ol_w_id`, b.`ol_d_id`, b.`ol_o_id`, b.`ol_number`
  )
  SELECT DISTINCT c.`ol_w_id` AS `ol_w_id`, c.`ol_d_id` AS `ol_d_id`, c.`ol_o_id` AS `ol_o_id`, c.`ol_number` AS `ol_number`, c.`cdc_position`
  FROM `tpcc`.`order_line` AS c
  JOIN bars AS b ON c.`ol_w_id` = b.`ol_w_id` AND c.`ol_d_id` = b.`ol_d_id` AND c.`ol_o_id` = b.`ol_o_id` AND c.`ol_number` = b.`ol_number`
  WHERE c.`cdc_operation` <> 'delete' AND c.`cdc_old_key` IS NULL
    AND c.`cdc_position` < b.cdc_bar AND NOT coalesce(coalesce(c.`cdc_committed_at`, CASE WHEN NOT (substr(c.`cdc_position`, 39, 1) = '0') OR substr(c.`cdc_position`, 6, 32) = '00000000000000000000000000000000' THEN NULL ELSE timestamp_micros(CAST(conv(substr(c.`cdc_position`, 41, 14), 16, 10) AS BIGINT)) END) >= current_timestamp - INTERVAL '90' DAY, false)
) AS s
ON t.`ol_w_id` = s.`ol_w_id` AND t.`ol_d_id` = s.`ol_d_id` AND t.`ol_o_id` = s.`ol_o_id` AND t.`ol_number` = s.`ol_number` AND t.`cdc_position` = s.`cdc_position` AND NOT (t.`cdc_operation` = 'delete' OR t.`cdc_old_key` IS NOT NULL)
WHEN MATCHED THEN DELETE;

MERGE INTO `tpcc`.`order_line` AS t
USING (
  WITH bars AS (
    SELECT b.`ol_w_id`, b.`ol_d_id`, b.`ol_o_id`, b.`ol_number`, max(b.cdc_end) AS cdc_bar
    FROM (
      SELECT c.`ol_w_id` AS `ol_w_id`, c.`ol_d_id` AS `ol_d_id`, c.`ol_o_id` AS `ol_o_id`, c.`ol_number` AS `ol_number`, c.`cdc_position` AS cdc_end
      FROM `tpcc`.`order_line` AS c
      WHERE c.`cdc_operation` = 'delete'
        AND coalesce(c.`cdc_committed_at`, CASE WHEN NOT (substr(c.`cdc_position`, 39, 1) = '0') OR substr(c.`cdc_position`, 6, 32) = '00000000000000000000000000000000' THEN NULL ELSE timestamp_micros(CAST(conv(substr(c.`cdc_position`, 41, 14), 16, 10) AS BIGINT)) END) < current_timestamp - INTERVAL '90' DAY
      UNION ALL
      SELECT CAST(get_json_object(c.`cdc_old_key`, '$[0]') AS INT) AS `ol_w_id`, CAST(get_json_object(c.`cdc_old_key`, '$[1]') AS INT) AS `ol_d_id`, CAST(get_json_object(c.`cdc_old_key`, '$[2]') AS INT) AS `ol_o_id`, CAST(get_json_object(c.`cdc_old_key`, '$[3]') AS INT) AS `ol_number`, c.`cdc_position` AS cdc_end
      FROM `tpcc`.`order_line` AS c
      WHERE c.`cdc_old_key` IS NOT NULL AND c.`cdc_operation` <> 'delete'
        AND (CAST(get_json_object(c.`cdc_old_key`, '$[0]') AS INT) <> c.`ol_w_id` OR CAST(get_json_object(c.`cdc_old_key`, '$[1]') AS INT) <> c.`ol_d_id` OR CAST(get_json_object(c.`cdc_old_key`, '$[2]') AS INT) <> c.`ol_o_id` OR CAST(get_json_object(c.`cdc_old_key`, '$[3]') AS INT) <> c.`ol_number`)
        AND coalesce(c.`cdc_committed_at`, CASE WHEN NOT (substr(c.`cdc_position`, 39, 1) = '0') OR substr(c.`cdc_position`, 6, 32) = '00000000000000000000000000000000' THEN NULL ELSE timestamp_micros(CAST(conv(substr(c.`cdc_position`, 41, 14), 16, 10) AS BIGINT)) END) < current_timestamp - INTERVAL '90' DAY
      UNION ALL
      SELECT c.`ol_w_id` AS `ol_w_id`, c.`ol_d_id` AS `ol_d_id`, c.`ol_o_id` AS `ol_o_id`, c.`ol_number` AS `ol_number`, c.`cdc_position` AS cdc_end
      FROM `tpcc`.`order_line` AS c
      WHERE c.`cdc_operation` <> 'delete' AND c.`cdc_absent` IS NULL
        AND coalesce(c.`cdc_committed_at`, CASE WHEN NOT (substr(c.`cdc_position`, 39, 1) = '0') OR substr(c.`cdc_position`, 6, 32) = '00000000000000000000000000000000' THEN NULL ELSE timestamp_micros(CAST(conv(substr(c.`cdc_position`, 41, 14), 16, 10) AS BIGINT)) END) < current_timestamp - INTERVAL '90' DAY
    ) AS b
    GROUP BY b.`ol_w_id`, b.`ol_d_id`, b.`ol_o_id`, b.`ol_number`
  ),
  lowest AS (
    SELECT w.`ol_w_id`, w.`ol_d_id`, w.`ol_o_id`, w.`ol_number`, min(w.cdc_lowest) AS cdc_lowest
    FROM (
      SELECT c.`ol_w_id` AS `ol_w_id`, c.`ol_d_id` AS `ol_d_id`, c.`ol_o_id` AS `ol_o_id`, c.`ol_number` AS `ol_number`, c.`cdc_position` AS cdc_lowest
      FROM `tpcc`.`order_line` AS c
      WHERE c.`cdc_operation` <> 'delete'
      UNION ALL
      SELECT g.`ol_w_id` AS `ol_w_id`, g.`ol_d_id` AS `ol_d_id`, g.`ol_o_id` AS `ol_o_id`, g.`ol_number` AS `ol_number`, g.`cdc_position` AS cdc_lowest
      FROM `tpcc`.`order_line_folded` AS g
    ) AS w
    GROUP BY w.`ol_w_id`, w.`ol_d_id`, w.`ol_o_id`, w.`ol_number`
  )
  SELECT DISTINCT c.`ol_w_id` AS `ol_w_id`, c.`ol_d_id` AS `ol_d_id`, c.`ol_o_id` AS `ol_o_id`, c.`ol_number` AS `ol_number`, c.`cdc_position`
  FROM `tpcc`.`order_line` AS c
  LEFT JOIN lowest AS w ON c.`ol_w_id` = w.`ol_w_id` AND c.`ol_d_id` = w.`ol_d_id` AND c.`ol_o_id` = w.`ol_o_id` AND c.`ol_number` = w.`ol_number`
  WHERE c.`cdc_operation` = 'delete'
    AND coalesce(c.`cdc_committed_at`, CASE WHEN NOT (substr(c.`cdc_position`, 39, 1) = '0') OR substr(c.`cdc_position`, 6, 32) = '00000000000000000000000000000000' THEN NULL ELSE timestamp_micros(CAST(conv(substr(c.`cdc_position`, 41, 14), 16, 10) AS BIGINT)) END) < current_timestamp - INTERVAL '90' DAY AND (w.cdc_lowest IS NULL OR w.cdc_lowest >= c.`cdc_position`)
  UNION
  SELECT c.`ol_w_id` AS `ol_w_id`, c.`ol_d_id` AS `ol_d_id`, c.`ol_o_id` AS `ol_o_id`, c.`ol_number` AS `ol_number`, c.`cdc_position`
  FROM `tpcc`.`order_line` AS c
  JOIN bars AS b ON c.`ol_w_id` = b.`ol_w_id` AND c.`ol_d_id` = b.`ol_d_id` AND c.`ol_o_id` = b.`ol_o_id` AND c.`ol_number` = b.`ol_number`
  LEFT JOIN lowest AS w ON CAST(get_json_object(c.`cdc_old_key`, '$[0]') AS INT) = w.`ol_w_id` AND CAST(get_json_object(c.`cdc_old_key`, '$[1]') AS INT) = w.`ol_d_id` AND CAST(get_json_object(c.`cdc_old_key`, '$[2]') AS INT) = w.`ol_o_id` AND CAST(get_json_object(c.`cdc_old_key`, '$[3]') AS INT) = w.`ol_number`
  WHERE c.`cdc_old_key` IS NOT NULL AND c.`cdc_operation` <> 'delete'
    AND coalesce(c.`cdc_committed_at`, CASE WHEN NOT (substr(c.`cdc_position`, 39, 1) = '0') OR substr(c.`cdc_position`, 6, 32) = '00000000000000000000000000000000' THEN NULL ELSE timestamp_micros(CAST(conv(substr(c.`cdc_position`, 41, 14), 16, 10) AS BIGINT)) END) < current_timestamp - INTERVAL '90' DAY
    AND c.`cdc_position` < b.cdc_bar AND NOT coalesce(coalesce(c.`cdc_committed_at`, CASE WHEN NOT (substr(c.`cdc_position`, 39, 1) = '0') OR substr(c.`cdc_position`, 6, 32) = '00000000000000000000000000000000' THEN NULL ELSE timestamp_micros(CAST(conv(substr(c.`cdc_position`, 41, 14), 16, 10) AS BIGINT)) END) >= current_timestamp - INTERVAL '90' DAY, false) AND (w.cdc_lowest IS NULL OR w.cdc_lowest >= c.`cdc_position`)
) AS s
ON t.`ol_w_id` = s.`ol_w_id` AND t.`ol_d_id` = s.`ol_d_id` AND t.`ol_o_id` = s.`ol_o_id` AND t.`ol_number` = s.`ol_number` AND t.`cdc_position` = s.`cdc_position` AND (t.`cdc_operation` = 'delete' OR t.`cdc_old_key` IS NOT NULL)
WHEN MATCHED THEN DELETE;
