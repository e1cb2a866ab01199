-- Brings `tpcc`.`order_line_folded` up to date: the keys that new files of the changelog
-- speak of are folded anew, whenever their rows arrived. icehose merge runs it,
-- the first time too, and keeps account. To run it yourself, replace
--   ${from}     the snapshot of the changelog that the last run read up to
--   ${to}       the changelog's newest snapshot
--   ${current}  the newest snapshot of the current table
-- and keep ${to} for the next run only after this one has succeeded: a run that
-- was killed, or that is repeated, does no harm. If another run has changed the
-- current table since ${current}, this one fails: begin again.
MERGE INTO `tpcc`.`order_line_folded` AS t
USING (SELECT * FROM (
WITH touched AS (
  SELECT c.`ol_w_id` AS `ol_w_id`, c.`ol_d_id` AS `ol_d_id`, c.`ol_o_id` AS `ol_o_id`, c.`ol_number` AS `ol_number`
  FROM `tpcc`.`order_line` WITH ('start-snapshot-id' = '${from}', 'end-snapshot-id' = '${to}') AS c
  UNION
  SELECT CAST(get_json_object(c.`cdc_old_key`, '$[0]') AS INT) AS `ol_w_id`, CAST(get_json_object(c.`cdc_old_key`, '$[1]') AS INT) AS `ol_d_id`, CAST(get_json_object(c.`cdc_old_key`, '$[2]') AS INT) AS `ol_o_id`, CAST(get_json_object(c.`cdc_old_key`, '$[3]') AS INT) AS `ol_number`
  FROM `tpcc`.`order_line` WITH ('start-snapshot-id' = '${from}', 'end-snapshot-id' = '${to}') AS c
  WHERE c.`cdc_old_key` IS NOT NULL AND c.`cdc_operation` <> 'delete'
  UNION
  SELECT `ol_w_id`, `ol_d_id`, `ol_o_id`, `ol_number`
  FROM `tpcc`.`order_line_folded`
  WHERE false
),
ends AS (
  SELECT c.`ol_w_id` AS `ol_w_id`, c.`ol_d_id` AS `ol_d_id`, c.`ol_o_id` AS `ol_o_id`, c.`ol_number` AS `ol_number`, c.`cdc_position` AS cdc_end
  FROM `tpcc`.`order_line` VERSION AS OF ${to} AS c
  WHERE c.`cdc_operation` = 'delete'
  UNION ALL
  SELECT CAST(get_json_object(c.`cdc_old_key`, '$[0]') AS INT) AS `ol_w_id`, CAST(get_json_object(c.`cdc_old_key`, '$[1]') AS INT) AS `ol_d_id`, CAST(get_json_object(c.`cdc_old_key`, '$[2]') AS INT) AS `ol_o_id`, CAST(get_json_object(c.`cdc_old_key`, '$[3]') AS INT) AS `ol_number`, c.`cdc_position`
  FROM `tpcc`.`order_line` VERSION AS OF ${to} AS c
  WHERE c.`cdc_old_key` IS NOT NULL AND c.`cdc_operation` <> 'delete'
    AND (CAST(get_json_object(c.`cdc_old_key`, '$[0]') AS INT) <> c.`ol_w_id` OR CAST(get_json_object(c.`cdc_old_key`, '$[1]') AS INT) <> c.`ol_d_id` OR CAST(get_json_object(c.`cdc_old_key`, '$[2]') AS INT) <> c.`ol_o_id` OR CAST(get_json_object(c.`cdc_old_key`, '$[3]') AS INT) <> c.`ol_number`)
),
ended AS (
  SELECT e.`ol_w_id`, e.`ol_d_id`, e.`ol_o_id`, e.`ol_number`, max(e.cdc_end) AS cdc_ended
  FROM ends AS e
  JOIN touched AS k ON e.`ol_w_id` = k.`ol_w_id` AND e.`ol_d_id` = k.`ol_d_id` AND e.`ol_o_id` = k.`ol_o_id` AND e.`ol_number` = k.`ol_number`
  GROUP BY e.`ol_w_id`, e.`ol_d_id`, e.`ol_o_id`, e.`ol_number`
),
latest AS (
  SELECT a.`ol_w_id`, a.`ol_d_id`, a.`ol_o_id`, a.`ol_number`,
    CASE WHEN a.cdc_4.a = a.`cdc_position` THEN a.cdc_4.b END AS `ol_i_id`,
    CASE WHEN a.cdc_5.a = a.`cdc_position` THEN a.cdc_5.b END AS `ol_supply_w_id`,
    CASE WHEN a.cdc_6.a = a.`cdc_position` THEN a.cdc_6.b END AS `ol_delivery_d`,
    CASE WHEN a.cdc_7.a = a.`cdc_position` THEN a.cdc_7.b END AS `ol_quantity`,
    CASE WHEN a.cdc_8.a = a.`cdc_position` THEN a.cdc_8.b END AS `ol_amount`,
    CASE WHEN a.cdc_9.a = a.`cdc_position` THEN a.cdc_9.b END AS `ol_dist_info`,
    a.`cdc_position`,
    CASE WHEN a.cdc_10.a = a.`cdc_position` THEN a.cdc_10.b END AS `cdc_committed_at`
  FROM (
    SELECT c.`ol_w_id` AS `ol_w_id`, c.`ol_d_id` AS `ol_d_id`, c.`ol_o_id` AS `ol_o_id`, c.`ol_number` AS `ol_number`,
      max(struct(c.`cdc_position` AS a, c.`ol_i_id` AS b)) FILTER (WHERE c.`ol_i_id` IS NOT NULL) AS cdc_4,
      max(struct(c.`cdc_position` AS a, c.`ol_supply_w_id` AS b)) FILTER (WHERE c.`ol_supply_w_id` IS NOT NULL) AS cdc_5,
      max(struct(c.`cdc_position` AS a, c.`ol_delivery_d` AS b)) FILTER (WHERE c.`ol_delivery_d` IS NOT NULL) AS cdc_6,
      max(struct(c.`cdc_position` AS a, c.`ol_quantity` AS b)) FILTER (WHERE c.`ol_quantity` IS NOT NULL) AS cdc_7,
      max(struct(c.`cdc_position` AS a, c.`ol_amount` AS b)) FILTER (WHERE c.`ol_amount` IS NOT NULL) AS cdc_8,
      max(struct(c.`cdc_position` AS a, c.`ol_dist_info` AS b)) FILTER (WHERE c.`ol_dist_info` IS NOT NULL) AS cdc_9,
      max(c.`cdc_position`) AS `cdc_position`,
      max(struct(c.`cdc_position` AS a, c.`cdc_committed_at` AS b)) FILTER (WHERE c.`cdc_committed_at` IS NOT NULL) AS cdc_10
    FROM `tpcc`.`order_line` VERSION AS OF ${to} AS c
    JOIN touched AS k ON c.`ol_w_id` = k.`ol_w_id` AND c.`ol_d_id` = k.`ol_d_id` AND c.`ol_o_id` = k.`ol_o_id` AND c.`ol_number` = k.`ol_number`
    LEFT JOIN ended AS e ON c.`ol_w_id` = e.`ol_w_id` AND c.`ol_d_id` = e.`ol_d_id` AND c.`ol_o_id` = e.`ol_o_id` AND c.`ol_number` = e.`ol_number`
    WHERE c.`cdc_operation` <> 'delete' AND (e.cdc_ended IS NULL OR c.`cdc_position` > e.cdc_ended)
    GROUP BY c.`ol_w_id`, c.`ol_d_id`, c.`ol_o_id`, c.`ol_number`
  ) AS a
)
SELECT
  k.`ol_o_id`,
  k.`ol_d_id`,
  k.`ol_w_id`,
  k.`ol_number`,
  l.`ol_i_id` AS `ol_i_id`,
  l.`ol_supply_w_id` AS `ol_supply_w_id`,
  l.`ol_delivery_d` AS `ol_delivery_d`,
  l.`ol_quantity` AS `ol_quantity`,
  l.`ol_amount` AS `ol_amount`,
  l.`ol_dist_info` AS `ol_dist_info`,
  CAST(NULL AS STRING) AS `cdc_unresolved`,
  l.`cdc_position` AS `cdc_position`,
  l.`cdc_committed_at` AS `cdc_committed_at`,
  e.cdc_ended
FROM touched AS k
LEFT JOIN latest AS l ON k.`ol_w_id` = l.`ol_w_id` AND k.`ol_d_id` = l.`ol_d_id` AND k.`ol_o_id` = l.`ol_o_id` AND k.`ol_number` = l.`ol_number`
LEFT JOIN ended AS e ON k.`ol_w_id` = e.`ol_w_id` AND k.`ol_d_id` = e.`ol_d_id` AND k.`ol_o_id` = e.`ol_o_id` AND k.`ol_number` = e.`ol_number`
) AS r WHERE CASE WHEN EXISTS (SELECT 1 FROM `tpcc`.`order_line_folded`.refs WHERE name = 'main' AND snapshot_id = ${current}) THEN true ELSE raise_error('icehose: the current table is not as the merge has found it') END) AS s
ON t.`ol_w_id` = s.`ol_w_id` AND t.`ol_d_id` = s.`ol_d_id` AND t.`ol_o_id` = s.`ol_o_id` AND t.`ol_number` = s.`ol_number`
WHEN MATCHED AND s.`cdc_position` IS NULL AND (false OR t.`cdc_position` <= s.cdc_ended) THEN DELETE
WHEN MATCHED AND s.`cdc_position` IS NOT NULL AND (false OR t.`cdc_position` <= s.`cdc_position`)
  AND (NOT (t.`ol_i_id` <=> s.`ol_i_id`)
    OR NOT (t.`ol_supply_w_id` <=> s.`ol_supply_w_id`)
    OR NOT (t.`ol_delivery_d` <=> s.`ol_delivery_d`)
    OR NOT (t.`ol_quantity` <=> s.`ol_quantity`)
    OR NOT (t.`ol_amount` <=> s.`ol_amount`)
    OR NOT (t.`ol_dist_info` <=> s.`ol_dist_info`)
    OR NOT (t.`cdc_unresolved` <=> s.`cdc_unresolved`)
    OR NOT (t.`cdc_position` <=> s.`cdc_position`)
    OR NOT (t.`cdc_committed_at` <=> s.`cdc_committed_at`)) THEN UPDATE SET
  `ol_i_id` = s.`ol_i_id`,
  `ol_supply_w_id` = s.`ol_supply_w_id`,
  `ol_delivery_d` = s.`ol_delivery_d`,
  `ol_quantity` = s.`ol_quantity`,
  `ol_amount` = s.`ol_amount`,
  `ol_dist_info` = s.`ol_dist_info`,
  `cdc_unresolved` = s.`cdc_unresolved`,
  `cdc_position` = s.`cdc_position`,
  `cdc_committed_at` = s.`cdc_committed_at`
WHEN NOT MATCHED AND s.`cdc_position` IS NOT NULL THEN INSERT (`ol_o_id`, `ol_d_id`, `ol_w_id`, `ol_number`, `ol_i_id`, `ol_supply_w_id`, `ol_delivery_d`, `ol_quantity`, `ol_amount`, `ol_dist_info`, `cdc_unresolved`, `cdc_position`, `cdc_committed_at`)
  VALUES (s.`ol_o_id`, s.`ol_d_id`, s.`ol_w_id`, s.`ol_number`, s.`ol_i_id`, s.`ol_supply_w_id`, s.`ol_delivery_d`, s.`ol_quantity`, s.`ol_amount`, s.`ol_dist_info`, s.`cdc_unresolved`, s.`cdc_position`, s.`cdc_committed_at`);
