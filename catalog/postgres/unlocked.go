package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Unlocked names a part of a table that the session has no lock of: the table
// itself, or one of its partitions as they are in the session's snapshot. It is
// empty if the session has all.
//
// No snapshot outlives what rewrites a table (ALTER TABLE, TRUNCATE): an older one
// finds no rows, and the log does not have them either. So whoever reads a table in
// a snapshot locks it (LOCK TABLE ... IN ACCESS SHARE MODE) before the snapshot is
// taken. That does not keep anyone from attaching a partition in between.
func Unlocked(ctx context.Context, conn *pgx.Conn, table uint32) (string, error) {
	var name string
	err := conn.QueryRow(ctx, `WITH RECURSIVE tree (oid) AS (SELECT $1::oid
		UNION ALL SELECT i.inhrelid FROM pg_inherits i JOIN tree ON i.inhparent = tree.oid JOIN pg_class p ON p.oid = tree.oid AND p.relkind = 'p')
		SELECT n.nspname || '.' || c.relname FROM tree JOIN pg_class c ON c.oid = tree.oid JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE NOT EXISTS (SELECT FROM pg_locks l WHERE l.pid = pg_backend_pid() AND l.locktype = 'relation' AND l.relation = c.oid AND l.granted)
		LIMIT 1`, table).Scan(&name)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return "", fmt.Errorf("look for locks: %w", err)
	}
	return name, nil
}
