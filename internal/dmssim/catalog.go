package dmssim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"icehose/catalog"
)

// matches reports whether name matches a selection pattern: % stands for any
// text and _ for any character, as in DMS.
func matches(pattern, name string) bool {
	n := []rune(name)
	reach := make([]bool, len(n)+1)
	reach[0] = true
	for _, c := range pattern {
		next := make([]bool, len(n)+1)
		for i := range reach {
			switch {
			case c == '%':
				next[i] = reach[i] || i > 0 && next[i-1]
			case i > 0 && reach[i-1] && (c == '_' || c == n[i-1]):
				next[i] = true
			}
		}
		reach = next
	}
	return reach[len(n)]
}

// selected reports whether one of the patterns matches "schema.table".
func selected(patterns []string, t *Table) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, t.FullName()) })
}

// readTables lists the tables that patterns select, with their columns.
// Partitions are tables of their own, their parents are none. Generated
// columns are left out, since the write-ahead log has no value for them.
func readTables(ctx context.Context, conn *pgx.Conn, patterns []string) ([]*Table, error) {
	rows, err := conn.Query(ctx, tablesQuery)
	if err != nil {
		return nil, fmt.Errorf("list tables: %w", err)
	}
	var tables []*Table
	var oids []uint32
	var oid uint32
	var t Table
	var s catalog.SourceTable
	_, err = pgx.ForEachRow(rows, []any{&oid, &t.Schema, &t.Name, &t.Key, &s.ReplicaIdentity, &s.KeyDeferrable, &s.IdentityColumns, &t.computed}, func() error {
		if selected(patterns, &t) {
			found, source := t, s
			found.Key, found.computed = slices.Clone(t.Key), slices.Clone(t.computed)
			source.Schema, source.Name, source.Key, source.IdentityColumns = t.Schema, t.Name, found.Key, slices.Clone(s.IdentityColumns)
			found.source = &source
			tables, oids = append(tables, &found), append(oids, oid)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list tables: %w", err)
	}
	if len(tables) == 0 {
		return nil, errors.New("list tables: no table matches the selection")
	}
	for i, t := range tables {
		if err := readColumns(ctx, conn, oids[i], t); err != nil {
			return nil, fmt.Errorf("list columns of %s: %w", t.FullName(), err)
		}
	}
	return tables, nil
}

func readColumns(ctx context.Context, conn *pgx.Conn, oid uint32, t *Table) error {
	rows, err := conn.Query(ctx, `SELECT attname, atttypid, atttypmod, NOT attnotnull FROM pg_attribute
		WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum`, oid)
	if err != nil {
		return err
	}
	type column struct {
		Name     string
		Type     uint32
		Modifier int32
		Nullable bool
	}
	columns, err := pgx.CollectRows(rows, pgx.RowToStructByPos[column])
	if err != nil {
		return err
	}
	for _, c := range columns {
		described, err := describeColumn(ctx, conn, c.Name, c.Type, c.Modifier)
		if err != nil {
			return err
		}
		described.Nullable = c.Nullable
		t.Columns = append(t.Columns, described)
	}
	return nil
}

// describeColumn finds out what kind a type is. A domain is what it is made of.
func describeColumn(ctx context.Context, conn *pgx.Conn, name string, oid uint32, modifier int32) (Column, error) {
	for {
		var base uint32
		var baseModifier int32
		var class, category string
		err := conn.QueryRow(ctx, `SELECT typbasetype, typtypmod, typtype::text, typcategory::text FROM pg_type WHERE oid = $1`, oid).
			Scan(&base, &baseModifier, &class, &category)
		if err != nil {
			return Column{}, fmt.Errorf("look up type of %s: %w", name, err)
		}
		if base == 0 {
			c := Column{Name: name, Kind: kindOf(oid, class, category)}
			c.applyModifier(modifier)
			return c, nil
		}
		oid, modifier = base, baseModifier
	}
}

func kindOf(oid uint32, class, category string) Kind {
	kinds := map[uint32]Kind{
		pgtype.BoolOID: Boolean, pgtype.Int2OID: SmallInt, pgtype.Int4OID: Integer, pgtype.Int8OID: BigInt, pgtype.NumericOID: Numeric,
		790: Money, pgtype.Float4OID: Real, pgtype.Float8OID: Double, pgtype.BPCharOID: Char, pgtype.VarcharOID: Varchar, pgtype.TextOID: Text,
		pgtype.JSONOID: JSONText, pgtype.JSONBOID: JSONB, pgtype.ByteaOID: Bytea, pgtype.DateOID: Date, pgtype.TimeOID: Time, pgtype.TimetzOID: Time,
		pgtype.TimestampOID: Timestamp, pgtype.TimestamptzOID: TimestampTZ, pgtype.IntervalOID: Interval, pgtype.BitOID: Bit, pgtype.VarbitOID: Bit,
		pgtype.XMLOID: Text, 3614: Text, // tsvector
	}
	if k, ok := kinds[oid]; ok {
		return k
	}
	switch {
	case category == "A":
		return Array
	case class == "c": // composite
		return Text
	}
	return Other
}

// applyModifier reads the length or the precision that a type was declared with.
func (c *Column) applyModifier(modifier int32) {
	const header = 4
	if modifier < 0 {
		return
	}
	n := int(modifier)
	switch c.Kind {
	case Char, Varchar:
		c.Length = n - header
	case Bit:
		c.Length = n
	case Numeric:
		c.Precision = (n - header) >> 16 & 0xffff
		c.Scale = ((n-header)&0x7ff ^ 1024) - 1024 // 11 bits, signed
	case Boolean, SmallInt, Integer, BigInt, Money, Real, Double, Text, JSONText, JSONB, Array, Bytea, Date, Time, Timestamp, TimestampTZ, Interval, Other:
	}
}

// createPublications makes the two that a task needs. PostgreSQL refuses updates and
// deletes of a table whose rows its log cannot name, once a publication has them.
// So such tables are published for inserts only, and Shortfalls lists them.
func (t *Task) createPublications(ctx context.Context) error {
	var whole, inserts []string
	for _, table := range t.tables {
		name := pgx.Identifier{table.Schema, table.Name}.Sanitize()
		if table.changes() {
			whole = append(whole, name)
		} else {
			inserts = append(inserts, name)
		}
	}
	names := t.publicationNames()
	for _, p := range []struct {
		name, operations string
		tables           []string
	}{
		{names[0], "insert, update, delete", whole},
		{names[1], "insert", inserts},
	} {
		if len(p.tables) == 0 {
			continue
		}
		sql := fmt.Sprintf("CREATE PUBLICATION %s FOR TABLE ONLY %s WITH (publish = '%s')",
			pgx.Identifier{p.name}.Sanitize(), strings.Join(p.tables, ", ONLY "), p.operations)
		if _, err := t.conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("create publication %s: %w", p.name, err)
		}
		t.publications = append(t.publications, p.name)
	}
	return nil
}

func (t *Task) publicationNames() [2]string {
	return [2]string{t.options.Publication, t.options.Publication + "_keyless"}
}

// dropLeftovers drops what another task of the same names has left.
func (t *Task) dropLeftovers(ctx context.Context) error {
	_, err := t.conn.Exec(ctx, "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = $1", t.options.Slot)
	if err != nil {
		return fmt.Errorf("drop replication slot %s: %w", t.options.Slot, err)
	}
	names := t.publicationNames()
	t.publications = names[:]
	return t.dropPublications(ctx)
}

// dropPublications drops what createPublications created.
func (t *Task) dropPublications(ctx context.Context) error {
	for _, name := range t.publications {
		if _, err := t.conn.Exec(ctx, "DROP PUBLICATION IF EXISTS "+pgx.Identifier{name}.Sanitize()); err != nil {
			return fmt.Errorf("drop publication %s: %w", name, err)
		}
	}
	t.publications = nil
	return nil
}
