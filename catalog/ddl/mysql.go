package ddl

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser"
	"github.com/pingcap/tidb/pkg/parser/ast"
	_ "github.com/pingcap/tidb/pkg/parser/test_driver" // the literals of a parser that runs outside of TiDB

	"icehose/catalog"
)

// A mysqlReader plays the statements of a dump that make tables. The parser
// reads one element of a table at a time: what MySQL and MariaDB have around
// them (options, partitions, index kinds) is more than it knows.
type mysqlReader struct {
	file, text string
	engine     catalog.Engine
	parser     *parser.Parser
	schema     string
	tables     []*catalog.SourceTable
}

func readMySQL(name, text string, engine catalog.Engine) (*catalog.SourceSchema, error) {
	r := &mysqlReader{file: name, text: unfoldMySQL(text), engine: engine, parser: parser.New(), schema: bannerDatabase(text)}
	for _, span := range statements(r.text) {
		tokens := scanMySQL(r.text, span[0], span[1])
		if len(tokens) == 0 {
			continue
		}
		if err := r.statement(tokens); err != nil {
			if _, ok := errors.AsType[*Error](err); ok {
				return nil, err
			}
			return nil, &Error{File: name, Line: lineAt(r.text, tokens[0].start), Reason: err.Error()}
		}
	}
	s := &catalog.SourceSchema{
		Engine: engine, Words: engine, Tables: r.tables,
		Unknown: []catalog.Aspect{catalog.AspectZeroDates, catalog.AspectIdentity, catalog.AspectPartition},
	}
	for _, t := range s.Tables {
		t.MarkLOBs(engine)
		for _, k := range t.Key {
			if c := t.Column(k); c != nil {
				c.Nullable = false
			}
		}
	}
	return s, nil
}

// bannerDatabase reads the database from the first lines of a dump.
func bannerDatabase(text string) string {
	for line := range strings.Lines(text[:min(len(text), 4096)]) {
		if strings.HasPrefix(line, "--") {
			if _, name, ok := strings.Cut(line, "Database: "); ok {
				return strings.TrimSpace(name)
			}
		}
	}
	return ""
}

func (r *mysqlReader) words(tokens []token, words ...string) bool {
	for i, w := range words {
		if i >= len(tokens) || !tokens[i].is(r.text, w) {
			return false
		}
	}
	return true
}

func (r *mysqlReader) statement(tokens []token) error {
	switch {
	case r.words(tokens, "use") && len(tokens) > 1:
		r.schema = tokens[1].name(r.text)
	case r.words(tokens, "create", "table"):
		return r.createTable(tokens[2:])
	case r.words(tokens, "create", "or", "replace", "table"):
		return r.createTable(tokens[4:])
	case r.words(tokens, "alter", "table"):
		return r.alterTable(tokens[2:])
	case r.words(tokens, "drop", "table"):
		return r.dropTables(tokens[2:])
	}
	return nil
}

// tableName reads [IF [NOT] EXISTS] [schema.]name and returns what follows.
func (r *mysqlReader) tableName(tokens []token) (schema, name string, rest []token, err error) {
	for len(tokens) > 0 && (tokens[0].is(r.text, "if") || tokens[0].is(r.text, "not") || tokens[0].is(r.text, "exists")) {
		tokens = tokens[1:]
	}
	if len(tokens) == 0 || tokens[0].kind == 'p' {
		return "", "", nil, errors.New("want the name of a table")
	}
	schema, name, rest = r.schema, tokens[0].name(r.text), tokens[1:]
	if len(rest) > 1 && rest[0].of(r.text) == "." {
		schema, name, rest = name, rest[1].name(r.text), rest[2:]
	}
	if schema == "" {
		return "", "", nil, errors.New("the dump does not name its database: dump with --databases, or put USE name; before the first table")
	}
	return schema, name, rest, nil
}

func (r *mysqlReader) createTable(tokens []token) error {
	schema, name, rest, err := r.tableName(tokens)
	if err != nil {
		return err
	}
	t := &catalog.SourceTable{Schema: schema, Name: name, Line: lineAt(r.text, tokens[0].start)}
	if len(rest) == 0 || rest[0].of(r.text) != "(" || r.words(rest[1:], "like") {
		return fmt.Errorf("create table %s: want its columns in parentheses: dump the schema of a server that has it", t.FullName())
	}
	elements, after := r.elements(rest[1:])
	if after < 0 {
		return fmt.Errorf("create table %s: ( without )", t.FullName())
	}
	for _, e := range elements {
		if err := r.element(t, e, -1); err != nil {
			return r.at(e[0], fmt.Errorf("create table %s: %w", t.FullName(), err))
		}
	}
	options := rest[1+after:]
	for i := range options {
		if options[i].is(r.text, "partition") {
			break
		}
		if options[i].is(r.text, "comment") && i+2 < len(options) && options[i+1].of(r.text) == "=" {
			t.Comment = options[i+2].literal(r.text)
		}
	}
	r.tables = append(r.tables, t)
	return nil
}

func (r *mysqlReader) at(t token, err error) error {
	return &Error{File: r.file, Line: lineAt(r.text, t.start), Reason: err.Error()}
}

// elements cuts a list at its commas, up to the closing parenthesis; after is
// the index behind that, negative when there is none.
func (r *mysqlReader) elements(tokens []token) (elements [][]token, after int) {
	depth, start := 0, 0
	cut := func(i int) {
		if i > start {
			elements = append(elements, tokens[start:i])
		}
		start = i + 1
	}
	for i, t := range tokens {
		switch t.of(r.text) {
		case "(":
			depth++
		case ")":
			if depth--; depth < 0 {
				cut(i)
				return elements, i + 1
			}
		case ",":
			if depth == 0 {
				cut(i)
			}
		}
	}
	cut(len(tokens))
	return elements, -1
}

// element reads one column, or the primary key; other keys and checks are
// passed over. A column goes to position at, or to the end.
func (r *mysqlReader) element(t *catalog.SourceTable, e []token, at int) error {
	head := e
	if head[0].is(r.text, "constraint") {
		head = head[1:]
		if len(head) > 0 && !head[0].is(r.text, "primary") && !head[0].is(r.text, "check") {
			head = head[1:]
		}
	}
	if len(head) == 0 {
		return errors.New("constraint without a kind")
	}
	if head[0].kind == 'w' {
		switch strings.ToLower(head[0].of(r.text)) {
		case "primary":
			return r.primaryKey(t, head)
		case "key", "index", "unique", "fulltext", "spatial", "foreign", "check", "period", "vector":
			return nil
		}
	}
	return r.column(t, e, at)
}

// parse reads one element of a table.
func (r *mysqlReader) parse(element string) (*ast.CreateTableStmt, error) {
	stmt, err := r.parser.ParseOneStmt("CREATE TABLE t ("+element+")", "", "")
	if err != nil {
		return nil, errors.New("cannot be parsed: " + firstLine(err.Error()))
	}
	create, ok := stmt.(*ast.CreateTableStmt)
	if !ok {
		return nil, fmt.Errorf("parsed as %T", stmt)
	}
	return create, nil
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

func (r *mysqlReader) primaryKey(t *catalog.SourceTable, e []token) error {
	open := slices.IndexFunc(e, func(k token) bool { return k.of(r.text) == "(" })
	if open < 0 {
		return errors.New("primary key without columns")
	}
	parts, after := r.elements(e[open+1:])
	if after < 0 {
		return errors.New("primary key: ( without )")
	}
	create, err := r.parse("PRIMARY KEY " + r.text[e[open].start:e[open+after].end])
	if err != nil {
		return err
	}
	if len(create.Constraints) != 1 || len(create.Constraints[0].Keys) != len(parts) {
		return errors.New("primary key cannot be read")
	}
	t.Key = nil
	for _, k := range create.Constraints[0].Keys {
		if k.Column == nil {
			return errors.New("primary key over an expression")
		}
		t.Key = append(t.Key, columnCase(t, k.Column.Name.O))
	}
	return nil
}

// columnCase spells a column as its definition does: MySQL compares without case.
func columnCase(t *catalog.SourceTable, name string) string {
	for _, c := range t.Columns {
		if strings.EqualFold(c.Name, name) {
			return c.Name
		}
	}
	return name
}

func (r *mysqlReader) dropTables(tokens []token) error {
	elements, _ := r.elements(tokens)
	for _, e := range elements {
		schema, name, _, err := r.tableName(e)
		if err != nil {
			return nil //nolint:nilerr // dropping what has no database drops no table of ours
		}
		r.tables = slices.DeleteFunc(r.tables, func(t *catalog.SourceTable) bool { return t.Schema == schema && t.Name == name })
	}
	return nil
}
