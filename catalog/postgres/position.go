package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"icehose/cdc"
)

// Position returns where the server's log ends, as the body of a position, and
// the server's time. Whatever was committed before the call has a lower body;
// whatever commits after it a higher one.
func Position(ctx context.Context, conn *pgx.Conn) (cdc.Body, time.Time, error) {
	var standby bool
	if err := conn.QueryRow(ctx, "SELECT pg_is_in_recovery()").Scan(&standby); err != nil {
		return cdc.Body{}, time.Time{}, fmt.Errorf("read position of postgresql: %w", err)
	}
	if standby {
		return cdc.Body{}, time.Time{}, errors.New("read position of postgresql: this is a standby, whose log ends earlier than its primary's: connect to the primary")
	}
	var lsn string
	var now time.Time
	if err := conn.QueryRow(ctx, "SELECT pg_current_wal_insert_lsn()::text, clock_timestamp()").Scan(&lsn, &now); err != nil {
		return cdc.Body{}, time.Time{}, fmt.Errorf("read position of postgresql: %w", err)
	}
	n, ok := cdc.ParseLSN(lsn)
	if !ok {
		return cdc.Body{}, time.Time{}, fmt.Errorf("read position of postgresql: the server calls it %q", lsn)
	}
	return cdc.Body{Hi: n}, now.UTC(), nil
}
