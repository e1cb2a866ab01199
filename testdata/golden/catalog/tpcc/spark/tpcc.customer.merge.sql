-- Brings `tpcc`.`customer_folded` up to date: the keys that new files of the changelog
-- speak of are folded anew, whenever their rows arrived. icehose merge runs it,
-- the first time too, and keeps account. To run it yourself, replace
--   ${from}     the snapshot of the changelog that the last run read up to
--   ${to}       the changelog's newest snapshot
--   ${current}  the newest snapshot of the current table
-- and keep ${to} for the next run only after this one has succeeded: a run that
-- was killed, or that is repeated, does no harm. If another run has changed the
-- current table since ${current}, this one fails: begin again.
MERGE INTO `tpcc`.`customer_folded` AS t
USING (SELECT * FROM (
WITH spoken AS (
  SELECT c.`c_w_id` AS `c_w_id`, c.`c_d_id` AS `c_d_id`, c.`c_id` AS `c_id`
  FROM `tpcc`.`customer` WITH ('start-snapshot-id' = '${from}', 'end-snapshot-id' = '${to}') AS c
  UNION
  SELECT CAST(get_json_object(c.`cdc_old_key`, '$[0]') AS INT) AS `c_w_id`, CAST(get_json_object(c.`cdc_old_key`, '$[1]') AS INT) AS `c_d_id`, CAST(get_json_object(c.`cdc_old_key`, '$[2]') AS INT) AS `c_id`
  FROM `tpcc`.`customer` WITH ('start-snapshot-id' = '${from}', 'end-snapshot-id' = '${to}') AS c
  WHERE c.`cdc_old_key` IS NOT NULL AND c.`cdc_operation` <> 'delete'
  UNION
  SELECT `c_w_id`, `c_d_id`, `c_id`
  FROM `tpcc`.`customer_folded`
  WHERE false
),
heirs1 AS (
  SELECT c.`c_w_id` AS `c_w_id`, c.`c_d_id` AS `c_d_id`, c.`c_id` AS `c_id`
  FROM `tpcc`.`customer` VERSION AS OF ${to} AS c
  JOIN spoken AS k ON CAST(get_json_object(c.`cdc_old_key`, '$[0]') AS INT) = k.`c_w_id` AND CAST(get_json_object(c.`cdc_old_key`, '$[1]') AS INT) = k.`c_d_id` AND CAST(get_json_object(c.`cdc_old_key`, '$[2]') AS INT) = k.`c_id`
  WHERE c.`cdc_old_key` IS NOT NULL AND c.`cdc_operation` <> 'delete' AND c.`cdc_absent` IS NOT NULL
),
touched AS (
  SELECT `c_w_id`, `c_d_id`, `c_id`
  FROM spoken
  UNION
  SELECT `c_w_id`, `c_d_id`, `c_id`
  FROM heirs1
),
ends AS (
  SELECT c.`c_w_id` AS `c_w_id`, c.`c_d_id` AS `c_d_id`, c.`c_id` AS `c_id`, c.`cdc_position` AS cdc_end
  FROM `tpcc`.`customer` VERSION AS OF ${to} AS c
  WHERE c.`cdc_operation` = 'delete'
  UNION ALL
  SELECT CAST(get_json_object(c.`cdc_old_key`, '$[0]') AS INT) AS `c_w_id`, CAST(get_json_object(c.`cdc_old_key`, '$[1]') AS INT) AS `c_d_id`, CAST(get_json_object(c.`cdc_old_key`, '$[2]') AS INT) AS `c_id`, c.`cdc_position`
  FROM `tpcc`.`customer` VERSION AS OF ${to} AS c
  WHERE c.`cdc_old_key` IS NOT NULL AND c.`cdc_operation` <> 'delete'
    AND (CAST(get_json_object(c.`cdc_old_key`, '$[0]') AS INT) <> c.`c_w_id` OR CAST(get_json_object(c.`cdc_old_key`, '$[1]') AS INT) <> c.`c_d_id` OR CAST(get_json_object(c.`cdc_old_key`, '$[2]') AS INT) <> c.`c_id`)
),
ended AS (
  SELECT e.`c_w_id`, e.`c_d_id`, e.`c_id`, max(e.cdc_end) AS cdc_ended
  FROM ends AS e
  JOIN touched AS k ON e.`c_w_id` = k.`c_w_id` AND e.`c_d_id` = k.`c_d_id` AND e.`c_id` = k.`c_id`
  GROUP BY e.`c_w_id`, e.`c_d_id`, e.`c_id`
),
latest AS (
  SELECT a.`c_w_id`, a.`c_d_id`, a.`c_id`,
    CASE WHEN a.cdc_12.a = a.`cdc_position` THEN a.cdc_12.b END AS `c_since`,
    CASE WHEN a.cdc_14.a = a.`cdc_position` THEN a.cdc_14.b END AS `c_credit_lim`,
    CASE WHEN a.cdc_15.a = a.`cdc_position` THEN a.cdc_15.b END AS `c_discount`,
    CASE WHEN a.cdc_16.a = a.`cdc_position` THEN a.cdc_16.b END AS `c_balance`,
    CASE WHEN a.cdc_17.a = a.`cdc_position` THEN a.cdc_17.b END AS `c_ytd_payment`,
    CASE WHEN a.cdc_18.a = a.`cdc_position` THEN a.cdc_18.b END AS `c_payment_cnt`,
    CASE WHEN a.cdc_19.a = a.`cdc_position` THEN a.cdc_19.b END AS `c_delivery_cnt`,
    CASE WHEN a.cdc_3.a = a.cdc_carried_3 THEN a.cdc_3.b END AS `c_first`,
    coalesce(a.cdc_carried_3 <> a.cdc_known_3, true) AS cdc_unknown_3,
    CASE WHEN a.cdc_4.a = a.cdc_carried_4 THEN a.cdc_4.b END AS `c_middle`,
    coalesce(a.cdc_carried_4 <> a.cdc_known_4, true) AS cdc_unknown_4,
    CASE WHEN a.cdc_5.a = a.cdc_carried_5 THEN a.cdc_5.b END AS `c_last`,
    coalesce(a.cdc_carried_5 <> a.cdc_known_5, true) AS cdc_unknown_5,
    CASE WHEN a.cdc_6.a = a.cdc_carried_6 THEN a.cdc_6.b END AS `c_street_1`,
    coalesce(a.cdc_carried_6 <> a.cdc_known_6, true) AS cdc_unknown_6,
    CASE WHEN a.cdc_7.a = a.cdc_carried_7 THEN a.cdc_7.b END AS `c_street_2`,
    coalesce(a.cdc_carried_7 <> a.cdc_known_7, true) AS cdc_unknown_7,
    CASE WHEN a.cdc_8.a = a.cdc_carried_8 THEN a.cdc_8.b END AS `c_city`,
    coalesce(a.cdc_carried_8 <> a.cdc_known_8, true) AS cdc_unknown_8,
    CASE WHEN a.cdc_9.a = a.cdc_carried_9 THEN a.cdc_9.b END AS `c_state`,
    coalesce(a.cdc_carried_9 <> a.cdc_known_9, true) AS cdc_unknown_9,
    CASE WHEN a.cdc_10.a = a.cdc_carried_10 THEN a.cdc_10.b END AS `c_zip`,
    coalesce(a.cdc_carried_10 <> a.cdc_known_10, true) AS cdc_unknown_10,
    CASE WHEN a.cdc_11.a = a.cdc_carried_11 THEN a.cdc_11.b END AS `c_phone`,
    coalesce(a.cdc_carried_11 <> a.cdc_known_11, true) AS cdc_unknown_11,
    CASE WHEN a.cdc_13.a = a.cdc_carried_13 THEN a.cdc_13.b END AS `c_credit`,
    coalesce(a.cdc_carried_13 <> a.cdc_known_13, true) AS cdc_unknown_13,
    CASE WHEN a.cdc_20.a = a.cdc_carried_20 THEN a.cdc_20.b END AS `c_data`,
    coalesce(a.cdc_carried_20 <> a.cdc_known_20, true) AS cdc_unknown_20,
    a.cdc_move.a AS cdc_moved,
    a.cdc_move.b AS cdc_moved_key,
    a.`cdc_position`,
    CASE WHEN a.cdc_21.a = a.`cdc_position` THEN a.cdc_21.b END AS `cdc_committed_at`
  FROM (
    SELECT c.`c_w_id` AS `c_w_id`, c.`c_d_id` AS `c_d_id`, c.`c_id` AS `c_id`,
      max(struct(c.`cdc_position` AS a, c.`c_since` AS b)) FILTER (WHERE c.`c_since` IS NOT NULL) AS cdc_12,
      max(struct(c.`cdc_position` AS a, c.`c_credit_lim` AS b)) FILTER (WHERE c.`c_credit_lim` IS NOT NULL) AS cdc_14,
      max(struct(c.`cdc_position` AS a, c.`c_discount` AS b)) FILTER (WHERE c.`c_discount` IS NOT NULL) AS cdc_15,
      max(struct(c.`cdc_position` AS a, c.`c_balance` AS b)) FILTER (WHERE c.`c_balance` IS NOT NULL) AS cdc_16,
      max(struct(c.`cdc_position` AS a, c.`c_ytd_payment` AS b)) FILTER (WHERE c.`c_ytd_payment` IS NOT NULL) AS cdc_17,
      max(struct(c.`cdc_position` AS a, c.`c_payment_cnt` AS b)) FILTER (WHERE c.`c_payment_cnt` IS NOT NULL) AS cdc_18,
      max(struct(c.`cdc_position` AS a, c.`c_delivery_cnt` AS b)) FILTER (WHERE c.`c_delivery_cnt` IS NOT NULL) AS cdc_19,
      max(c.`cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_first')) AS cdc_carried_3,
      max(c.`cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_first') OR c.`cdc_old_key` IS NOT NULL) AS cdc_known_3,
      max(struct(c.`cdc_position` AS a, c.`c_first` AS b)) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_first') AND c.`c_first` IS NOT NULL) AS cdc_3,
      max(c.`cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_middle')) AS cdc_carried_4,
      max(c.`cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_middle') OR c.`cdc_old_key` IS NOT NULL) AS cdc_known_4,
      max(struct(c.`cdc_position` AS a, c.`c_middle` AS b)) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_middle') AND c.`c_middle` IS NOT NULL) AS cdc_4,
      max(c.`cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_last')) AS cdc_carried_5,
      max(c.`cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_last') OR c.`cdc_old_key` IS NOT NULL) AS cdc_known_5,
      max(struct(c.`cdc_position` AS a, c.`c_last` AS b)) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_last') AND c.`c_last` IS NOT NULL) AS cdc_5,
      max(c.`cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_street_1')) AS cdc_carried_6,
      max(c.`cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_street_1') OR c.`cdc_old_key` IS NOT NULL) AS cdc_known_6,
      max(struct(c.`cdc_position` AS a, c.`c_street_1` AS b)) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_street_1') AND c.`c_street_1` IS NOT NULL) AS cdc_6,
      max(c.`cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_street_2')) AS cdc_carried_7,
      max(c.`cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_street_2') OR c.`cdc_old_key` IS NOT NULL) AS cdc_known_7,
      max(struct(c.`cdc_position` AS a, c.`c_street_2` AS b)) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_street_2') AND c.`c_street_2` IS NOT NULL) AS cdc_7,
      max(c.`cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_city')) AS cdc_carried_8,
      max(c.`cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_city') OR c.`cdc_old_key` IS NOT NULL) AS cdc_known_8,
      max(struct(c.`cdc_position` AS a, c.`c_city` AS b)) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_city') AND c.`c_city` IS NOT NULL) AS cdc_8,
      max(c.`cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_state')) AS cdc_carried_9,
      max(c.`cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_state') OR c.`cdc_old_key` IS NOT NULL) AS cdc_known_9,
      max(struct(c.`cdc_position` AS a, c.`c_state` AS b)) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_state') AND c.`c_state` IS NOT NULL) AS cdc_9,
      max(c.`cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_zip')) AS cdc_carried_10,
      max(c.`cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_zip') OR c.`cdc_old_key` IS NOT NULL) AS cdc_known_10,
      max(struct(c.`cdc_position` AS a, c.`c_zip` AS b)) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_zip') AND c.`c_zip` IS NOT NULL) AS cdc_10,
      max(c.`cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_phone')) AS cdc_carried_11,
      max(c.`cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_phone') OR c.`cdc_old_key` IS NOT NULL) AS cdc_known_11,
      max(struct(c.`cdc_position` AS a, c.`c_phone` AS b)) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_phone') AND c.`c_phone` IS NOT NULL) AS cdc_11,
      max(c.`cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_credit')) AS cdc_carried_13,
      max(c.`cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_credit') OR c.`cdc_old_key` IS NOT NULL) AS cdc_known_13,
      max(struct(c.`cdc_position` AS a, c.`c_credit` AS b)) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_credit') AND c.`c_credit` IS NOT NULL) AS cdc_13,
      max(c.`cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_data')) AS cdc_carried_20,
      max(c.`cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_data') OR c.`cdc_old_key` IS NOT NULL) AS cdc_known_20,
      max(struct(c.`cdc_position` AS a, c.`c_data` AS b)) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_data') AND c.`c_data` IS NOT NULL) AS cdc_20,
      max(struct(c.`cdc_position` AS a, c.`cdc_old_key` AS b)) FILTER (WHERE c.`cdc_old_key` IS NOT NULL) AS cdc_move,
      max(c.`cdc_position`) AS `cdc_position`,
      max(struct(c.`cdc_position` AS a, c.`cdc_committed_at` AS b)) FILTER (WHERE c.`cdc_committed_at` IS NOT NULL) AS cdc_21
    FROM `tpcc`.`customer` VERSION AS OF ${to} AS c
    JOIN touched AS k ON c.`c_w_id` = k.`c_w_id` AND c.`c_d_id` = k.`c_d_id` AND c.`c_id` = k.`c_id`
    LEFT JOIN ended AS e ON c.`c_w_id` = e.`c_w_id` AND c.`c_d_id` = e.`c_d_id` AND c.`c_id` = e.`c_id`
    WHERE c.`cdc_operation` <> 'delete' AND (e.cdc_ended IS NULL OR c.`cdc_position` > e.cdc_ended)
    GROUP BY c.`c_w_id`, c.`c_d_id`, c.`c_id`
  ) AS a
),
hop1 AS (
  SELECT p.`c_w_id`, p.`c_d_id`, p.`c_id`, CAST(get_json_object(p.cdc_moved_key, '$[0]') AS INT) AS cdc_old_0, CAST(get_json_object(p.cdc_moved_key, '$[1]') AS INT) AS cdc_old_1, CAST(get_json_object(p.cdc_moved_key, '$[2]') AS INT) AS cdc_old_2, p.cdc_moved
  FROM latest AS p
  WHERE p.cdc_moved IS NOT NULL AND (p.cdc_unknown_3 OR p.cdc_unknown_4 OR p.cdc_unknown_5 OR p.cdc_unknown_6 OR p.cdc_unknown_7 OR p.cdc_unknown_8 OR p.cdc_unknown_9 OR p.cdc_unknown_10 OR p.cdc_unknown_11 OR p.cdc_unknown_13 OR p.cdc_unknown_20)
),
ended1 AS (
  SELECT h.`c_w_id`, h.`c_d_id`, h.`c_id`, max(e.cdc_end) AS cdc_ended
  FROM hop1 AS h
  JOIN ends AS e ON e.`c_w_id` = h.cdc_old_0 AND e.`c_d_id` = h.cdc_old_1 AND e.`c_id` = h.cdc_old_2 AND e.cdc_end < h.cdc_moved
  GROUP BY h.`c_w_id`, h.`c_d_id`, h.`c_id`
),
before1 AS (
  SELECT a.`c_w_id`, a.`c_d_id`, a.`c_id`,
    CASE WHEN a.cdc_3.a = a.cdc_carried_3 THEN a.cdc_3.b END AS `c_first`,
    coalesce(a.cdc_carried_3 <> a.cdc_known_3, true) AS cdc_unknown_3,
    CASE WHEN a.cdc_4.a = a.cdc_carried_4 THEN a.cdc_4.b END AS `c_middle`,
    coalesce(a.cdc_carried_4 <> a.cdc_known_4, true) AS cdc_unknown_4,
    CASE WHEN a.cdc_5.a = a.cdc_carried_5 THEN a.cdc_5.b END AS `c_last`,
    coalesce(a.cdc_carried_5 <> a.cdc_known_5, true) AS cdc_unknown_5,
    CASE WHEN a.cdc_6.a = a.cdc_carried_6 THEN a.cdc_6.b END AS `c_street_1`,
    coalesce(a.cdc_carried_6 <> a.cdc_known_6, true) AS cdc_unknown_6,
    CASE WHEN a.cdc_7.a = a.cdc_carried_7 THEN a.cdc_7.b END AS `c_street_2`,
    coalesce(a.cdc_carried_7 <> a.cdc_known_7, true) AS cdc_unknown_7,
    CASE WHEN a.cdc_8.a = a.cdc_carried_8 THEN a.cdc_8.b END AS `c_city`,
    coalesce(a.cdc_carried_8 <> a.cdc_known_8, true) AS cdc_unknown_8,
    CASE WHEN a.cdc_9.a = a.cdc_carried_9 THEN a.cdc_9.b END AS `c_state`,
    coalesce(a.cdc_carried_9 <> a.cdc_known_9, true) AS cdc_unknown_9,
    CASE WHEN a.cdc_10.a = a.cdc_carried_10 THEN a.cdc_10.b END AS `c_zip`,
    coalesce(a.cdc_carried_10 <> a.cdc_known_10, true) AS cdc_unknown_10,
    CASE WHEN a.cdc_11.a = a.cdc_carried_11 THEN a.cdc_11.b END AS `c_phone`,
    coalesce(a.cdc_carried_11 <> a.cdc_known_11, true) AS cdc_unknown_11,
    CASE WHEN a.cdc_13.a = a.cdc_carried_13 THEN a.cdc_13.b END AS `c_credit`,
    coalesce(a.cdc_carried_13 <> a.cdc_known_13, true) AS cdc_unknown_13,
    CASE WHEN a.cdc_20.a = a.cdc_carried_20 THEN a.cdc_20.b END AS `c_data`,
    coalesce(a.cdc_carried_20 <> a.cdc_known_20, true) AS cdc_unknown_20,
    a.cdc_move.a AS cdc_moved,
    a.cdc_move.b AS cdc_moved_key
  FROM (
    SELECT h.`c_w_id`, h.`c_d_id`, h.`c_id`,
      max(c.`cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_first')) AS cdc_carried_3,
      max(c.`cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_first') OR c.`cdc_old_key` IS NOT NULL) AS cdc_known_3,
      max(struct(c.`cdc_position` AS a, c.`c_first` AS b)) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_first') AND c.`c_first` IS NOT NULL) AS cdc_3,
      max(c.`cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_middle')) AS cdc_carried_4,
      max(c.`cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_middle') OR c.`cdc_old_key` IS NOT NULL) AS cdc_known_4,
      max(struct(c.`cdc_position` AS a, c.`c_middle` AS b)) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_middle') AND c.`c_middle` IS NOT NULL) AS cdc_4,
      max(c.`cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_last')) AS cdc_carried_5,
      max(c.`cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_last') OR c.`cdc_old_key` IS NOT NULL) AS cdc_known_5,
      max(struct(c.`cdc_position` AS a, c.`c_last` AS b)) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_last') AND c.`c_last` IS NOT NULL) AS cdc_5,
      max(c.`cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_street_1')) AS cdc_carried_6,
      max(c.`cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_street_1') OR c.`cdc_old_key` IS NOT NULL) AS cdc_known_6,
      max(struct(c.`cdc_position` AS a, c.`c_street_1` AS b)) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_street_1') AND c.`c_street_1` IS NOT NULL) AS cdc_6,
      max(c.`cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_street_2')) AS cdc_carried_7,
      max(c.`cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_street_2') OR c.`cdc_old_key` IS NOT NULL) AS cdc_known_7,
      max(struct(c.`cdc_position` AS a, c.`c_street_2` AS b)) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_street_2') AND c.`c_street_2` IS NOT NULL) AS cdc_7,
      max(c.`cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_city')) AS cdc_carried_8,
      max(c.`cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_city') OR c.`cdc_old_key` IS NOT NULL) AS cdc_known_8,
      max(struct(c.`cdc_position` AS a, c.`c_city` AS b)) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_city') AND c.`c_city` IS NOT NULL) AS cdc_8,
      max(c.`cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_state')) AS cdc_carried_9,
      max(c.`cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_state') OR c.`cdc_old_key` IS NOT NULL) AS cdc_known_9,
      max(struct(c.`cdc_position` AS a, c.`c_state` AS b)) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_state') AND c.`c_state` IS NOT NULL) AS cdc_9,
      max(c.`cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_zip')) AS cdc_carried_10,
      max(c.`cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_zip') OR c.`cdc_old_key` IS NOT NULL) AS cdc_known_10,
      max(struct(c.`cdc_position` AS a, c.`c_zip` AS b)) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_zip') AND c.`c_zip` IS NOT NULL) AS cdc_10,
      max(c.`cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_phone')) AS cdc_carried_11,
      max(c.`cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_phone') OR c.`cdc_old_key` IS NOT NULL) AS cdc_known_11,
      max(struct(c.`cdc_position` AS a, c.`c_phone` AS b)) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_phone') AND c.`c_phone` IS NOT NULL) AS cdc_11,
      max(c.`cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_credit')) AS cdc_carried_13,
      max(c.`cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_credit') OR c.`cdc_old_key` IS NOT NULL) AS cdc_known_13,
      max(struct(c.`cdc_position` AS a, c.`c_credit` AS b)) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_credit') AND c.`c_credit` IS NOT NULL) AS cdc_13,
      max(c.`cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_data')) AS cdc_carried_20,
      max(c.`cdc_position`) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_data') OR c.`cdc_old_key` IS NOT NULL) AS cdc_known_20,
      max(struct(c.`cdc_position` AS a, c.`c_data` AS b)) FILTER (WHERE NOT array_contains(split(coalesce(`cdc_absent`, ''), ','), 'c_data') AND c.`c_data` IS NOT NULL) AS cdc_20,
      max(struct(c.`cdc_position` AS a, c.`cdc_old_key` AS b)) FILTER (WHERE c.`cdc_old_key` IS NOT NULL) AS cdc_move
    FROM hop1 AS h
    JOIN `tpcc`.`customer` VERSION AS OF ${to} AS c ON c.`c_w_id` = h.cdc_old_0 AND c.`c_d_id` = h.cdc_old_1 AND c.`c_id` = h.cdc_old_2 AND c.`cdc_position` < h.cdc_moved
    LEFT JOIN ended1 AS e ON h.`c_w_id` = e.`c_w_id` AND h.`c_d_id` = e.`c_d_id` AND h.`c_id` = e.`c_id`
    WHERE c.`cdc_operation` <> 'delete' AND (e.cdc_ended IS NULL OR c.`cdc_position` > e.cdc_ended)
    GROUP BY h.`c_w_id`, h.`c_d_id`, h.`c_id`
  ) AS a
)
SELECT
  k.`c_id`,
  k.`c_d_id`,
  k.`c_w_id`,
  CASE WHEN NOT l.cdc_unknown_3 THEN l.`c_first` WHEN NOT b1.cdc_unknown_3 THEN b1.`c_first` END AS `c_first`,
  CASE WHEN NOT l.cdc_unknown_4 THEN l.`c_middle` WHEN NOT b1.cdc_unknown_4 THEN b1.`c_middle` END AS `c_middle`,
  CASE WHEN NOT l.cdc_unknown_5 THEN l.`c_last` WHEN NOT b1.cdc_unknown_5 THEN b1.`c_last` END AS `c_last`,
  CASE WHEN NOT l.cdc_unknown_6 THEN l.`c_street_1` WHEN NOT b1.cdc_unknown_6 THEN b1.`c_street_1` END AS `c_street_1`,
  CASE WHEN NOT l.cdc_unknown_7 THEN l.`c_street_2` WHEN NOT b1.cdc_unknown_7 THEN b1.`c_street_2` END AS `c_street_2`,
  CASE WHEN NOT l.cdc_unknown_8 THEN l.`c_city` WHEN NOT b1.cdc_unknown_8 THEN b1.`c_city` END AS `c_city`,
  CASE WHEN NOT l.cdc_unknown_9 THEN l.`c_state` WHEN NOT b1.cdc_unknown_9 THEN b1.`c_state` END AS `c_state`,
  CASE WHEN NOT l.cdc_unknown_10 THEN l.`c_zip` WHEN NOT b1.cdc_unknown_10 THEN b1.`c_zip` END AS `c_zip`,
  CASE WHEN NOT l.cdc_unknown_11 THEN l.`c_phone` WHEN NOT b1.cdc_unknown_11 THEN b1.`c_phone` END AS `c_phone`,
  l.`c_since` AS `c_since`,
  CASE WHEN NOT l.cdc_unknown_13 THEN l.`c_credit` WHEN NOT b1.cdc_unknown_13 THEN b1.`c_credit` END AS `c_credit`,
  l.`c_credit_lim` AS `c_credit_lim`,
  l.`c_discount` AS `c_discount`,
  l.`c_balance` AS `c_balance`,
  l.`c_ytd_payment` AS `c_ytd_payment`,
  l.`c_payment_cnt` AS `c_payment_cnt`,
  l.`c_delivery_cnt` AS `c_delivery_cnt`,
  CASE WHEN NOT l.cdc_unknown_20 THEN l.`c_data` WHEN NOT b1.cdc_unknown_20 THEN b1.`c_data` END AS `c_data`,
  nullif(concat_ws(',',
        CASE WHEN coalesce(l.cdc_unknown_3, true) AND coalesce(b1.cdc_unknown_3, true) THEN 'c_first' END,
        CASE WHEN coalesce(l.cdc_unknown_4, true) AND coalesce(b1.cdc_unknown_4, true) THEN 'c_middle' END,
        CASE WHEN coalesce(l.cdc_unknown_5, true) AND coalesce(b1.cdc_unknown_5, true) THEN 'c_last' END,
        CASE WHEN coalesce(l.cdc_unknown_6, true) AND coalesce(b1.cdc_unknown_6, true) THEN 'c_street_1' END,
        CASE WHEN coalesce(l.cdc_unknown_7, true) AND coalesce(b1.cdc_unknown_7, true) THEN 'c_street_2' END,
        CASE WHEN coalesce(l.cdc_unknown_8, true) AND coalesce(b1.cdc_unknown_8, true) THEN 'c_city' END,
        CASE WHEN coalesce(l.cdc_unknown_9, true) AND coalesce(b1.cdc_unknown_9, true) THEN 'c_state' END,
        CASE WHEN coalesce(l.cdc_unknown_10, true) AND coalesce(b1.cdc_unknown_10, true) THEN 'c_zip' END,
        CASE WHEN coalesce(l.cdc_unknown_11, true) AND coalesce(b1.cdc_unknown_11, true) THEN 'c_phone' END,
        CASE WHEN coalesce(l.cdc_unknown_13, true) AND coalesce(b1.cdc_unknown_13, true) THEN 'c_credit' END,
        CASE WHEN coalesce(l.cdc_unknown_20, true) AND coalesce(b1.cdc_unknown_20, true) THEN 'c_data' END), '') AS `cdc_unresolved`,
  l.`cdc_position` AS `cdc_position`,
  l.`cdc_committed_at` AS `cdc_committed_at`,
  e.cdc_ended
FROM touched AS k
LEFT JOIN latest AS l ON k.`c_w_id` = l.`c_w_id` AND k.`c_d_id` = l.`c_d_id` AND k.`c_id` = l.`c_id`
LEFT JOIN ended AS e ON k.`c_w_id` = e.`c_w_id` AND k.`c_d_id` = e.`c_d_id` AND k.`c_id` = e.`c_id`
LEFT JOIN before1 AS b1 ON k.`c_w_id` = b1.`c_w_id` AND k.`c_d_id` = b1.`c_d_id` AND k.`c_id` = b1.`c_id`
) AS r WHERE CASE WHEN EXISTS (SELECT 1 FROM `tpcc`.`customer_folded`.refs WHERE name = 'main' AND snapshot_id = ${current}) THEN true ELSE raise_error('icehose: the current table is not as the merge has found it') END) AS s
ON t.`c_w_id` = s.`c_w_id` AND t.`c_d_id` = s.`c_d_id` AND t.`c_id` = s.`c_id`
WHEN MATCHED AND s.`cdc_position` IS NULL AND (false OR t.`cdc_position` <= s.cdc_ended) THEN DELETE
WHEN MATCHED AND s.`cdc_position` IS NOT NULL AND (false OR t.`cdc_position` <= s.`cdc_position`)
  AND (NOT (t.`c_first` <=> s.`c_first`)
    OR NOT (t.`c_middle` <=> s.`c_middle`)
    OR NOT (t.`c_last` <=> s.`c_last`)
    OR NOT (t.`c_street_1` <=> s.`c_street_1`)
    OR NOT (t.`c_street_2` <=> s.`c_street_2`)
    OR NOT (t.`c_city` <=> s.`c_city`)
    OR NOT (t.`c_state` <=> s.`c_state`)
    OR NOT (t.`c_zip` <=> s.`c_zip`)
    OR NOT (t.`c_phone` <=> s.`c_phone`)
    OR NOT (t.`c_since` <=> s.`c_since`)
    OR NOT (t.`c_credit` <=> s.`c_credit`)
    OR NOT (t.`c_credit_lim` <=> s.`c_credit_lim`)
    OR NOT (t.`c_discount` <=> s.`c_discount`)
    OR NOT (t.`c_balance` <=> s.`c_balance`)
    OR NOT (t.`c_ytd_payment` <=> s.`c_ytd_payment`)
    OR NOT (t.`c_payment_cnt` <=> s.`c_payment_cnt`)
    OR NOT (t.`c_delivery_cnt` <=> s.`c_delivery_cnt`)
    OR NOT (t.`c_data` <=> s.`c_data`)
    OR NOT (t.`cdc_unresolved` <=> s.`cdc_unresolved`)
    OR NOT (t.`cdc_position` <=> s.`cdc_position`)
    OR NOT (t.`cdc_committed_at` <=> s.`cdc_committed_at`)) THEN UPDATE SET
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
  `cdc_unresolved` = s.`cdc_unresolved`,
  `cdc_position` = s.`cdc_position`,
  `cdc_committed_at` = s.`cdc_committed_at`
WHEN NOT MATCHED AND s.`cdc_position` IS NOT NULL THEN INSERT (`c_id`, `c_d_id`, `c_w_id`, `c_first`, `c_middle`, `c_last`, `c_street_1`, `c_street_2`, `c_city`, `c_state`, `c_zip`, `c_phone`, `c_since`, `c_credit`, `c_credit_lim`, `c_discount`, `c_balance`, `c_ytd_payment`, `c_payment_cnt`, `c_delivery_cnt`, `c_data`, `cdc_unresolved`, `cdc_position`, `cdc_committed_at`)
  VALUES (s.`c_id`, s.`c_d_id`, s.`c_w_id`, s.`c_first`, s.`c_middle`, s.`c_last`, s.`c_street_1`, s.`c_street_2`, s.`c_city`, s.`c_state`, s.`c_zip`, s.`c_phone`, s.`c_since`, s.`c_credit`, s.`c_credit_lim`, s.`c_discount`, s.`c_balance`, s.`c_ytd_payment`, s.`c_payment_cnt`, s.`c_delivery_cnt`, s.`c_data`, s.`cdc_unresolved`, s.`cdc_position`, s.`cdc_committed_at`);
