package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"icehose/catalog"
	"icehose/internal/canon"
	"icehose/internal/canon/canonsql"
	"icehose/reconcile"
)

// keysPerStatement bounds the length of one statement.
const keysPerStatement = 1000

// scan yields rows among which are those of the part, encoded.
func (v *view) scan(ctx context.Context, conn *sql.Conn, part reconcile.Part, where string) iter.Seq2[*reconcile.Encoder, error] {
	return func(yield func(*reconcile.Encoder, error) bool) {
		encoder, err := reconcile.NewEncoder(v.table)
		if err != nil {
			yield(nil, err)
			return
		}
		if part.Only != nil && len(part.Only) == 0 {
			if err := ctx.Err(); err != nil {
				yield(nil, err)
			}
			return
		}
		conditions, err := v.conditions(part, where)
		if err != nil {
			yield(nil, err)
			return
		}
		if part.Keys == nil || !v.hasKeys() || !part.Keys.Askable() {
			v.read(ctx, conn, encoder, v.extra(part), conditions, nil, yield)
			return
		}
		for keys := range part.Keys.Chunks(keysPerStatement) {
			condition, args := v.keyCondition(keys.Texts())
			if condition == "" {
				continue
			}
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
		conditions = append(conditions, v.rows.MySQLInBuckets(v.key, part.Buckets, part.Only))
	}
	if part.Since == nil {
		return conditions, nil
	}
	i := slices.IndexFunc(v.columns, func(c canonsql.Column) bool { return c.Name == part.Since.Column })
	if i < 0 {
		return nil, fmt.Errorf("no column %s", part.Since.Column)
	}
	if c := &v.columns[i]; c.Type.Name == "date" || c.Type.Name == "datetime" || c.Type.Name == "timestamp" {
		from := part.Since.For(c.Column).UTC().Format("2006-01-02 15:04:05.000000")
		if c.Type.Name == "date" {
			from = from[:len("2006-01-02")]
		}
		conditions = append(conditions, fmt.Sprintf("t.%s >= '%s'", canonsql.QuoteMySQL(c.Spelled), from))
	}
	return conditions, nil
}

// hasKeys reports whether the source can be asked for rows by key.
func (v *view) hasKeys() bool {
	return len(v.key) > 0 && !slices.ContainsFunc(v.key, func(i int) bool { return keyForm(&v.columns[i]) == noForm && v.rows.Canonical[i] == "" })
}

// A form is how a key's canonical text stands in a statement.
type form uint8

const (
	noForm     form = iota // it is compared with the canonical text that the server computes
	digitsForm             // as a number
	bytesForm              // as hexadecimal digits
	textForm               // as a parameter
	timeForm               // between quotes
)

// keyForm depends on both types: what stands in a statement as it is must be
// the canonical text of a type that has no other texts, and what is compared
// with a column must be the text of its values.
func keyForm(c *canonsql.Column) form {
	if c.Mask != "" || len(c.AllowLossy) > 0 {
		return noForm
	}
	kind := c.Column.Type.Kind
	switch c.Type.Name {
	case "tinyint", "smallint", "mediumint", "int", "integer", "bigint", "decimal", "numeric", "year":
		if kind == catalog.Int || kind == catalog.Long || kind == catalog.Decimal {
			return digitsForm
		}
	case "binary", "varbinary":
		if kind == catalog.Binary || kind == catalog.Fixed {
			return bytesForm
		}
	case "char", "varchar":
		if kind == catalog.String {
			return textForm
		}
	case "uuid":
		if kind == catalog.UUID {
			return textForm
		}
	case "date", "datetime", "timestamp":
		if kind == catalog.Date || kind == catalog.Timestamp || kind == catalog.TimestampTZ {
			return timeForm
		}
	}
	return noForm
}

// keyCondition selects rows by key. More rows may meet it than have the key:
// those that the column's collation takes for equal.
func (v *view) keyCondition(keys [][]string) (condition string, args []any) {
	var tuples []string
	for _, key := range keys {
		parts := make([]string, len(key))
		for n, i := range v.key {
			switch keyForm(&v.columns[i]) {
			case digitsForm:
				parts[n] = key[n]
			case bytesForm:
				parts[n] = "X'" + key[n] + "'"
			case timeForm:
				parts[n] = "'" + strings.NewReplacer("T", " ", "Z", "").Replace(key[n]) + "'"
			case textForm, noForm:
				parts[n] = "?"
				args = append(args, key[n])
			}
		}
		tuples = append(tuples, "("+strings.Join(parts, ", ")+")")
	}
	columns := make([]string, len(v.key))
	for n, i := range v.key {
		if columns[n] = "t." + canonsql.QuoteMySQL(v.columns[i].Spelled); keyForm(&v.columns[i]) == noForm {
			columns[n] = v.rows.Canonical[i]
		}
	}
	return "(" + strings.Join(columns, ", ") + ") IN (" + strings.Join(tuples, ", ") + ")", args
}

// places reports whether the server can put rows in buckets.
func (v *view) places() bool {
	if len(v.key) == 0 {
		return v.rows.Exact(nil)
	}
	return v.rows.Exact(v.key)
}

// extra is what is read of a row beside its values: its bucket, if the server may
// put it in one that is not known otherwise (Encoder.Placed).
func (v *view) extra(part reconcile.Part) []string {
	if part.Keys != nil || !v.places() || len(v.key) > 0 && !reconcile.KeyCanBeUnfit(v.table) {
		return nil
	}
	return []string{v.rows.MySQLBucket(v.key, part.Buckets)}
}

// read yields the rows of one statement, encoded. It returns false when no
// more are wanted.
func (v *view) read(ctx context.Context, conn *sql.Conn, encoder *reconcile.Encoder, extra, conditions []string, args []any, yield func(*reconcile.Encoder, error) bool) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends a statement of which not all rows are wanted
	statement := "SELECT " + strings.Join(append(slices.Clip(v.rows.Texts), extra...), ", ") + " FROM " + v.name + " t"
	if len(conditions) > 0 {
		statement += " WHERE " + strings.Join(conditions, " AND ")
	}
	rows, err := conn.QueryContext(ctx, statement, args...)
	if err != nil {
		yield(nil, err)
		return false
	}
	defer rows.Close() //nolint:errcheck // rows.Err has what matters
	values := make([]sql.RawBytes, len(v.columns)+len(extra))
	into := make([]any, len(values))
	for i := range values {
		into[i] = &values[i]
	}
	for rows.Next() {
		if err := errors.Join(rows.Scan(into...), v.reader.throttle.Wait(ctx, 1)); err != nil {
			yield(nil, err)
			return false
		}
		encoder.Reset()
		for _, text := range values[:len(v.columns)] {
			if text == nil {
				encoder.Null()
			} else {
				encoder.Value(canon.MySQL, text)
			}
		}
		if extra != nil {
			encoder.Placed(values[len(v.columns)])
		}
		if !yield(encoder, nil) {
			return false
		}
	}
	if err := rows.Err(); err != nil {
		yield(nil, err)
		return false
	}
	return true
}
