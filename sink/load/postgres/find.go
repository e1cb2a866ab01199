package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// A relation is the table as the source has it.
type relation struct {
	oid  uint32
	kind string // relkind: r, or p of a partitioned table
}

// kinds are what else the catalog has by name.
var kinds = map[string]string{ //nolint:gochecknoglobals // constant table
	"v": "a view", "m": "a materialized view", "f": "a foreign table", "S": "a sequence", "i": "an index", "I": "an index", "c": "a type", "t": "a table for long values",
}

// find finds the table, its partitions and its columns.
func (r *reader) find(ctx context.Context, conn *pgx.Conn) error {
	schema, name, _ := strings.Cut(r.table.Source, ".")
	err := conn.QueryRow(ctx, `SELECT c.oid, c.relkind::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relname = $2`, schema, name).Scan(&r.oid, &r.kind)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return errors.New("the source has no table of this name")
	case err != nil:
		return fmt.Errorf("find table: %w", err)
	case r.kind != "r" && r.kind != "p":
		what, ok := kinds[r.kind]
		if !ok {
			what = "no table"
		}
		return fmt.Errorf("the source's %s is %s, of which the log has no changes: name a table, or load a dump", r.table.Source, what)
	}
	if err := r.checkParts(ctx, conn); err != nil {
		return err
	}
	return r.findColumns(ctx, conn)
}

// tree is the SQL of the relations that have the rows of table $1, as a snapshot
// has them: itself, or all of its partitions that have none below them.
const tree = `WITH RECURSIVE tree (oid) AS (SELECT $1::oid
		UNION ALL SELECT i.inhrelid FROM pg_inherits i JOIN tree ON i.inhparent = tree.oid JOIN pg_class p ON p.oid = tree.oid AND p.relkind = 'p'),
	leaf AS (SELECT c.*, n.nspname FROM tree JOIN pg_class c ON c.oid = tree.oid JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind <> 'p') `

// checkParts refuses a table some of whose rows would not be read.
func (r *reader) checkParts(ctx context.Context, conn *pgx.Conn) error {
	var name, kind string
	err := conn.QueryRow(ctx, tree+`SELECT nspname || '.' || relname, relkind::text FROM leaf WHERE relkind <> 'r' OR row_security_active(oid)
		ORDER BY relkind = 'r', nspname, relname LIMIT 1`, r.oid).Scan(&name, &kind)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("find partitions: %w", err)
	case kind == "r":
		return fmt.Errorf("row-level security hides rows of %s from the account: use one that has BYPASSRLS, or owns the table if its policies are not forced on the owner", name)
	}
	what, ok := kinds[kind]
	if !ok {
		what = "no ordinary table"
	}
	return fmt.Errorf("its partition %s is %s: neither the snapshot nor the log has its rows: load the other partitions, each as a table of its own", name, what)
}

// findColumns makes the select list.
func (r *reader) findColumns(ctx context.Context, conn *pgx.Conn) error {
	// The text of money has a currency and depends on a language: it is read as a number.
	rows, err := conn.Query(ctx, `SELECT attname, CASE WHEN 'money'::regtype IN (t.oid, t.typbasetype) THEN '::numeric' ELSE '' END
		FROM pg_attribute JOIN pg_type t ON t.oid = atttypid WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped ORDER BY attnum`, r.oid)
	if err != nil {
		return fmt.Errorf("find columns: %w", err)
	}
	var names, casts []string
	var column, cast string
	_, err = pgx.ForEachRow(rows, []any{&column, &cast}, func() error {
		names, casts = append(names, column), append(casts, cast)
		return nil
	})
	if err != nil {
		return fmt.Errorf("find columns: %w", err)
	}
	places, err := r.table.PlaceColumns(names)
	if err != nil {
		return err
	}
	list := make([]string, len(places))
	for i, at := range places {
		list[i] = pgx.Identifier{names[at]}.Sanitize() + casts[at]
	}
	r.columns = strings.Join(list, ", ")
	return nil
}
