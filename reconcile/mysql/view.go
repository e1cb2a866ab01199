package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"math/big"
	"slices"
	"strings"
	"sync"

	"icehose/catalog"
	source "icehose/catalog/mysql"
	"icehose/internal/canon"
	"icehose/internal/canon/canonsql"
	"icehose/reconcile"
)

// A view is one table in one transaction.
type view struct {
	reader  *Reader
	table   *catalog.Table
	pinned  reconcile.Pinned
	log     *reconcile.LogRange // of this server
	name    string              // quoted
	columns []canonsql.Column
	rows    canonsql.Rows
	key     []int

	mu   sync.Mutex // the connection is for one statement at a time
	conn *sql.Conn
}

// Pinned implements reconcile.View.
func (v *view) Pinned() reconcile.Pinned { return v.pinned }

// Close implements reconcile.View.
func (v *view) Close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.conn != nil {
		v.reader.close(v.conn)
		v.conn = nil
	}
	return nil
}

// describe finds the table and its columns. MySQL's information schema has no
// snapshot: a table that is altered meanwhile makes its statements fail.
func (v *view) describe(ctx context.Context) error {
	schema, name, ok := strings.Cut(v.table.Source, ".")
	if !ok {
		return errors.New("find table: its name has no schema")
	}
	t, err := source.FindTable(ctx, v.conn, schema, name)
	if err != nil {
		return clean(err)
	}
	if !Transactional(t.Engine) {
		return fmt.Errorf("find table: its storage engine %s has no snapshots", t.Engine)
	}
	v.name = canonsql.QuoteMySQL(t.Schema) + "." + canonsql.QuoteMySQL(t.Name)
	v.pinned.Rows = t.Rows.Int64
	var names, types []string
	for _, c := range t.Columns {
		names, types = append(names, c.Name), append(types, c.Declared)
	}
	return v.match(names, types)
}

// match pairs the columns of the pipeline file with those of the server.
func (v *view) match(names, types []string) error {
	encoder, err := reconcile.NewEncoder(v.table)
	if err != nil {
		return err
	}
	places, err := v.table.PlaceColumns(names)
	if err != nil {
		return fmt.Errorf("find columns: %w", err)
	}
	v.pinned.Unknown = reconcile.UnknownColumns(v.table, names)
	for i, c := range encoder.Columns() {
		at := places[i]
		typ, err := catalog.ParseSourceType(types[at])
		if err != nil {
			return fmt.Errorf("find column %s: %w", c.Name, err)
		}
		v.columns = append(v.columns, canonsql.Column{Column: c, Spelled: names[at], Type: typ})
	}
	for _, name := range v.table.Key {
		v.key = append(v.key, slices.IndexFunc(v.columns, func(c canonsql.Column) bool { return c.Name == name }))
	}
	v.rows = canonsql.MySQL(v.columns)
	return nil
}

// Digests implements reconcile.View.
func (v *view) Digests(ctx context.Context, part reconcile.Part) ([]canon.Digest, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	keys, err := v.keyRange(ctx)
	conns := []*sql.Conn{v.conn}
	if err == nil && keys != nil {
		conns, err = v.connections(ctx)
	}
	defer func() {
		for _, conn := range conns[1:] {
			v.reader.close(conn)
		}
	}()
	var digests []canon.Digest
	if err == nil {
		digests, err = reconcile.DigestPieces(ctx, part, len(conns), func(ctx context.Context, i int) ([]canon.Digest, error) {
			return v.digest(ctx, conns[i], part, keys.part(i, len(conns)))
		})
	}
	if err != nil {
		return nil, fmt.Errorf("digest %s: %w", v.table.Source, clean(err))
	}
	return digests, nil
}

// digest digests the rows that meet a condition, in the server if it can.
func (v *view) digest(ctx context.Context, conn *sql.Conn, part reconcile.Part, where string) ([]canon.Digest, error) {
	first, last, ok := part.Span()
	if !ok || part.Keys != nil || part.Since != nil || v.reader.options.Stream || v.reader.options.RowsPerSecond > 0 || !v.rows.Exact(nil) {
		return reconcile.DigestRows(v.table, v.scan(ctx, conn, part, where), part)
	}
	d := canonsql.Digest{From: v.name, Where: where, Key: v.key, Buckets: part.Buckets, First: first, Last: last}
	return digest(ctx, conn, v.rows.MySQLDigest(d), part.Buckets)
}

func (v *view) failed(err error) error { return fmt.Errorf("read %s: %w", v.table.Source, clean(err)) }

// Rows implements reconcile.View.
func (v *view) Rows(ctx context.Context, part reconcile.Part) iter.Seq2[reconcile.Row, error] {
	return reconcile.Exclusive(&v.mu, v.failed, func() iter.Seq2[reconcile.Row, error] {
		return reconcile.SelectRows(v.table, v.scan(ctx, v.conn, part, ""), part)
	})
}

// rowsPerWorker is below what another connection is not worth its while.
const rowsPerWorker = 50_000

// connections returns the view's connection and as many more as are free,
// worth their while and reach its snapshot; also with an error.
func (v *view) connections(ctx context.Context) ([]*sql.Conn, error) {
	conns := []*sql.Conn{v.conn}
	for len(conns) < v.reader.options.MaxConnections && int64(len(conns)) < v.pinned.Rows/rowsPerWorker {
		conn, err := v.join(ctx)
		if conn == nil || err != nil {
			return conns, err
		}
		conns = append(conns, conn)
	}
	return conns, nil
}

// A keyRange is the least and the greatest value of an integer column.
type keyRange struct {
	column    string // quoted
	low, high *big.Int
}

// keyRange returns the range of the first key column; nil when it is no
// integer, or one connection is enough.
func (v *view) keyRange(ctx context.Context) (*keyRange, error) {
	if !v.reader.mariadb || len(v.key) == 0 || v.pinned.Rows/rowsPerWorker < 2 {
		return nil, nil //nolint:nilnil // there is none
	}
	c := &v.columns[v.key[0]]
	if !slices.Contains([]string{"tinyint", "smallint", "mediumint", "int", "integer", "bigint"}, c.Type.Name) {
		return nil, nil //nolint:nilnil // there is none
	}
	column := "t." + canonsql.QuoteMySQL(c.Spelled)
	var ends [2]sql.NullString
	if err := v.conn.QueryRowContext(ctx, fmt.Sprintf("SELECT MIN(%[1]s), MAX(%[1]s) FROM %[2]s t", column, v.name)).Scan(&ends[0], &ends[1]); err != nil {
		return nil, err
	}
	low, okLow := new(big.Int).SetString(ends[0].String, 10)
	high, okHigh := new(big.Int).SetString(ends[1].String, 10)
	if !okLow || !okHigh {
		return nil, nil //nolint:nilnil // the table is empty
	}
	return &keyRange{column: column, low: low, high: high}, nil
}

// part is a condition for the i-th of n parts of the range. The first has no
// beginning and the last no end.
func (r *keyRange) part(i, n int) string {
	if n == 1 {
		return ""
	}
	at := func(i int) string {
		width := new(big.Int).Sub(r.high, r.low)
		width.Mul(width, big.NewInt(int64(i))).Div(width, big.NewInt(int64(n)))
		return width.Add(width, r.low).String()
	}
	switch from, to := r.column+" >= "+at(i), r.column+" < "+at(i+1); i {
	case 0:
		return "(" + to + " OR " + r.column + " IS NULL)"
	case n - 1:
		return from
	default:
		return from + " AND " + to
	}
}

// join opens one more connection and brings it to the view's snapshot: MariaDB
// says where a snapshot stands. nil when none is free, the server gives no
// other, or none gets there, because changes were committed meanwhile, or the
// log does not tell.
func (v *view) join(ctx context.Context) (*sql.Conn, error) {
	if v.log == nil || v.log.Low == nil || *v.log.Low != v.log.High || !logs(ctx, v.conn, v.pinned.Through) {
		return nil, nil
	}
	conn, err := v.reader.connectMore(ctx)
	if conn == nil || err != nil {
		return nil, ctx.Err()
	}
	log, err := v.reader.begin(ctx, conn, false)
	if err != nil || log == nil || log.Low == nil || *log.Low != log.High || log.High != v.log.High {
		v.reader.close(conn)
		return nil, ctx.Err()
	}
	return conn, nil
}

// digest runs a statement of canonsql.
func digest(ctx context.Context, conn *sql.Conn, statement string, buckets int) (_ []canon.Digest, err error) {
	rows, err := conn.QueryContext(ctx, statement)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	digests := make([]canon.Digest, buckets)
	for rows.Next() {
		var b int
		var count, hashed uint64
		var upper, lower string
		if err := rows.Scan(&b, &count, &hashed, &upper, &lower); err != nil {
			return nil, err
		}
		if b < 0 || b >= buckets {
			return nil, fmt.Errorf("the server digests bucket %d", b)
		}
		if hashed != count {
			return nil, errors.New("a row is longer than the server's max_allowed_packet")
		}
		x, okX := new(big.Int).SetString(upper, 10)
		y, okY := new(big.Int).SetString(lower, 10)
		if !okX || !okY {
			return nil, errors.New("the server's sums are no numbers")
		}
		if digests[b], err = canonsql.Result(count, x, y); err != nil {
			return nil, err
		}
	}
	return digests, rows.Err()
}
