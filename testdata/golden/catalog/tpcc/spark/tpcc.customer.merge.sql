-- Brings the folded table up to date for the keys that changed within the window.
-- Run it without the line marked WINDOW the first time, after a load or a reload,
-- and after deliveries that were late by more than the window.
MERGE INTO `tpcc`.`customer_folded` AS t
USING (
  WITH recent AS (
    SELECT *
    FROM `tpcc`.`customer`
    WHERE `cdc_committed_at` >= current_timestamp - INTERVAL '7' DAY -- WINDOW
  ),
  touched AS (
    SELECT `c_w_id` AS `c_w_id`, `c_d_id` AS `c_d_id`, `c_id` AS `c_id`
    FROM recent
    UNION
    SELECT CAST(get_json_object(`cdc_old_key`, '$[0]') AS INT) AS `c_w_id`, CAST(get_json_object(`cdc_old_key`, '$[1]') AS INT) AS `c_d_id`, CAST(get_json_object(`cdc_old_key`, '$[2]') AS INT) AS `c_id`
    FROM recent
    WHERE `cdc_old_key` IS NOT NULL AND `cdc_operation` <> 'delete'
  )
  SELECT k.`c_w_id`, k.`c_d_id`, k.`c_id`, c.`c_first`, c.`c_middle`, c.`c_last`, c.`c_street_1`, c.`c_street_2`, c.`c_city`, c.`c_state`, c.`c_zip`, c.`c_phone`, c.`c_since`, c.`c_credit`, c.`c_credit_lim`, c.`c_discount`, c.`c_balance`, c.`c_ytd_payment`, c.`c_payment_cnt`, c.`c_delivery_cnt`, c.`c_data`, c.`cdc_position`, c.`cdc_committed_at`, c.`cdc_unresolved`
  FROM touched AS k
  LEFT JOIN `tpcc`.`customer_current` AS c ON k.`c_w_id` = c.`c_w_id` AND k.`c_d_id` = c.`c_d_id` AND k.`c_id` = c.`c_id`
) AS s
ON t.`c_w_id` = s.`c_w_id` AND t.`c_d_id` = s.`c_d_id` AND t.`c_id` = s.`c_id`
WHEN MATCHED AND s.`cdc_position` IS NULL THEN DELETE
WHEN MATCHED THEN UPDATE SET
  `c_first` = s.`c_first`,
  `c_middle` = s.`c_middle`,
  `c_last` = s.`c_last`,
  `c_street_1` = s.`c_street_1`,
  `c_street_2` = s.`c_street_2`,
  `c_city` = s.`c_city`,
  `c_state` = s.`c_state`,
  `c_zip` = s.`c_zip`,
  `c_phone` = s.`c_phone`,
  `c_since` = s.`c_since`,
  `c_credit` = s.`c_credit`,
  `c_credit_lim` = s.`c_credit_lim`,
  `c_discount` = s.`c_discount`,
  `c_balance` = s.`c_balance`,
  `c_ytd_payment` = s.`c_ytd_payment`,
  `c_payment_cnt` = s.`c_payment_cnt`,
  `c_delivery_cnt` = s.`c_delivery_cnt`,
  `c_data` = s.`c_data`,
  `cdc_position` = s.`cdc_position`,
  `cdc_committed_at` = s.`cdc_committed_at`,
  `cdc_unresolved` = s.`cdc_unresolved`
WHEN NOT MATCHED AND s.`cdc_position` IS NOT NULL THEN INSERT (`c_id`, `c_d_id`, `c_w_id`, `c_first`, `c_middle`, `c_last`, `c_street_1`, `c_street_2`, `c_city`, `c_state`, `c_zip`, `c_phone`, `c_since`, `c_credit`, `c_credit_lim`, `c_discount`, `c_balance`, `c_ytd_payment`, `c_payment_cnt`, `c_delivery_cnt`, `c_data`, `cdc_position`, `cdc_committed_at`, `cdc_unresolved`)
  VALUES (s.`c_id`, s.`c_d_id`, s.`c_w_id`, s.`c_first`, s.`c_middle`, s.`c_last`, s.`c_street_1`, s.`c_street_2`, s.`c_city`, s.`c_state`, s.`c_zip`, s.`c_phone`, s.`c_since`, s.`c_credit`, s.`c_credit_lim`, s.`c_discount`, s.`c_balance`, s.`c_ytd_payment`, s.`c_payment_cnt`, s.`c_delivery_cnt`, s.`c_data`, s.`cdc_position`, s.`cdc_committed_at`, s.`cdc_unresolved`);
