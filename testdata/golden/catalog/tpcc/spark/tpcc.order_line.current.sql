-- Current rows: per key the changes above its last end (a delete, or a key change
-- away from it), per column the latest that carries it. cdc_unresolved lists columns
-- whose value the changelog does not give.
-- Where the catalog has no views, make it a TEMPORARY VIEW, without the database.
CREATE OR REPLACE VIEW `tpcc`.`order_line_current` AS
WITH ends AS (
  SELECT c.`ol_w_id` AS `ol_w_id`, c.`ol_d_id` AS `ol_d_id`, c.`ol_o_id` AS `ol_o_id`, c.`ol_number` AS `ol_number`, c.`cdc_position` AS cdc_end
  FROM `tpcc`.`order_line` AS c
  WHERE c.`cdc_operation` = 'delete'
  UNION ALL
  SELECT CAST(get_json_object(c.`cdc_old_key`, '$[0]') AS INT) AS `ol_w_id`, CAST(get_json_object(c.`cdc_old_key`, '$[1]') AS INT) AS `ol_d_id`, CAST(get_json_object(c.`cdc_old_key`, '$[2]') AS INT) AS `ol_o_id`, CAST(get_json_object(c.`cdc_old_key`, '$[3]') AS INT) AS `ol_number`, c.`cdc_position`
  FROM `tpcc`.`order_line` AS c
  WHERE c.`cdc_old_key` IS NOT NULL AND c.`cdc_operation` <> 'delete'
    AND (CAST(get_json_object(c.`cdc_old_key`, '$[0]') AS INT) <> c.`ol_w_id` OR CAST(get_json_object(c.`cdc_old_key`, '$[1]') AS INT) <> c.`ol_d_id` OR CAST(get_json_object(c.`cdc_old_key`, '$[2]') AS INT) <> c.`ol_o_id` OR CAST(get_json_object(c.`cdc_old_key`, '$[3]') AS INT) <> c.`ol_number`)
),
ended AS (
  SELECT e.`ol_w_id`, e.`ol_d_id`, e.`ol_o_id`, e.`ol_number`, max(e.cdc_end) AS cdc_ended
  FROM ends AS e
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
    FROM `tpcc`.`order_line` AS c
    LEFT JOIN ended AS e ON c.`ol_w_id` = e.`ol_w_id` AND c.`ol_d_id` = e.`ol_d_id` AND c.`ol_o_id` = e.`ol_o_id` AND c.`ol_number` = e.`ol_number`
    WHERE c.`cdc_operation` <> 'delete' AND (e.cdc_ended IS NULL OR c.`cdc_position` > e.cdc_ended)
    GROUP BY c.`ol_w_id`, c.`ol_d_id`, c.`ol_o_id`, c.`ol_number`
  ) AS a
)
SELECT
  l.`ol_o_id`,
  l.`ol_d_id`,
  l.`ol_w_id`,
  l.`ol_number`,
  l.`ol_i_id` AS `ol_i_id`,
  l.`ol_supply_w_id` AS `ol_supply_w_id`,
  l.`ol_delivery_d` AS `ol_delivery_d`,
  l.`ol_quantity` AS `ol_quantity`,
  l.`ol_amount` AS `ol_amount`,
  l.`ol_dist_info` AS `ol_dist_info`,
  CAST(NULL AS STRING) AS `cdc_unresolved`,
  l.`cdc_position` AS `cdc_position`,
  l.`cdc_committed_at` AS `cdc_committed_at`
FROM latest AS l;
