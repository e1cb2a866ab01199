// Package ddl reads schemas from dumps: the output of pg_dump --schema-only
// and of mysqldump --no-data, or a schema written by hand in the same
// statements.
//
// In comes the text of a file; out comes the catalog.SourceSchema that a
// server with this schema has, read by the engines' own grammars
// (libpg_query, the parser of TiDB). Statements that define no table are
// passed over. An error names the file and the line. The package promises
// nothing about rows: data in a dump is skipped.
package ddl

import (
	"bytes"
	"fmt"
	"strings"

	"icehose/catalog"
)

// An Error is a statement that cannot be read.
type Error struct {
	File   string
	Line   int // 1-based
	Reason string
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Reason) }

// Read reads a dump of the engine. name stands for the file in errors. With
// an empty engine the dump's own first lines must say whose it is.
func Read(name string, text []byte, engine catalog.Engine) (*catalog.SourceSchema, error) {
	if engine == "" {
		if engine = EngineOf(text); engine == "" {
			return nil, &Error{File: name, Line: 1, Reason: "cannot tell whose dump this is: give --engine postgresql, mysql or mariadb"}
		}
	}
	var s *catalog.SourceSchema
	var err error
	switch engine {
	case catalog.PostgreSQL:
		s, err = readPostgres(name, string(text))
	case catalog.MySQL, catalog.MariaDB:
		s, err = readMySQL(name, string(text), engine)
	case catalog.Oracle, catalog.SQLServer, catalog.DMS:
		return nil, &Error{File: name, Line: 1, Reason: fmt.Sprintf("dumps of %s cannot be read: discover from the control records of its task", engine)}
	default:
		return nil, &Error{File: name, Line: 1, Reason: fmt.Sprintf("unknown engine %q", engine)}
	}
	if err != nil {
		return nil, err
	}
	if err := s.Sort(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(s.Tables) == 0 {
		return nil, &Error{File: name, Line: 1, Reason: "defines no table"}
	}
	return s, nil
}

// EngineOf reads the banner that each dump program writes into the first lines;
// empty without one.
func EngineOf(text []byte) catalog.Engine {
	head := text[:min(len(text), 4096)]
	switch {
	case bytes.Contains(head, []byte("PostgreSQL database dump")):
		return catalog.PostgreSQL
	case bytes.Contains(head, []byte("MariaDB dump")), bytes.Contains(head, []byte("-MariaDB")):
		return catalog.MariaDB
	case bytes.Contains(head, []byte("MySQL dump")):
		return catalog.MySQL
	}
	return ""
}

// lineAt returns the 1-based line of a byte offset.
func lineAt(text string, offset int) int {
	return 1 + strings.Count(text[:min(max(offset, 0), len(text))], "\n")
}
