package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"math/big"
	"strings"

	"icehose/sink/load"
)

// A keyColumn is the first column of the primary key.
type keyColumn struct {
	name    string // quoted
	integer bool
}

const (
	// partsPerReader is how many parts there are for each connection, so that
	// none has much to do when the others have ended.
	partsPerReader = 8
	leastRows      = 10_000 // in a part that another is cut off from
)

// split cuts the table into ranges of its key's first column; without a key,
// or with a single reader, into one part.
func (r *reader) split(ctx context.Context, s *load.Snapshot) error {
	parts := r.options.Parallel * partsPerReader
	if s.Estimate >= 0 {
		parts = min(parts, int(s.Estimate/leastRows)+1)
	}
	var bounds []string // SQL literals, rising
	if r.key != nil && r.options.Parallel > 1 && parts > 1 {
		find := r.boundsByRank
		if r.key.integer {
			find = r.boundsByValue
		}
		var err error
		if bounds, err = find(ctx, s, parts); err != nil {
			return fmt.Errorf("split table: %w", err)
		}
	}
	for i := range len(bounds) + 1 {
		var where []string
		if i > 0 {
			where = append(where, r.key.name+" >= "+bounds[i-1])
		}
		if i < len(bounds) {
			where = append(where, r.key.name+" < "+bounds[i])
		}
		statement := "SELECT " + r.columns + " FROM " + r.name
		if len(where) > 0 {
			statement += " WHERE " + strings.Join(where, " AND ")
		}
		s.Parts = append(s.Parts, r.part(statement))
	}
	return nil
}

// boundsByValue cuts the range of an integer into equal pieces.
func (r *reader) boundsByValue(ctx context.Context, _ *load.Snapshot, parts int) ([]string, error) {
	var low, high sql.NullString
	if err := r.conns[0].QueryRowContext(ctx, "SELECT MIN("+r.key.name+"), MAX("+r.key.name+") FROM "+r.name).Scan(&low, &high); err != nil {
		return nil, err
	}
	from, ok1 := new(big.Int).SetString(low.String, 10)
	to, ok2 := new(big.Int).SetString(high.String, 10)
	if !low.Valid || !ok1 || !ok2 { // empty
		return nil, nil
	}
	width := to.Sub(to, from)
	var bounds []string
	for i := 1; i < parts; i++ {
		at := new(big.Int).Mul(width, big.NewInt(int64(i)))
		at.Div(at, big.NewInt(int64(parts))).Add(at, from)
		if text := at.String(); len(bounds) == 0 || bounds[len(bounds)-1] != text {
			bounds = append(bounds, text)
		}
	}
	return bounds, nil
}

// boundsByRank walks the key in steps. The bounds are compared by the server
// alone, so that its collation decides, whatever it is.
func (r *reader) boundsByRank(ctx context.Context, s *load.Snapshot, parts int) ([]string, error) {
	step := max(s.Estimate/int64(parts), leastRows)
	var bounds []string
	for {
		where := ""
		if n := len(bounds); n > 0 {
			where = " WHERE " + r.key.name + " > " + bounds[n-1]
		}
		var bound []byte
		query := fmt.Sprintf("SELECT %s FROM %s%s ORDER BY %s LIMIT 1 OFFSET %d", r.key.name, r.name, where, r.key.name, step)
		err := r.conns[0].QueryRowContext(ctx, query).Scan(&bound)
		if errors.Is(err, sql.ErrNoRows) {
			return bounds, nil
		}
		if err != nil {
			return nil, err
		}
		bounds = append(bounds, literal(bound))
	}
}

// literal quotes a text. Sessions have an empty sql_mode, so a backslash escapes.
func literal(text []byte) string {
	var b strings.Builder
	b.WriteByte('\'')
	for _, c := range text {
		if c == 0 {
			b.WriteString(`\0`)
			continue
		}
		if c == '\'' || c == '\\' {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	b.WriteByte('\'')
	return b.String()
}

// part yields the rows of a query. It has no arguments, so that the server
// sends texts.
func (r *reader) part(statement string) load.Part {
	return func(ctx context.Context) iter.Seq2[[][]byte, error] {
		return func(yield func([][]byte, error) bool) {
			var conn *sql.Conn
			select {
			case conn = <-r.free:
			case <-ctx.Done():
				yield(nil, ctx.Err())
				return
			}
			defer func() { r.free <- conn }()
			if err := readRows(ctx, conn, statement, yield); err != nil {
				yield(nil, fmt.Errorf("read rows: %w", err))
			}
		}
	}
}

func readRows(ctx context.Context, conn *sql.Conn, statement string, yield func([][]byte, error) bool) (err error) {
	rows, err := conn.QueryContext(ctx, statement)
	if err != nil {
		return err
	}
	stopped := false
	defer func() {
		if closed := rows.Close(); !stopped {
			err = errors.Join(err, closed)
		}
	}()
	names, err := rows.Columns()
	if err != nil {
		return err
	}
	raw, row, into := make([]sql.RawBytes, len(names)), make([][]byte, len(names)), make([]any, len(names))
	for i := range raw {
		into[i] = &raw[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		for i := range raw {
			row[i] = raw[i] // nil for NULL
		}
		if !yield(row, nil) {
			stopped = true
			return nil
		}
	}
	return rows.Err()
}
