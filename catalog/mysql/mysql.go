// Package mysql reads the schema of a live MySQL or MariaDB.
//
// In comes a connection; out comes a catalog.SourceSchema of all base tables
// of one database, or of every database that is not the server's own. MySQL's
// information schema has no snapshot, so it is read until two readings in a
// row agree: a table is not seen half altered, unless somebody alters tables
// all the time, which is an error. It sees what the account may see. It
// promises nothing about servers before MySQL 5.7 and MariaDB 10.3.
package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"reflect"
	"strings"

	driver "github.com/go-sql-driver/mysql"

	"icehose/catalog"
)

// Open opens the database that a connection string names:
// mysql://user:password@host:port/database, or mariadb://. The database may be
// left out. Parameters are those of the driver, such as tls=true; those that
// would change values have no effect, and variables of the session other than
// its limits of time are refused. Texts are UTF-8.
func Open(dsn string) (*sql.DB, error) {
	config, err := configOf(dsn)
	if err != nil {
		return nil, fmt.Errorf("open mysql: %w", err)
	}
	connector, err := driver.NewConnector(config)
	if err != nil {
		return nil, fmt.Errorf("open mysql: %w", err)
	}
	return sql.OpenDB(connector), nil
}

// configOf reads a connection string.
func configOf(dsn string) (*driver.Config, error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return nil, errors.New("the connection string is not a URL") // the error would show the password
	}
	if u.Scheme != "mysql" && u.Scheme != "mariadb" {
		return nil, fmt.Errorf("want mysql:// or mariadb://, got %s://", u.Scheme)
	}
	port := u.Port()
	if port == "" {
		port = "3306"
	}
	config, err := driver.ParseDSN("/" + strings.TrimPrefix(u.Path, "/") + "?" + u.RawQuery)
	if err != nil {
		return nil, err
	}
	if err := settle(config); err != nil {
		return nil, err
	}
	config.User = u.User.Username()
	config.Passwd, _ = u.User.Password()
	config.Net, config.Addr = "tcp", net.JoinHostPort(u.Hostname(), port)
	if config.TLS != nil && !config.TLS.InsecureSkipVerify {
		config.TLS.ServerName = u.Hostname() // it was read without one
	}
	config.Logger = &driver.NopLogger{} // what it would print are errors that are returned too
	return config, nil
}

// readings is how many times the information schema is read until two
// readings agree.
const readings = 5

// Read reads the schema of the connection's database; of all databases when
// it has none.
func Read(ctx context.Context, db *sql.DB) (*catalog.SourceSchema, error) {
	s, err := read(ctx, db)
	if err != nil {
		return nil, fmt.Errorf("read schema of mysql: %w", err)
	}
	return s, nil
}

func read(ctx context.Context, db *sql.DB) (_ *catalog.SourceSchema, err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	var last *catalog.SourceSchema
	for range readings {
		s, err := readOnce(ctx, conn)
		if err != nil {
			return nil, err
		}
		unfit := s.Sort() // the server's order does not tell Orders from orders
		if last != nil && reflect.DeepEqual(last, s) {
			return s, unfit
		}
		last = s
	}
	return nil, fmt.Errorf("no two of %d readings agree: tables are being altered; try again later", readings)
}

func readOnce(ctx context.Context, conn *sql.Conn) (*catalog.SourceSchema, error) {
	r := &reader{conn: conn, tables: make(map[string]*catalog.SourceTable)}
	s := &catalog.SourceSchema{Unknown: []catalog.Aspect{catalog.AspectIdentity, catalog.AspectPartition}}
	var modes string
	if err := conn.QueryRowContext(ctx, "SELECT VERSION(), @@GLOBAL.sql_mode, COALESCE(DATABASE(), '')").Scan(&s.Version, &modes, &r.database); err != nil {
		return nil, err
	}
	s.Engine = catalog.MySQL
	if strings.Contains(s.Version, "MariaDB") {
		s.Engine = catalog.MariaDB
	}
	s.Words, r.engine, r.zeroDates = s.Engine, s.Engine, zeroDates(modes)
	var err error
	if r.spelling, err = readSpelling(ctx, conn); err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context) error{r.readTables, r.readColumns, r.readKeys} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	s.Tables = r.order
	for _, t := range s.Tables {
		t.MarkLOBs(s.Engine)
	}
	return s, nil
}

// zeroDates reports whether the server takes 0000-00-00.
func zeroDates(modes string) bool {
	strict := strings.Contains(modes, "STRICT_TRANS_TABLES") || strings.Contains(modes, "STRICT_ALL_TABLES")
	return !strict || !strings.Contains(modes, "NO_ZERO_DATE") || !strings.Contains(modes, "NO_ZERO_IN_DATE")
}

type reader struct {
	conn      *sql.Conn
	engine    catalog.Engine
	database  string
	zeroDates bool
	spelling  spelling
	tables    map[string]*catalog.SourceTable
	order     []*catalog.SourceTable
}

// query calls row for every row; the condition takes the database twice. It may
// let through databases of another spelling, and leaves out none: one that
// is called Sys is not the server's.
func (r *reader) query(ctx context.Context, text string, row func(*sql.Rows) error) (err error) {
	const condition = " CAST(TABLE_SCHEMA AS BINARY) NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema') AND (? = '' OR TABLE_SCHEMA = ?) "
	rows, err := r.conn.QueryContext(ctx, strings.Replace(text, "{databases}", condition, 1), r.database, r.database)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := row(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (r *reader) readTables(ctx context.Context) error {
	return r.query(ctx, `SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_COMMENT FROM information_schema.TABLES
		WHERE {databases} AND TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED') ORDER BY TABLE_SCHEMA, TABLE_NAME`,
		func(rows *sql.Rows) error {
			t := &catalog.SourceTable{}
			if err := rows.Scan(&t.Schema, &t.Name, &t.Comment); err != nil {
				return err
			}
			if r.database != "" && !r.spelling.same(t.Schema, r.database) {
				return nil
			}
			r.tables[t.FullName()] = t
			r.order = append(r.order, t)
			return nil
		})
}

func (r *reader) readColumns(ctx context.Context) error {
	return r.query(ctx, `SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE, COLUMN_DEFAULT, EXTRA, COLUMN_COMMENT
		FROM information_schema.COLUMNS WHERE {databases} ORDER BY TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION`,
		func(rows *sql.Rows) error {
			c := &catalog.SourceColumn{}
			var schema, table, nullable, extra string
			var def sql.NullString
			if err := rows.Scan(&schema, &table, &c.Name, &c.Declared, &nullable, &def, &extra, &c.Comment); err != nil {
				return err
			}
			t := r.tables[schema+"."+table]
			if t == nil { // of a view
				return nil
			}
			var err error
			if c.Type, err = catalog.ParseSourceType(c.Declared); err != nil {
				return fmt.Errorf("%s.%s: %w", t.FullName(), c.Name, err)
			}
			c.Nullable = nullable == "YES"
			c.Generated = generated(extra)
			if def.Valid && !c.Generated.Computed() {
				c.Default = r.defaultOf(c, def.String, extra)
			}
			c.ZeroDates = r.zeroDates && isDate(c.Type.Name)
			t.Columns = append(t.Columns, c)
			return nil
		})
}

func (r *reader) readKeys(ctx context.Context) error {
	return r.query(ctx, `SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME FROM information_schema.STATISTICS
		WHERE {databases} AND INDEX_NAME = 'PRIMARY' ORDER BY TABLE_SCHEMA, TABLE_NAME, SEQ_IN_INDEX`,
		func(rows *sql.Rows) error {
			var schema, table, column string
			if err := rows.Scan(&schema, &table, &column); err != nil {
				return err
			}
			if t := r.tables[schema+"."+table]; t != nil {
				t.Key = append(t.Key, column)
			}
			return nil
		})
}

func isDate(name string) bool { return name == "date" || name == "datetime" || name == "timestamp" }

func generated(extra string) catalog.Generated {
	switch extra = strings.ToUpper(extra); {
	case strings.Contains(extra, "AUTO_INCREMENT"):
		return catalog.GeneratedIdentity
	case strings.Contains(extra, "STORED GENERATED"), strings.Contains(extra, "PERSISTENT"):
		return catalog.GeneratedStored
	case strings.Contains(extra, "VIRTUAL GENERATED"):
		return catalog.GeneratedVirtual
	}
	return ""
}

// defaultOf reads COLUMN_DEFAULT: MariaDB writes SQL there, MySQL the bare
// value of a literal and the text of an expression, told apart by EXTRA.
func (r *reader) defaultOf(c *catalog.SourceColumn, text, extra string) *catalog.SourceDefault {
	expression := strings.Contains(strings.ToUpper(extra), "DEFAULT_GENERATED") ||
		isDate(c.Type.Name) && strings.HasPrefix(strings.ToUpper(text), "CURRENT_TIMESTAMP") || strings.HasPrefix(text, "b'")
	if r.engine != catalog.MariaDB && !expression {
		// Bytes are shown in hexadecimal up to the first zero byte: what follows is not known.
		cut := strings.HasSuffix(c.Type.Name, "binary") && strings.HasPrefix(text, "0x")
		return &catalog.SourceDefault{Text: text, Expression: cut}
	}
	out := catalog.LiteralDefault(text)
	if out != nil && !out.Expression && strings.HasPrefix(text, "'") {
		out.Text = unescaped.Replace(out.Text)
	}
	return out
}

// unescaped undoes what MariaDB does to the bytes of a literal, besides
// doubling its quotes.
//
//nolint:gochecknoglobals // constant table
var unescaped = strings.NewReplacer(`\\`, `\`, `\0`, "\x00", `\n`, "\n", `\r`, "\r", `\t`, "\t", `\b`, "\b", `\Z`, "\x1a", `\'`, `'`, `\"`, `"`)
