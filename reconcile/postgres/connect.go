package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Connect opens one connection that is no Reader's, and sets its session up by
// the statements. Its errors quote nothing of the connection string but the
// names of the server, the database and the account.
func Connect(ctx context.Context, dsn string, statements ...string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, errDSN
	}
	conn, err := connect(ctx, config, strings.Join(statements, "; "))
	if err != nil {
		return nil, fmt.Errorf("open source: %w", err)
	}
	return conn, nil
}

// Clean takes values out of an error of the server, and all but one line out of
// one of the network.
func Clean(err error) error { return clean(err) }

// connect opens a connection whose session is set up.
func connect(ctx context.Context, config *pgx.ConnConfig, session string) (*pgx.Conn, error) {
	conn, err := pgx.ConnectConfig(ctx, config.Copy())
	if err != nil {
		return nil, fmt.Errorf("connect to database %s: %w", config.Database, clean(err))
	}
	if _, err := conn.Exec(ctx, session); err != nil {
		Disconnect(ctx, conn) // the first error tells more
		return nil, fmt.Errorf("set up session: %w", clean(err))
	}
	return conn, nil
}

// Disconnect ends a connection that has nothing left to lose, and waits a second
// at most for the server to hear of it.
func Disconnect(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}
