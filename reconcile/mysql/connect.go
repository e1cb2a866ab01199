package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"icehose/catalog/mysql"
)

// A Session is one connection that is no Reader's.
type Session struct {
	*sql.Conn
	db *sql.DB
}

// Connect opens one connection that is no Reader's, and sets its session up by
// the statements for the kind of the server. Its errors quote nothing of the
// connection string but the names of the server, the database and the account.
func Connect(ctx context.Context, dsn string, statements func(mariadb bool) []string) (_ *Session, err error) {
	db, err := open(dsn)
	if err != nil {
		return nil, err
	}
	s := &Session{db: db}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.Conn, err = db.Conn(ctx); err != nil {
		return nil, fmt.Errorf("open source: connect: %w", clean(err))
	}
	mariadb, err := isMariaDB(ctx, s.Conn)
	if err != nil {
		return nil, err
	}
	if err := setUp(ctx, s.Conn, statements(mariadb)); err != nil {
		return nil, fmt.Errorf("open source: %w", err)
	}
	return s, nil
}

// Close ends the connection.
func (s *Session) Close() error {
	if s.Conn != nil {
		_ = s.Conn.Close() // one that is lost cannot be given back
	}
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close source: %w", err)
	}
	return nil
}

// Clean takes values out of an error of the server.
func Clean(err error) error { return clean(err) }

// open opens a pool that keeps no connection for later.
func open(dsn string) (*sql.DB, error) {
	db, err := mysql.Open(dsn)
	if err != nil {
		return nil, fmt.Errorf("open source: %w", err)
	}
	db.SetMaxIdleConns(0)
	return db, nil
}

func isMariaDB(ctx context.Context, db interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
},
) (bool, error) {
	var version string
	if err := db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version); err != nil {
		return false, fmt.Errorf("open source: %w", clean(err))
	}
	return strings.Contains(version, "MariaDB"), nil
}

func setUp(ctx context.Context, conn *sql.Conn, statements []string) error {
	for _, statement := range statements {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("set up session: %w", clean(err))
		}
	}
	return nil
}

// Transactional reports whether a storage engine has snapshots.
func Transactional(engine string) bool {
	return slices.ContainsFunc([]string{"InnoDB", "RocksDB", "TokuDB"}, func(known string) bool { return strings.EqualFold(known, engine) })
}
