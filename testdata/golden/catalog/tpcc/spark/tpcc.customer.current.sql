-- Current rows: per key the changes above its last end (a delete, or a key change
-- away from it), per column the latest that carries it. cdc_unresolved lists columns
-- whose value no change of this key carries.
-- Where the catalog has no views, make it a TEMPORARY VIEW, without the database.
CREATE OR REPLACE VIEW `tpcc`.`customer_current` AS
WITH ended AS (
  SELECT `c_w_id`, `c_d_id`, `c_id`, max(`cdc_position`) AS cdc_ended
  FROM (
    SELECT `c_w_id`, `c_d_id`, `c_id`, `cdc_position`
    FROM `tpcc`.`customer`
    WHERE `cdc_operation` = 'delete'
    UNION ALL
    SELECT CAST(get_json_object(`cdc_old_key`, '$[0]') AS INT) AS `c_w_id`, CAST(get_json_object(`cdc_old_key`, '$[1]') AS INT) AS `c_d_id`, CAST(get_json_object(`cdc_old_key`, '$[2]') AS INT) AS `c_id`, `cdc_position`
    FROM `tpcc`.`customer`
    WHERE `cdc_old_key` IS NOT NULL AND `cdc_operation` <> 'delete'
  ) AS ends
  GROUP BY `c_w_id`, `c_d_id`, `c_id`
),
alive AS (
  SELECT c.*
  FROM `tpcc`.`customer` AS c
  LEFT JOIN ended AS e ON c.`c_w_id` = e.`c_w_id` AND c.`c_d_id` = e.`c_d_id` AND c.`c_id` = e.`c_id`
  WHERE c.`cdc_operation` <> 'delete' AND (e.cdc_ended IS NULL OR c.`cdc_position` > e.cdc_ended)
)
SELECT
  `c_id`,
  `c_d_id`,
  `c_w_id`,
  max_by(`c_first`, `cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_first') OR `cdc_old_key` IS NOT NULL) AS `c_first`,
  max_by(`c_middle`, `cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_middle') OR `cdc_old_key` IS NOT NULL) AS `c_middle`,
  max_by(`c_last`, `cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_last') OR `cdc_old_key` IS NOT NULL) AS `c_last`,
  max_by(`c_street_1`, `cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_street_1') OR `cdc_old_key` IS NOT NULL) AS `c_street_1`,
  max_by(`c_street_2`, `cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_street_2') OR `cdc_old_key` IS NOT NULL) AS `c_street_2`,
  max_by(`c_city`, `cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_city') OR `cdc_old_key` IS NOT NULL) AS `c_city`,
  max_by(`c_state`, `cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_state') OR `cdc_old_key` IS NOT NULL) AS `c_state`,
  max_by(`c_zip`, `cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_zip') OR `cdc_old_key` IS NOT NULL) AS `c_zip`,
  max_by(`c_phone`, `cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_phone') OR `cdc_old_key` IS NOT NULL) AS `c_phone`,
  max_by(`c_since`, `cdc_position`) AS `c_since`,
  max_by(`c_credit`, `cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_credit') OR `cdc_old_key` IS NOT NULL) AS `c_credit`,
  max_by(`c_credit_lim`, `cdc_position`) AS `c_credit_lim`,
  max_by(`c_discount`, `cdc_position`) AS `c_discount`,
  max_by(`c_balance`, `cdc_position`) AS `c_balance`,
  max_by(`c_ytd_payment`, `cdc_position`) AS `c_ytd_payment`,
  max_by(`c_payment_cnt`, `cdc_position`) AS `c_payment_cnt`,
  max_by(`c_delivery_cnt`, `cdc_position`) AS `c_delivery_cnt`,
  max_by(`c_data`, `cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_data') OR `cdc_old_key` IS NOT NULL) AS `c_data`,
  max(`cdc_position`) AS `cdc_position`,
  max_by(`cdc_committed_at`, `cdc_position`) AS `cdc_committed_at`,
  nullif(concat_ws(',',
        CASE WHEN coalesce(max_by(array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_first'), `cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_first') OR `cdc_old_key` IS NOT NULL), true) THEN 'c_first' END,
        CASE WHEN coalesce(max_by(array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_middle'), `cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_middle') OR `cdc_old_key` IS NOT NULL), true) THEN 'c_middle' END,
        CASE WHEN coalesce(max_by(array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_last'), `cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_last') OR `cdc_old_key` IS NOT NULL), true) THEN 'c_last' END,
        CASE WHEN coalesce(max_by(array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_street_1'), `cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_street_1') OR `cdc_old_key` IS NOT NULL), true) THEN 'c_street_1' END,
        CASE WHEN coalesce(max_by(array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_street_2'), `cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_street_2') OR `cdc_old_key` IS NOT NULL), true) THEN 'c_street_2' END,
        CASE WHEN coalesce(max_by(array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_city'), `cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_city') OR `cdc_old_key` IS NOT NULL), true) THEN 'c_city' END,
        CASE WHEN coalesce(max_by(array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_state'), `cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_state') OR `cdc_old_key` IS NOT NULL), true) THEN 'c_state' END,
        CASE WHEN coalesce(max_by(array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_zip'), `cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_zip') OR `cdc_old_key` IS NOT NULL), true) THEN 'c_zip' END,
        CASE WHEN coalesce(max_by(array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_phone'), `cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_phone') OR `cdc_old_key` IS NOT NULL), true) THEN 'c_phone' END,
        CASE WHEN coalesce(max_by(array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_credit'), `cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_credit') OR `cdc_old_key` IS NOT NULL), true) THEN 'c_credit' END,
        CASE WHEN coalesce(max_by(array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_data'), `cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_data') OR `cdc_old_key` IS NOT NULL), true) THEN 'c_data' END), '') AS `cdc_unresolved`
FROM alive
GROUP BY `c_w_id`, `c_d_id`, `c_id`;
