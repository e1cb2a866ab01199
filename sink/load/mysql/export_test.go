package mysql

import (
	"context"
	"database/sql"
)

var (
	Walk         = walk
	ErrNoLiteral = errNoLiteral
)

const MostBounds = mostBounds

// CheckBounds is checkBounds of a column of a table.
func CheckBounds(ctx context.Context, conn *sql.Conn, table, column string, bounds []string) error {
	r := &reader{name: table, key: &keyColumn{name: column}, conns: []*sql.Conn{conn}}
	return r.checkBounds(ctx, bounds)
}

// Literal returns what is read of a column of a type, and the literal of a text
// of it; ok is false where the table is one part, or has no literals.
func Literal(dataType, text string) (read, literal string, ok bool) {
	k := newKeyColumn("c", dataType)
	if k == nil || k.literal == nil {
		return "", "", false
	}
	literal, err := k.literal([]byte(text))
	return k.read, literal, err == nil
}
