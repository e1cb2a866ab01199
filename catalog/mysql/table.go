package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
)

// ErrNoTable says that the server has no table of a name, or none that the
// account may see.
var ErrNoTable = errors.New("the source has none of this name, or the account may not see it")

// A Querier is a connection, or several.
type Querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// A Table is what the information schema says of a table, in the server's
// spelling.
type Table struct {
	Schema, Name string
	Kind         string        // BASE TABLE, SYSTEM VERSIONED, VIEW and others
	Engine       string        // empty for a view
	Rows         sql.NullInt64 // an estimate
	Columns      []Column      // in table order
	Key          []string      // columns of the primary key, in its order
	KeyBegins    bool          // the key has the beginning of its first column's values only

	spelling spelling
}

// A Column is one of a table.
type Column struct {
	Name     string
	DataType string // in lower case, without parameters: decimal
	Declared string // with them: decimal(12,2) unsigned
	Extra    string // in upper case: STORED GENERATED
	Nullable bool
}

// spelling is how a server tells names of databases and tables apart.
type spelling struct {
	folds bool // lower_case_table_names is not 0: it takes Orders and orders for one
}

func readSpelling(ctx context.Context, q Querier) (spelling, error) {
	var n int
	if err := q.QueryRowContext(ctx, "SELECT @@lower_case_table_names").Scan(&n); err != nil {
		return spelling{}, err
	}
	return spelling{folds: n != 0}, nil
}

// same reports whether two names are of one database, or of one table in it.
// The information schema itself is no help: its texts have a collation to which
// Orders is orders and café is cafe.
func (s spelling) same(a, b string) bool {
	return a == b || s.folds && strings.EqualFold(a, b)
}

// FindTable reads a table. Its error is ErrNoTable where there is none. Each of
// its statements asks one table of the information schema for constant names,
// and what comes back is looked at again here: a join or a condition there would
// also find tables whose names differ in case or in accents.
func FindTable(ctx context.Context, q Querier, schema, name string) (*Table, error) {
	s, err := readSpelling(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("find table: %w", err)
	}
	t := &Table{Schema: schema, Name: name, spelling: s} // the wanted names, until it is found
	for _, step := range []struct {
		what string
		read func(context.Context, Querier) error
	}{{"find table", t.find}, {"list columns", t.readColumns}, {"read key", t.readKey}} {
		if err := step.read(ctx, q); err != nil {
			return nil, fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return t, nil
}

// each calls row for every row of a statement whose rows start with a schema
// and a table's name, and whose arguments these are, if it is of this table.
func (t *Table) each(ctx context.Context, q Querier, statement string, row func(schema, name string) error, into ...any) (err error) {
	rows, err := q.QueryContext(ctx, statement, t.Schema, t.Name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var schema, name string
		if err := rows.Scan(append([]any{&schema, &name}, into...)...); err != nil {
			return err
		}
		if !t.spelling.same(schema, t.Schema) || !t.spelling.same(name, t.Name) {
			continue
		}
		if err := row(schema, name); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (t *Table) find(ctx context.Context, q Querier) error {
	var found Table
	err := t.each(ctx, q, `SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, COALESCE(ENGINE, ''), TABLE_ROWS FROM information_schema.TABLES
		WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ?`, func(schema, name string) error {
		found.Schema, found.Name = schema, name
		return nil
	}, &found.Kind, &found.Engine, &found.Rows)
	if err != nil {
		return err
	}
	if found.Name == "" {
		return ErrNoTable
	}
	found.spelling = t.spelling
	*t = found
	return nil
}

func (t *Table) readColumns(ctx context.Context, q Querier) error {
	var c Column
	var nullable string
	return t.each(ctx, q, `SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, EXTRA, IS_NULLABLE FROM information_schema.COLUMNS
		WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? ORDER BY ORDINAL_POSITION`, func(string, string) error {
		c.DataType, c.Extra, c.Nullable = strings.ToLower(c.DataType), strings.ToUpper(c.Extra), nullable != "NO"
		t.Columns = append(t.Columns, c)
		return nil
	}, &c.Name, &c.DataType, &c.Declared, &c.Extra, &nullable)
}

func (t *Table) readKey(ctx context.Context, q Querier) error {
	var column string
	var length sql.NullInt64
	return t.each(ctx, q, `SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, SUB_PART FROM information_schema.STATISTICS
		WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? AND INDEX_NAME = 'PRIMARY' ORDER BY SEQ_IN_INDEX`, func(string, string) error {
		t.KeyBegins = t.KeyBegins || len(t.Key) == 0 && length.Valid
		t.Key = append(t.Key, column)
		return nil
	}, &column, &length)
}

// Triggers returns the names of the table's triggers, as far as the account may
// see them.
func (t *Table) Triggers(ctx context.Context, q Querier) ([]string, error) {
	var names []string
	var name string
	err := t.each(ctx, q, `SELECT EVENT_OBJECT_SCHEMA, EVENT_OBJECT_TABLE, TRIGGER_NAME FROM information_schema.TRIGGERS
		WHERE EVENT_OBJECT_SCHEMA = ? AND EVENT_OBJECT_TABLE = ?`, func(string, string) error {
		names = append(names, name)
		return nil
	}, &name)
	if err != nil {
		return nil, fmt.Errorf("list triggers: %w", err)
	}
	return names, nil
}
