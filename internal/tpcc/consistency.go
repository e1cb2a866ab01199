package tpcc

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// CheckConsistency runs the conditions 1 to 4 of clause 3.3.2. The error says
// which one does not hold and in how many districts.
func CheckConsistency(ctx context.Context, conn *pgx.Conn) error {
	conditions := [...]string{
		`SELECT count(*) FROM warehouse WHERE w_ytd <> (SELECT sum(d_ytd) FROM district WHERE d_w_id = w_id)`,

		`SELECT count(*) FROM district LEFT JOIN
			(SELECT no_w_id, no_d_id, max(no_o_id) AS newest FROM new_order GROUP BY 1, 2) n ON no_w_id = d_w_id AND no_d_id = d_id
		WHERE d_next_o_id - 1 <> (SELECT max(o_id) FROM orders WHERE o_w_id = d_w_id AND o_d_id = d_id)
			OR newest <> d_next_o_id - 1`,

		`SELECT count(*) FROM (SELECT 1 FROM new_order GROUP BY no_w_id, no_d_id
		HAVING max(no_o_id) - min(no_o_id) + 1 <> count(*)) AS broken`,

		`SELECT count(*) FROM district
		WHERE (SELECT sum(o_ol_cnt) FROM orders WHERE o_w_id = d_w_id AND o_d_id = d_id)
			<> (SELECT count(*) FROM order_line WHERE ol_w_id = d_w_id AND ol_d_id = d_id)`,
	}
	for i, sql := range conditions {
		var broken int
		if err := conn.QueryRow(ctx, sql).Scan(&broken); err != nil {
			return fmt.Errorf("check consistency condition %d: %w", i+1, err)
		}
		if broken > 0 {
			return fmt.Errorf("check consistency condition %d: it does not hold in %d places", i+1, broken)
		}
	}
	return nil
}
