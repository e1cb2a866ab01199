package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"icehose/catalog"
	"icehose/internal/canon/canonsql"
	"icehose/reconcile"
)

// description is what a view knows of its table.
type description struct {
	from    string // what a statement reads: the quoted name, of an ordinary table behind ONLY
	kind    string // relkind
	blocks  int64
	columns []canonsql.Column
	rows    canonsql.Rows
	key     []int
	stamped bool // rows have an xmin

	collations []string // by column: the quoted name of one to which texts that differ may be equal; else empty
}

// describe finds the table and its columns at the moment of the transaction.
func (v *view) describe(ctx context.Context) error {
	if err := v.find(ctx); err != nil {
		return err
	}
	return v.describeColumns(ctx)
}

// find finds the table.
func (v *view) find(ctx context.Context) error {
	d := &v.description
	var oid uint32
	var schema, name, kind string
	var estimate float64
	rows, err := v.conn.Query(ctx, `SELECT c.oid, n.nspname, c.relname, c.relkind::text, c.reltuples,
			CASE WHEN c.relkind IN ('r', 'm') THEN pg_relation_size(c.oid) / current_setting('block_size')::bigint ELSE 0 END
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind IN ('r', 'p', 'm', 'v', 'f') AND lower(n.nspname || '.' || c.relname) = lower($1)
		ORDER BY n.nspname || '.' || c.relname <> $1`, v.table.Source)
	if err != nil {
		return fmt.Errorf("find table: %w", clean(err))
	}
	found, exact := 0, false
	_, err = pgx.ForEachRow(rows, []any{&oid, &schema, &name, &kind, &estimate, &d.blocks}, func() error {
		if found++; found == 1 {
			exact = schema+"."+name == v.table.Source
			d.from, d.kind = canonsql.QuotePostgres(schema)+"."+canonsql.QuotePostgres(name), kind
			v.pinned.Rows = rowsOf(estimate, d.blocks)
			v.oid = oid
		}
		return nil
	})
	switch {
	case err != nil:
		return fmt.Errorf("find table: %w", clean(err))
	case found == 0:
		return errors.New("find table: the source has none of this name, or the account may not see it")
	case found > 1 && !exact:
		return errors.New("find table: several differ only in the case of letters")
	}
	if d.kind == "r" {
		d.from = "ONLY " + d.from // as a load: the log has rows of tables that inherit from it as changes of those
	}
	d.stamped = d.kind == "r" || d.kind == "p" || d.kind == "m"
	return nil
}

// rowsOf guesses the rows of a table that may never have been analysed.
func rowsOf(estimate float64, blocks int64) int64 {
	const perBlock = 64
	if estimate < 0 || estimate == 0 && blocks > 0 {
		return blocks * perBlock
	}
	return int64(estimate)
}

func (v *view) describeColumns(ctx context.Context) error {
	type column struct{ name, typ, class, collation string }
	rows, err := v.conn.Query(ctx, `SELECT a.attname, format_type(a.atttypid, a.atttypmod), t.typtype::text, coalesce(quote_ident(n.nspname) || '.' || quote_ident(c.collname), '')
		FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
			LEFT JOIN (pg_collation c JOIN pg_namespace n ON n.oid = c.collnamespace) ON c.oid = a.attcollation AND to_jsonb(c) ->> 'collisdeterministic' = 'false'
		WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped`, v.oid)
	if err != nil {
		return fmt.Errorf("list columns: %w", clean(err))
	}
	there, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (c column, err error) {
		err = row.Scan(&c.name, &c.typ, &c.class, &c.collation)
		return c, err
	})
	if err != nil {
		return fmt.Errorf("list columns: %w", clean(err))
	}
	encoder, err := reconcile.NewEncoder(v.table)
	if err != nil {
		return err
	}
	names := make([]string, len(there))
	for i := range there {
		names[i] = there[i].name
	}
	places, err := v.table.PlaceColumns(names)
	if err != nil {
		return fmt.Errorf("find columns: %w", err)
	}
	v.pinned.Unknown = reconcile.UnknownColumns(v.table, names)
	d := &v.description
	for i, c := range encoder.Columns() {
		at := places[i]
		typ, err := catalog.ParseSourceType(there[at].typ)
		if err != nil {
			typ = catalog.SourceType{Name: there[at].typ, Class: catalog.ClassOther} // then only its text is used
		}
		d.columns = append(d.columns, canonsql.Column{Column: c, Spelled: there[at].name, Type: typ, Domain: there[at].class == "d"})
		d.collations = append(d.collations, there[at].collation)
	}
	for _, name := range v.table.Key {
		d.key = append(d.key, slices.IndexFunc(d.columns, func(c canonsql.Column) bool { return c.Name == name }))
	}
	d.rows = canonsql.Postgres(d.columns)
	if !v.reader.server.utf8 {
		d.rows.Canonical = make([]string, len(d.columns)) // the server would hash other bytes
	}
	return nil
}

// A keyLookup is how rows are found by a key column: an expression of the row,
// and the cast that makes the canonical text of a key what it is compared with.
// The cast never fails for a key that mayHave lets through.
type keyLookup struct{ expression, cast string }

// keyLookups returns those of the key columns; nil when the source cannot be
// asked for keys.
func (d *description) keyLookups() []keyLookup {
	if len(d.key) == 0 {
		return nil
	}
	lookups := make([]keyLookup, len(d.key))
	for n, i := range d.key {
		c := &d.columns[i]
		switch cast := castOf(c); {
		case cast != "":
			lookups[n] = keyLookup{"t." + canonsql.QuotePostgres(c.Spelled), cast}
		case d.rows.Canonical[i] != "":
			// No index has it, but no text is too strange for it.
			lookups[n] = keyLookup{d.rows.Canonical[i], "%s"}
		default:
			return nil
		}
		if d.collations[i] != "" {
			// The server may take each of the keys once before it looks for their rows. If it tells keys apart
			// that are equal to the column, it finds a row as often as it has a key for it.
			lookups[n].cast += " COLLATE " + d.collations[i]
		}
	}
	return lookups
}

// castOf makes a canonical text a value of the source's type; empty where the
// lake's type has texts that are none, or others than the source's values have.
// It names types without a length, which would cut the text.
func castOf(c *canonsql.Column) string {
	if c.Mask != "" || len(c.AllowLossy) > 0 || c.Domain || c.Type.Array || c.Type.Class != "" {
		return ""
	}
	switch name, kind := c.Type.Name, c.Column.Type.Kind; name {
	case "smallint", "integer", "bigint":
		if kind == catalog.Int || kind == catalog.Long || kind == catalog.Decimal && c.Column.Type.Scale == 0 {
			return "%s::" + name
		}
	case "boolean", "uuid", "date", "numeric", "time without time zone", "timestamp without time zone", "timestamp with time zone":
		if kind == nativeKinds[name] {
			return "%s::" + name
		}
	case "text", "name", "character varying", "character", "bpchar":
		if kind != catalog.String {
			return ""
		}
		if name == "character" {
			name = "bpchar"
		}
		return "%s::" + name
	case "bytea":
		if kind == catalog.Binary || kind == catalog.Fixed {
			return "decode(%s, 'hex')"
		}
	}
	return ""
}

// nativeKinds are the lake's types whose every canonical text is a value of a
// type of the source.
var nativeKinds = map[string]catalog.TypeKind{ //nolint:gochecknoglobals // constant table
	"boolean": catalog.Boolean, "uuid": catalog.UUID, "date": catalog.Date, "numeric": catalog.Decimal, "time without time zone": catalog.Time,
	"timestamp without time zone": catalog.Timestamp, "timestamp with time zone": catalog.TimestampTZ,
}

// integerRanges are what integers of the source hold.
var integerRanges = map[string][2]int64{ //nolint:gochecknoglobals // constant table
	"smallint": {math.MinInt16, math.MaxInt16}, "integer": {math.MinInt32, math.MaxInt32}, "bigint": {math.MinInt64, math.MaxInt64},
}

// mayHave reports whether the source's types can hold a key at all.
func (d *description) mayHave(key []string) bool {
	for n, i := range d.key {
		c := &d.columns[i]
		if bounds, ok := integerRanges[c.Type.Name]; ok && castOf(c) != "" {
			v, err := strconv.ParseInt(key[n], 10, 64)
			if err != nil || v < bounds[0] || v > bounds[1] {
				return false
			}
		}
		if strings.ContainsRune(key[n], 0) {
			return false
		}
	}
	return true
}
