package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"math/big"
	"strings"

	source "icehose/catalog/mysql"
	"icehose/sink/load"
)

const (
	// partsPerReader is how many parts there are for each connection, so that
	// none has much to do when the others have ended.
	partsPerReader = 8
	leastRows      = 10_000 // in a part that another is cut off from
	// mostBounds ends the walk whatever the server's estimate says.
	mostBounds = 1000
	// pairsPerStatement bounds the length of one statement.
	pairsPerStatement = 100
)

// split cuts the table into ranges of its key's first column; without one whose
// ranges are known to be the server's own, or with a single reader, into one part.
func (r *reader) split(ctx context.Context, s *load.Snapshot) error {
	parts := r.options.Parallel * partsPerReader
	if s.Estimate >= 0 {
		parts = min(parts, int(s.Estimate/leastRows)+1)
	}
	var bounds []string // SQL literals, rising
	if r.key != nil && r.options.Parallel > 1 && parts > 1 {
		find := r.boundsByRank
		if r.key.even {
			find = r.boundsByValue
		}
		var err error
		if bounds, err = find(ctx, s, parts); err == nil {
			err = r.checkBounds(ctx, bounds)
		}
		if err != nil {
			return fmt.Errorf("split table: %w", source.WithoutValues(err))
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

// checkBounds has the server prove, on the rows of the snapshot, that each of
// them is in exactly one part. A row that is not below a bound is not below any
// earlier one, if none is at or above a bound and below the one before it; so
// the bounds that a row is not below are the first few, and the part after the
// last of those is the one that the row is in. Where bounds rise, the server
// sees without reading a row that these ranges are empty.
func (r *reader) checkBounds(ctx context.Context, bounds []string) error {
	for from := 1; from < len(bounds); from += pairsPerStatement {
		var ranges []string
		for i := from; i < min(from+pairsPerStatement, len(bounds)); i++ {
			ranges = append(ranges, fmt.Sprintf("(%[1]s >= %[2]s AND %[1]s < %[3]s)", r.key.name, bounds[i], bounds[i-1]))
		}
		var found bool
		statement := "SELECT EXISTS (SELECT 1 FROM " + r.name + " WHERE " + strings.Join(ranges, " OR ") + ")"
		if err := r.conns[0].QueryRowContext(ctx, statement).Scan(&found); err != nil {
			return err
		}
		if found {
			return fmt.Errorf("the server does not compare key column %s as it orders it, so parts would lack rows or share them: load with --parallel 1", r.key.name)
		}
	}
	return nil
}

// boundsByValue cuts the range of an integer into equal pieces.
func (r *reader) boundsByValue(ctx context.Context, _ *load.Snapshot, parts int) ([]string, error) {
	var low, high sql.NullString
	// The sum is a number also where the value is bits.
	statement := fmt.Sprintf("SELECT MIN(%[1]s) + 0, MAX(%[1]s) + 0 FROM %[2]s", r.key.name, r.name)
	if err := r.conns[0].QueryRowContext(ctx, statement).Scan(&low, &high); err != nil {
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
	return walk(func(after string) (string, error) {
		where := ""
		if after != "" {
			where = " WHERE " + r.key.name + " > " + after
		}
		var text []byte
		query := fmt.Sprintf("SELECT %s FROM %s%s ORDER BY %s LIMIT 1 OFFSET %d", r.key.read, r.name, where, r.key.name, step)
		if err := r.conns[0].QueryRowContext(ctx, query).Scan(&text); err != nil {
			return "", err
		}
		return r.key.literal(text)
	})
}

// walk collects bounds, each found from the one before it, which is empty for
// the first, until there are no more rows. None come back where a bound has no
// literal, or is the one before it: then the server does not take the literal
// for the value, and a walk would never end.
func walk(next func(after string) (string, error)) ([]string, error) {
	var bounds []string
	after := ""
	for len(bounds) < mostBounds {
		bound, err := next(after)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return bounds, nil
		case errors.Is(err, errNoLiteral) || err == nil && bound == after:
			return nil, nil
		case err != nil:
			return nil, err
		}
		bounds, after = append(bounds, bound), bound
	}
	return bounds, nil
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
