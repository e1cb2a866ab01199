package iceberg

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// lock takes the lake's lock, shared or not, and returns what gives it back.
// The lock is that of an empty SQLite database: it works alike on every system,
// between processes and within one, and ends with the process.
func lock(ctx context.Context, path string, shared bool) (release func() error, err error) {
	mode, begin := "rwc", "BEGIN EXCLUSIVE"
	if shared {
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			return func() error { return nil }, nil // copied without it: nobody writes
		}
		mode, begin = "ro", "BEGIN; SELECT count(*) FROM sqlite_schema"
	}
	db, err := sql.Open("sqlite", dataSource(path, mode))
	if err != nil {
		return nil, fmt.Errorf("lock lake: %w", err)
	}
	db.SetMaxOpenConns(1)
	conn, err := db.Conn(ctx)
	if err == nil {
		_, err = conn.ExecContext(ctx, begin)
	}
	if err != nil {
		if code := (*sqlite.Error)(nil); errors.As(err, &code) && code.Code()&0xff == sqlite3.SQLITE_BUSY {
			err = ErrLocked
		}
		if conn != nil {
			err = errors.Join(err, conn.Close())
		}
		return nil, errors.Join(fmt.Errorf("lock lake: %w", err), db.Close())
	}
	return func() error { return errors.Join(conn.Close(), db.Close()) }, nil
}
