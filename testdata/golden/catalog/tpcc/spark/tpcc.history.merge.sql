-- Brings the folded table up to date for the keys that changed within the window.
-- Run it without the line marked WINDOW the first time, after a load or a reload,
-- and after deliveries that were late by more than the window.
-- Before the run after a reload, empty the folded table.
MERGE INTO `tpcc`.`history_folded` AS t
USING (
  SELECT *
  FROM `tpcc`.`history_current`
  WHERE `cdc_committed_at` >= current_timestamp - INTERVAL '7' DAY -- WINDOW
) AS s
ON t.`cdc_position` = s.`cdc_position`
WHEN NOT MATCHED THEN INSERT (`h_c_id`, `h_c_d_id`, `h_c_w_id`, `h_d_id`, `h_w_id`, `h_date`, `h_amount`, `h_data`, `cdc_position`, `cdc_committed_at`)
  VALUES (s.`h_c_id`, s.`h_c_d_id`, s.`h_c_w_id`, s.`h_d_id`, s.`h_w_id`, s.`h_date`, s.`h_amount`, s.`h_data`, s.`cdc_position`, s.`cdc_committed_at`);
