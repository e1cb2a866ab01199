package heartbeat

import (
	"errors"
	"net/url"
	"strings"

	"icehose/catalog"
	"icehose/internal/canon/canonsql"
)

// A Source is a heartbeat table, and how its server is reached.
type Source struct {
	Engine        catalog.Engine
	Schema, Table string

	dsn     string
	account string // of the connection string; empty when it names none
}

// errDSN replaces every complaint about a connection string, which may quote a
// password.
var errDSN = errors.New("the source's connection string: want postgres://, mysql:// or mariadb://")

// Find reads a connection string and the name of a table of it, with its schema
// or without: that is then public, or the database of the connection string.
func Find(dsn, table string) (*Source, error) {
	kind, rest, ok := strings.Cut(dsn, "://")
	if !ok {
		return nil, errDSN
	}
	s := &Source{}
	schema := "public"
	switch kind = strings.ToLower(kind); kind {
	case "postgres", "postgresql":
		s.Engine = catalog.PostgreSQL
	case "mysql", "mariadb":
		if s.Engine = catalog.MySQL; kind == "mariadb" {
			s.Engine = catalog.MariaDB
		}
		schema = ""
	default:
		return nil, errDSN
	}
	s.dsn = kind + "://" + rest // drivers want it so
	u, err := url.Parse(s.dsn)
	if err != nil {
		return nil, errors.New("the source's connection string is not a URL") // the error would show the password
	}
	s.account = u.User.Username()
	if schema == "" {
		schema = strings.Trim(u.Path, "/")
	}
	if s.Schema, s.Table, ok = strings.Cut(table, "."); !ok {
		s.Schema, s.Table = schema, table
	}
	if s.Schema == "" || s.Table == "" || strings.ContainsRune(table, 0) {
		return nil, errors.New("the heartbeat table's name: want schema.table; without a schema, PostgreSQL's is public, and MySQL's the database of the connection string")
	}
	return s, nil
}

// Name is the table's name in a pipeline file.
func (s *Source) Name() string { return s.Schema + "." + s.Table }

func (s *Source) postgres() bool { return s.Engine == catalog.PostgreSQL }

func (s *Source) quote(name string) string {
	if s.postgres() {
		return canonsql.QuotePostgres(name)
	}
	return canonsql.QuoteMySQL(name)
}

// place is the table's name in a statement.
func (s *Source) place() string { return s.quote(s.Schema) + "." + s.quote(s.Table) }
