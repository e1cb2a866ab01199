package postgres

import (
	"context"
	"fmt"
	"iter"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"icehose/catalog"
	"icehose/internal/canon"
	"icehose/internal/canon/canonsql"
	"icehose/reconcile"
)

// A view is one table in one transaction.
type view struct {
	reader *Reader
	table  *catalog.Table
	pinned reconcile.Pinned
	oid    uint32

	assumed bool // Through is Options.ReplicaLag ago
	description

	mu   sync.Mutex // the connection is for one statement at a time
	conn *pgx.Conn
}

// Pinned implements reconcile.View.
func (v *view) Pinned() reconcile.Pinned { return v.pinned }

// Close implements reconcile.View.
func (v *view) Close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.conn != nil {
		v.reader.close(context.Background(), v.conn)
		v.conn = nil
	}
	return nil
}

// Digests implements reconcile.View.
func (v *view) Digests(ctx context.Context, part reconcile.Part) ([]canon.Digest, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	conns, err := v.connections(ctx)
	defer func() {
		for _, conn := range conns[1:] {
			v.reader.close(ctx, conn)
		}
	}()
	var digests []canon.Digest
	if err == nil {
		digests, err = reconcile.DigestPieces(ctx, part, len(conns), func(ctx context.Context, i int) ([]canon.Digest, error) {
			return v.digest(ctx, conns[i], part, blockRange(v.blocks, i, len(conns)))
		})
	}
	if err != nil {
		return nil, fmt.Errorf("digest %s: %w", v.table.Source, clean(err))
	}
	return digests, nil
}

// digest digests the rows that meet a condition, in the server if it can.
func (v *view) digest(ctx context.Context, conn *pgx.Conn, part reconcile.Part, where string) ([]canon.Digest, error) {
	first, last, ok := part.Span()
	if !ok || part.Keys != nil || part.Since != nil || v.reader.options.Stream || v.reader.options.RowsPerSecond > 0 || !v.rows.Exact(nil) {
		return reconcile.DigestRows(v.table, v.scan(ctx, conn, part, where), part)
	}
	d := canonsql.Digest{From: v.from, Where: where, Key: v.key, Buckets: part.Buckets, First: first, Last: last}
	return digest(ctx, conn, v.rows.PostgresDigest(d), part.Buckets)
}

func (v *view) failed(err error) error { return fmt.Errorf("read %s: %w", v.table.Source, clean(err)) }

// Rows implements reconcile.View.
func (v *view) Rows(ctx context.Context, part reconcile.Part) iter.Seq2[reconcile.Row, error] {
	return reconcile.Exclusive(&v.mu, v.failed, func() iter.Seq2[reconcile.Row, error] {
		return reconcile.SelectRows(v.table, v.scan(ctx, v.conn, part, ""), part)
	})
}

// blocksPerWorker is below what another connection is not worth its while.
const blocksPerWorker = 1024

// connections returns the view's connection and as many more as are free and
// worth their while, all at its snapshot; also with an error.
func (v *view) connections(ctx context.Context) ([]*pgx.Conn, error) {
	conns := []*pgx.Conn{v.conn}
	for len(conns) < v.reader.options.MaxConnections && int64(len(conns)) < v.blocks/blocksPerWorker {
		conn, err := v.join(ctx)
		if conn == nil || err != nil {
			return conns, err
		}
		conns = append(conns, conn)
	}
	return conns, nil
}

// blockRange is a condition for the i-th of n parts of a table's blocks. The
// last has no end: the table may have grown.
func blockRange(blocks int64, i, n int) string {
	if n == 1 {
		return ""
	}
	var conditions []string
	if i > 0 {
		conditions = append(conditions, fmt.Sprintf("t.ctid >= '(%d,0)'::tid", blocks*int64(i)/int64(n)))
	}
	if i < n-1 {
		conditions = append(conditions, fmt.Sprintf("t.ctid < '(%d,0)'::tid", blocks*int64(i+1)/int64(n)))
	}
	return strings.Join(conditions, " AND ")
}

// join opens one more connection at the view's snapshot; nil when none is free,
// or the server gives no other.
func (v *view) join(ctx context.Context) (*pgx.Conn, error) {
	conn, err := v.reader.connectMore(ctx)
	if conn == nil || err != nil {
		return nil, ctx.Err()
	}
	var snapshot string
	if err := v.conn.QueryRow(ctx, "SELECT pg_export_snapshot()").Scan(&snapshot); err != nil {
		v.reader.close(ctx, conn)
		return nil, fmt.Errorf("share snapshot: %w", clean(err))
	}
	begin := beginReading + "; " + setSnapshot(snapshot)
	if lock := v.lock(); lock != "" {
		// Who waits to alter the table waits for the view, and must not be waited for.
		begin += lock + " NOWAIT"
	}
	if _, err := conn.Exec(ctx, begin); err != nil {
		v.reader.close(ctx, conn)
		return nil, ctx.Err()
	}
	return conn, nil
}

// digest runs a statement of canonsql.
func digest(ctx context.Context, conn *pgx.Conn, sql string, buckets int) ([]canon.Digest, error) {
	digests := make([]canon.Digest, buckets)
	half := new(big.Int).Lsh(big.NewInt(1), 63)
	for values, err := range query(ctx, conn, sql) {
		if err != nil {
			return nil, err
		}
		b, err := strconv.Atoi(string(values[0]))
		if err != nil || b < 0 || b >= buckets {
			return nil, fmt.Errorf("the server digests bucket %q", values[0])
		}
		count, err := strconv.ParseUint(string(values[1]), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("the server counts %q rows", values[1])
		}
		var sums [2]*big.Int
		for i := range sums {
			n, ok := new(big.Int).SetString(string(values[2+i]), 10)
			if !ok {
				return nil, fmt.Errorf("the server sums %q", values[2+i])
			}
			sums[i] = n.Add(n, new(big.Int).Mul(half, new(big.Int).SetUint64(count)))
		}
		if digests[b], err = canonsql.Result(count, sums[0], sums[1]); err != nil {
			return nil, err
		}
	}
	return digests, nil
}

// query yields the rows of a statement as the server writes them: nil for
// NULL, good until the next row.
func query(ctx context.Context, conn *pgx.Conn, sql string, args ...[]byte) iter.Seq2[[][]byte, error] {
	return func(yield func([][]byte, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		result := conn.PgConn().ExecParams(ctx, sql, args, nil, nil, nil)
		for result.NextRow() {
			if !yield(result.Values(), nil) {
				cancel() // and with it the connection: else the rest would be read
				_, _ = result.Close()
				return
			}
		}
		if _, err := result.Close(); err != nil {
			yield(nil, err)
		}
	}
}

// keysPerStatement bounds the arrays of one statement.
const keysPerStatement = 2000

// scan yields rows among which are those of the part, encoded.
func (v *view) scan(ctx context.Context, conn *pgx.Conn, part reconcile.Part, where string) iter.Seq2[*reconcile.Encoder, error] {
	return func(yield func(*reconcile.Encoder, error) bool) {
		encoder, err := reconcile.NewEncoder(v.table)
		if err != nil {
			yield(nil, err)
			return
		}
		conditions, err := v.conditions(part, where)
		if err != nil {
			yield(nil, err)
			return
		}
		lookups := v.keyLookups()
		if part.Keys == nil || lookups == nil || !part.Keys.Askable() {
			v.read(ctx, conn, encoder, v.extra(part), conditions, nil, yield)
			return
		}
		for keys := range part.Keys.Chunks(keysPerStatement) {
			condition, args := v.keyCondition(lookups, keys.Texts())
			own := func(e *reconcile.Encoder, err error) bool { return err == nil && !e.HasKeyOf(keys) || yield(e, err) }
			if !v.read(ctx, conn, encoder, nil, append(slices.Clip(conditions), condition), args, own) {
				return
			}
		}
	}
}

// conditions are those that the server can judge.
func (v *view) conditions(part reconcile.Part, where string) ([]string, error) {
	var conditions []string
	if where != "" {
		conditions = append(conditions, where)
	}
	if part.Only != nil && part.Keys == nil && v.places() {
		conditions = append(conditions, v.rows.PostgresInBuckets(v.key, part.Buckets, part.Only))
	}
	if part.Since == nil {
		return conditions, nil
	}
	i := slices.IndexFunc(v.columns, func(c canonsql.Column) bool { return c.Name == part.Since.Column })
	if i < 0 {
		return nil, fmt.Errorf("no column %s", part.Since.Column)
	}
	if c := &v.columns[i]; !c.Domain && (c.Type.Name == "date" || strings.HasPrefix(c.Type.Name, "timestamp")) {
		from := part.Since.For(c.Column).UTC().Format("2006-01-02 15:04:05.000000")
		if c.Type.Name == "date" {
			from = from[:len("2006-01-02")]
		}
		conditions = append(conditions, fmt.Sprintf("t.%s >= '%s'", canonsql.QuotePostgres(c.Spelled), from))
	}
	return conditions, nil
}

// keyCondition selects rows by key: one array per key column.
func (v *view) keyCondition(lookups []keyLookup, keys [][]string) (condition string, args [][]byte) {
	columns := make([]string, len(v.key))
	casts := make([]string, len(v.key))
	arrays := make([]string, len(v.key))
	names := make([]string, len(v.key))
	args = make([][]byte, len(v.key))
	for n := range v.key {
		columns[n] = lookups[n].expression
		casts[n] = fmt.Sprintf(lookups[n].cast, fmt.Sprintf("k.k%d", n))
		arrays[n] = fmt.Sprintf("$%d::text[]", n+1)
		names[n] = fmt.Sprintf("k%d", n)
		args[n] = []byte{'{'}
	}
	for _, key := range keys {
		if !v.mayHave(key) {
			continue
		}
		for n := range v.key {
			if len(args[n]) > 1 {
				args[n] = append(args[n], ',')
			}
			args[n] = appendElement(args[n], key[n])
		}
	}
	for n := range args {
		args[n] = append(args[n], '}')
	}
	return fmt.Sprintf("(%s) IN (SELECT %s FROM unnest(%s) AS k (%s))",
		strings.Join(columns, ", "), strings.Join(casts, ", "), strings.Join(arrays, ", "), strings.Join(names, ", ")), args
}

// appendElement appends an element of the text of an array.
func appendElement(dst []byte, text string) []byte {
	dst = append(dst, '"')
	for i := range len(text) {
		if text[i] == '"' || text[i] == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, text[i])
	}
	return append(dst, '"')
}

// places reports whether the server can put rows in buckets.
func (v *view) places() bool {
	if len(v.key) == 0 {
		return v.rows.Exact(nil)
	}
	return v.rows.Exact(v.key)
}

// extra is what is read of a row beside its values and its stamp: its bucket, if
// the server may put it in one that is not known otherwise (Encoder.Placed).
func (v *view) extra(part reconcile.Part) []string {
	if part.Keys != nil || !v.places() || len(v.key) > 0 && !reconcile.KeyCanBeUnfit(v.table) {
		return nil
	}
	return []string{v.rows.PostgresBucket(v.key, part.Buckets)}
}

// read yields the rows of one statement, encoded. It returns false when no
// more are wanted.
func (v *view) read(ctx context.Context, conn *pgx.Conn, encoder *reconcile.Encoder, extra, conditions []string, args [][]byte, yield func(*reconcile.Encoder, error) bool) bool {
	texts := v.rows.Texts
	if v.stamped {
		texts = append(slices.Clip(texts), "t.xmin")
	}
	sql := "SELECT " + strings.Join(append(slices.Clip(texts), extra...), ", ") + " FROM " + v.from + " t"
	if len(conditions) > 0 {
		sql += " WHERE " + strings.Join(conditions, " AND ")
	}
	for values, err := range query(ctx, conn, sql, args...) {
		if err == nil {
			err = v.reader.throttle.Wait(ctx, 1)
		}
		if err != nil {
			yield(nil, err)
			return false
		}
		encoder.Reset()
		for _, text := range values[:len(v.columns)] {
			if text == nil {
				encoder.Null()
			} else {
				encoder.Value(canon.Postgres, text)
			}
		}
		if v.stamped {
			encoder.Stamp(values[len(v.columns)])
		}
		if extra != nil {
			encoder.Placed(values[len(values)-1])
		}
		if !yield(encoder, nil) {
			return false
		}
	}
	return true
}
