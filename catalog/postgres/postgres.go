// Package postgres reads the schema of a live PostgreSQL.
//
// In comes a connection; out comes a catalog.SourceSchema of all tables that
// the log can carry, read in one repeatable-read transaction, so that a table
// is never seen half altered. Parents of partitions, views, foreign, temporary
// and unlogged tables, and tables of extensions are left out: the log has no
// rows of them. It needs no rights beyond connecting. It promises nothing
// about servers before PostgreSQL 12.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"icehose/catalog"
)

// Read reads the schema of the database that conn is connected to. The
// connection is as it was afterwards.
func Read(ctx context.Context, conn *pgx.Conn) (*catalog.SourceSchema, error) {
	s, err := read(ctx, conn)
	if err != nil {
		return nil, fmt.Errorf("read schema of postgresql: %w", err)
	}
	return s, nil
}

func read(ctx context.Context, conn *pgx.Conn) (_ *catalog.SourceSchema, err error) {
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, tx.Rollback(context.WithoutCancel(ctx))) }()
	// Without a search path every name outside of pg_catalog comes with its schema.
	// The other settings are what the texts of values depend on.
	for _, set := range [...]string{"search_path TO ''", "datestyle TO ISO", "intervalstyle TO postgres", "timezone TO 'UTC'", "bytea_output TO hex", "extra_float_digits TO 1"} {
		if _, err := tx.Exec(ctx, "SET LOCAL "+set); err != nil {
			return nil, err
		}
	}
	s := &catalog.SourceSchema{
		Engine: catalog.PostgreSQL, Words: catalog.PostgreSQL, Version: conn.PgConn().ParameterStatus("server_version"),
		Unknown: []catalog.Aspect{catalog.AspectZeroDates}, KnowsEarlier: true,
	}
	domains, err := readDomains(ctx, tx)
	if err != nil {
		return nil, fmt.Errorf("list domains: %w", err)
	}
	tables, err := readTables(ctx, tx)
	if err != nil {
		return nil, fmt.Errorf("list tables: %w", err)
	}
	if err := readColumns(ctx, tx, tables, domains); err != nil {
		return nil, fmt.Errorf("list columns: %w", err)
	}
	if s.LeftOut, err = readLeftOut(ctx, tx); err != nil {
		return nil, fmt.Errorf("list what is left out: %w", err)
	}
	for _, t := range tables {
		if t.toast {
			t.MarkOutOfLine(t.plain)
		}
		s.Tables = append(s.Tables, t.SourceTable)
	}
	return s, s.Sort()
}

// A table is a SourceTable in the making.
type table struct {
	*catalog.SourceTable
	toast bool
	plain []string // columns of varying length with storage PLAIN
}

func readTables(ctx context.Context, tx pgx.Tx) (map[uint32]*table, error) {
	rows, err := tx.Query(ctx, `
		SELECT c.oid, n.nspname, c.relname, coalesce(obj_description(c.oid, 'pg_class'), ''), c.relreplident::text, c.reltoastrelid <> 0,
			coalesce((SELECT pn.nspname || '.' || p.relname FROM pg_catalog.pg_inherits h
				JOIN pg_catalog.pg_class p ON p.oid = h.inhparent JOIN pg_catalog.pg_namespace pn ON pn.oid = p.relnamespace
				WHERE h.inhrelid = c.oid AND c.relispartition), ''),
			ARRAY(SELECT a.attname::text FROM pg_catalog.pg_index i, unnest(i.indkey) WITH ORDINALITY AS k (attnum, n), pg_catalog.pg_attribute a
				WHERE i.indrelid = c.oid AND i.indisprimary AND k.n <= i.indnkeyatts AND a.attrelid = c.oid AND a.attnum = k.attnum ORDER BY k.n),
			EXISTS (SELECT FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid AND i.indisprimary AND NOT (i.indimmediate AND i.indisvalid)),
			ARRAY(SELECT a.attname::text FROM pg_catalog.pg_index i, unnest(i.indkey) WITH ORDINALITY AS k (attnum, n), pg_catalog.pg_attribute a
				WHERE c.relreplident = 'i' AND i.indrelid = c.oid AND i.indisreplident AND i.indisvalid AND i.indimmediate
					AND k.n <= i.indnkeyatts AND a.attrelid = c.oid AND a.attnum = k.attnum ORDER BY k.n)
		FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind = 'r' AND c.relpersistence = 'p' AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
			AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.objid = c.oid AND d.deptype = 'e')`)
	if err != nil {
		return nil, err
	}
	tables := make(map[uint32]*table)
	var oid uint32
	var identity string
	var t catalog.SourceTable
	var toast bool
	_, err = pgx.ForEachRow(rows, []any{&oid, &t.Schema, &t.Name, &t.Comment, &identity, &toast, &t.PartitionOf, &t.Key, &t.KeyDeferrable, &t.IdentityColumns}, func() error {
		found := t
		found.Key, found.IdentityColumns = slices.Clone(t.Key), append([]string(nil), t.IdentityColumns...)
		if found.ReplicaIdentity = identityOf(identity); found.ReplicaIdentity == "" {
			return fmt.Errorf("table %s: unknown replica identity %q", t.FullName(), identity)
		}
		tables[oid] = &table{SourceTable: &found, toast: toast}
		return nil
	})
	return tables, err
}

func identityOf(code string) catalog.ReplicaIdentity {
	switch code {
	case "d":
		return catalog.IdentityDefault
	case "f":
		return catalog.IdentityFull
	case "n":
		return catalog.IdentityNothing
	case "i":
		return catalog.IdentityIndex
	}
	return ""
}

// A domain is what CREATE DOMAIN made of another type.
type domain struct {
	base    uint32 // a domain again, maybe
	typ     string // spelled
	class   string
	other   bool
	notNull bool
	def     string
}

func readDomains(ctx context.Context, tx pgx.Tx) (map[uint32]domain, error) {
	rows, err := tx.Query(ctx, `
		SELECT d.oid, d.typbasetype, format_type(d.typbasetype, d.typtypmod), e.typtype::text, en.nspname <> 'pg_catalog', d.typnotnull, coalesce(d.typdefault, '')
		FROM pg_catalog.pg_type d JOIN pg_catalog.pg_type b ON b.oid = d.typbasetype
			JOIN pg_catalog.pg_type e ON e.oid = CASE WHEN b.typcategory = 'A' AND b.typelem <> 0 THEN b.typelem ELSE b.oid END
			JOIN pg_catalog.pg_namespace en ON en.oid = e.typnamespace
		WHERE d.typtype = 'd'`)
	if err != nil {
		return nil, err
	}
	domains := make(map[uint32]domain)
	var oid uint32
	var d domain
	_, err = pgx.ForEachRow(rows, []any{&oid, &d.base, &d.typ, &d.class, &d.other, &d.notNull, &d.def}, func() error {
		domains[oid] = d
		return nil
	})
	return domains, err
}

// A column is a row of pg_attribute and what belongs to it.
type column struct {
	catalog.SourceColumn
	table               uint32
	typ                 uint32
	class               string // typtype; of the element, if it is an array
	other               bool   // the type is not one of pg_catalog
	notNull             bool
	generated, identity string
	def                 string
	plain               bool
}

func readColumns(ctx context.Context, tx pgx.Tx, tables map[uint32]*table, domains map[uint32]domain) error {
	oids := make([]uint32, 0, len(tables))
	for oid := range tables {
		oids = append(oids, oid)
	}
	rows, err := tx.Query(ctx, `
		SELECT a.attrelid, a.attname, a.atttypid, format_type(a.atttypid, a.atttypmod), e.typtype::text, en.nspname <> 'pg_catalog',
			a.attnotnull, a.attgenerated::text, a.attidentity::text, coalesce(pg_get_expr(d.adbin, d.adrelid), ''),
			coalesce(col_description(a.attrelid, a.attnum), ''), a.attlen = -1 AND a.attstorage = 'p', `+earlier+`
		FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
			JOIN pg_catalog.pg_type e ON e.oid = CASE WHEN t.typcategory = 'A' AND t.typelem <> 0 THEN t.typelem ELSE t.oid END
			JOIN pg_catalog.pg_namespace en ON en.oid = e.typnamespace
			LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
		WHERE a.attrelid = ANY ($1) AND a.attnum > 0 AND NOT a.attisdropped
		ORDER BY a.attrelid, a.attnum`, oids)
	if err != nil {
		return err
	}
	var c column
	_, err = pgx.ForEachRow(rows, []any{
		&c.table, &c.Name, &c.typ, &c.Declared, &c.class, &c.other, &c.notNull, &c.generated, &c.identity, &c.def, &c.Comment, &c.plain, &c.Earlier,
	}, func() error {
		found := c.SourceColumn
		if err := c.finish(&found, domains); err != nil {
			return fmt.Errorf("%s.%s: %w", tables[c.table].FullName(), c.Name, err)
		}
		t := tables[c.table]
		t.Columns = append(t.Columns, &found)
		if c.plain {
			t.plain = append(t.plain, c.Name)
		}
		return nil
	})
	return err
}

// finish resolves the domain, the type, the default and where values come from.
func (c *column) finish(out *catalog.SourceColumn, domains map[uint32]domain) (err error) {
	base, class, other, def := c.Declared, c.class, c.other, c.def
	out.Nullable = !c.notNull
	for oid := c.typ; ; {
		d, ok := domains[oid]
		if !ok {
			break
		}
		base, class, other, oid = d.typ, d.class, d.other, d.base
		out.Nullable = out.Nullable && !d.notNull
		if def == "" {
			def = d.def
		}
	}
	if out.Type, err = catalog.ParseSourceType(base); err != nil {
		return err
	}
	if out.Type.Class, err = classOf(class, other); err != nil {
		return err
	}
	switch c.generated {
	case "s":
		out.Generated = catalog.GeneratedStored
	case "v":
		out.Generated = catalog.GeneratedVirtual
	}
	if c.identity != "" {
		out.Generated = catalog.GeneratedIdentity
	}
	if !out.Generated.Computed() {
		out.Default = catalog.LiteralDefault(def)
	}
	return nil
}

func classOf(typtype string, other bool) (catalog.TypeClass, error) {
	switch typtype {
	case "e":
		return catalog.ClassEnum, nil
	case "c":
		return catalog.ClassComposite, nil
	case "r", "m":
		if other {
			return catalog.ClassRange, nil
		}
		return "", nil
	case "b":
		if other {
			return catalog.ClassOther, nil
		}
		return "", nil
	case "d":
		return catalog.ClassDomain, nil
	}
	return "", fmt.Errorf("unknown kind of type %q", typtype)
}
