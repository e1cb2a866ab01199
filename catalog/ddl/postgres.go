package ddl

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
	pgquery "github.com/wasilibs/go-pgquery"
	"github.com/wasilibs/go-pgquery/parser"

	"icehose/catalog"
)

// A postgresReader plays the statements of a dump that make tables.
type postgresReader struct {
	file, text string
	tokens     []*pg.ScanToken
	cursor     int    // token at which the search for a SET DEFAULT begins
	schema     string // of names without one
	types      map[string]userType
	tables     map[string]*postgresTable // by schema.name
	order      []*postgresTable
}

// A userType is what CREATE TYPE or CREATE DOMAIN made.
type userType struct {
	class   catalog.TypeClass
	base    string // of a domain, spelled
	inner   catalog.TypeClass
	notNull bool
	def     string
}

// A postgresTable is a table in the making.
type postgresTable struct {
	*catalog.SourceTable
	parent   bool // of partitions: it has no rows of its own
	unlogged bool
	plain    []string            // columns with storage PLAIN
	indexes  map[string][]string // columns of the unique ones, by name
	// identityIndex is the name of the one that is the replica identity.
	identityIndex string
	// inherited is how many of its first columns are its parents'.
	inherited int
}

func readPostgres(name, text string) (*catalog.SourceSchema, error) {
	r := &postgresReader{
		file: name, text: blankMeta(text), schema: "public",
		types: make(map[string]userType), tables: make(map[string]*postgresTable),
	}
	tree, err := pgquery.Parse(r.text)
	if err != nil {
		return nil, r.syntaxError(err)
	}
	scan, err := pgquery.Scan(r.text)
	if err != nil {
		return nil, r.syntaxError(err)
	}
	for _, t := range scan.GetTokens() {
		if t.GetToken() != pg.Token_SQL_COMMENT && t.GetToken() != pg.Token_C_COMMENT {
			r.tokens = append(r.tokens, t)
		}
	}
	for _, raw := range tree.GetStmts() {
		r.cursor = r.tokenAt(int(raw.GetStmtLocation()))
		start := r.cursor
		if err := r.statement(raw.GetStmt()); err != nil {
			return nil, &Error{File: name, Line: r.lineOfToken(start), Reason: err.Error()}
		}
	}
	s := &catalog.SourceSchema{Engine: catalog.PostgreSQL, Words: catalog.PostgreSQL, Unknown: []catalog.Aspect{catalog.AspectZeroDates}}
	for _, t := range r.order {
		if t.parent || t.unlogged {
			why := catalog.LeftOutParent
			if !t.parent {
				why = catalog.LeftOutUnlogged
			}
			s.LeftOut = append(s.LeftOut, catalog.LeftOut{Schema: t.Schema, Name: t.Name, Why: why})
			continue
		}
		if t.PartitionOf != "" && len(t.Key) == 0 {
			if parent := r.tables[t.PartitionOf]; parent != nil {
				t.Key, t.KeyDeferrable = parent.Key, parent.KeyDeferrable
			}
		}
		for _, k := range t.Key {
			if c := t.Column(k); c != nil {
				c.Nullable = false
			}
		}
		if t.NeedsToast(t.plain) {
			t.MarkOutOfLine(t.plain)
		}
		s.Tables = append(s.Tables, t.SourceTable)
	}
	return s, nil
}

// lineOfToken returns the line of a token. A statement's own offset counts the
// comments before it.
func (r *postgresReader) lineOfToken(i int) int {
	if i >= len(r.tokens) {
		return lineAt(r.text, len(r.text))
	}
	return lineAt(r.text, int(r.tokens[i].GetStart()))
}

func (r *postgresReader) tokenAt(offset int) int {
	i, _ := slices.BinarySearchFunc(r.tokens, offset, func(t *pg.ScanToken, at int) int { return int(t.GetStart()) - at })
	return i
}

func (r *postgresReader) syntaxError(err error) error {
	out := &Error{File: r.file, Line: 1, Reason: err.Error()}
	if at, ok := errors.AsType[*parser.Error](err); ok {
		out.Reason = at.Message
		for offset := range r.text { // the position counts characters
			if at.Cursorpos--; at.Cursorpos <= 0 {
				out.Line = lineAt(r.text, offset)
				break
			}
		}
	}
	return out
}

// blankMeta blanks what psql reads but the server does not: its own commands,
// and the rows behind COPY FROM stdin. Line numbers stay.
func blankMeta(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	rows := false
	for line := range strings.Lines(text) {
		switch {
		case rows:
			rows = strings.TrimRight(line, "\r\n") != `\.`
			b.WriteByte('\n')
			continue
		case strings.HasPrefix(line, "COPY ") && strings.HasSuffix(strings.TrimRight(line, "\r\n"), "FROM stdin;"):
			rows = true
			b.WriteByte('\n')
			continue
		case strings.HasPrefix(line, `\restrict `), strings.HasPrefix(line, `\unrestrict `), strings.HasPrefix(line, `\connect `), strings.HasPrefix(line, `\c `):
			b.WriteByte('\n')
			continue
		}
		b.WriteString(line)
	}
	return b.String()
}

func (r *postgresReader) statement(n *pg.Node) error {
	switch {
	case n.GetCreateStmt() != nil:
		return r.createTable(n.GetCreateStmt())
	case n.GetIndexStmt() != nil:
		r.createIndex(n.GetIndexStmt())
	case n.GetAlterTableStmt() != nil:
		return r.alterTable(n.GetAlterTableStmt())
	case n.GetVariableSetStmt() != nil:
		r.setSearchPath(n.GetVariableSetStmt())
	case n.GetCreateEnumStmt() != nil:
		r.types[r.nameOf(n.GetCreateEnumStmt().GetTypeName())] = userType{class: catalog.ClassEnum}
	case n.GetCompositeTypeStmt() != nil:
		r.types[r.qualified(n.GetCompositeTypeStmt().GetTypevar())] = userType{class: catalog.ClassComposite}
	case n.GetCreateRangeStmt() != nil:
		r.createRange(n.GetCreateRangeStmt())
	case n.GetCreateDomainStmt() != nil:
		return r.createDomain(n.GetCreateDomainStmt())
	case n.GetCommentStmt() != nil:
		r.comment(n.GetCommentStmt())
	case n.GetRenameStmt() != nil:
		return r.rename(n.GetRenameStmt())
	case n.GetDropStmt() != nil:
		r.drop(n.GetDropStmt())
	case n.GetCreateTableAsStmt() != nil && n.GetCreateTableAsStmt().GetObjtype() == pg.ObjectType_OBJECT_TABLE:
		return errors.New("CREATE TABLE AS: its columns cannot be known from the text: dump the schema of a server that has run it")
	}
	return nil
}

func (r *postgresReader) setSearchPath(v *pg.VariableSetStmt) {
	if v.GetName() != "search_path" {
		return
	}
	for _, arg := range v.GetArgs() {
		if name := arg.GetAConst().GetSval().GetSval(); name != "" && name != "pg_catalog" && !strings.HasPrefix(name, "$") {
			r.schema = name
			return
		}
	}
}

func (r *postgresReader) qualified(v *pg.RangeVar) string {
	if v.GetSchemaname() == "" {
		return r.schema + "." + v.GetRelname()
	}
	return v.GetSchemaname() + "." + v.GetRelname()
}

func (r *postgresReader) nameOf(names []*pg.Node) string {
	parts := texts(names)
	if len(parts) == 1 {
		return r.schema + "." + parts[0]
	}
	return strings.Join(parts, ".")
}

func texts(nodes []*pg.Node) []string {
	out := make([]string, len(nodes))
	for i, n := range nodes {
		out[i] = n.GetString_().GetSval()
	}
	return out
}

func (r *postgresReader) createRange(s *pg.CreateRangeStmt) {
	name := r.nameOf(s.GetTypeName())
	r.types[name] = userType{class: catalog.ClassRange}
	multi := strings.Replace(name, "range", "multirange", 1)
	for _, p := range s.GetParams() {
		if d := p.GetDefElem(); d.GetDefname() == "multirange_type_name" {
			multi = r.nameOf(d.GetArg().GetTypeName().GetNames())
		}
	}
	r.types[multi] = userType{class: catalog.ClassRange}
}

func (r *postgresReader) createDomain(s *pg.CreateDomainStmt) error {
	spelled, class, err := r.typeName(s.GetTypeName())
	if err != nil {
		return err
	}
	t := userType{class: catalog.ClassDomain, base: spelled, inner: class}
	for _, n := range s.GetConstraints() {
		switch c := n.GetConstraint(); c.GetContype() { //nolint:exhaustive // only these two change what a column is
		case pg.ConstrType_CONSTR_NOTNULL:
			t.notNull = true
		case pg.ConstrType_CONSTR_DEFAULT:
			t.def = r.expression(int(c.GetLocation()))
		}
	}
	r.types[r.nameOf(s.GetDomainname())] = t
	return nil
}

func (r *postgresReader) comment(s *pg.CommentStmt) {
	names := texts(s.GetObject().GetList().GetItems())
	switch s.GetObjtype() { //nolint:exhaustive // comments on other objects say nothing of tables
	case pg.ObjectType_OBJECT_TABLE:
		if t := r.tables[r.nameOf(s.GetObject().GetList().GetItems())]; t != nil {
			t.Comment = s.GetComment()
		}
	case pg.ObjectType_OBJECT_COLUMN:
		if len(names) < 2 {
			return
		}
		items := s.GetObject().GetList().GetItems()
		if t := r.tables[r.nameOf(items[:len(items)-1])]; t != nil {
			if c := t.Column(names[len(names)-1]); c != nil {
				c.Comment = s.GetComment()
			}
		}
	}
}

func (r *postgresReader) rename(s *pg.RenameStmt) error {
	t := r.tables[r.qualified(s.GetRelation())]
	if t == nil {
		return nil
	}
	switch s.GetRenameType() { //nolint:exhaustive // other renames change no table
	case pg.ObjectType_OBJECT_TABLE:
		delete(r.tables, t.FullName())
		t.Name = s.GetNewname()
		r.tables[t.FullName()] = t
	case pg.ObjectType_OBJECT_COLUMN:
		c := t.Column(s.GetSubname())
		if c == nil {
			return fmt.Errorf("rename column %s.%s: no such column", t.FullName(), s.GetSubname())
		}
		c.Name = s.GetNewname()
		t.renameIndexed(s.GetSubname(), s.GetNewname())
		for i, k := range t.Key {
			if k == s.GetSubname() {
				t.Key[i] = s.GetNewname()
			}
		}
	}
	return nil
}

func (r *postgresReader) drop(s *pg.DropStmt) {
	if s.GetRemoveType() == pg.ObjectType_OBJECT_INDEX {
		r.dropIndexes(s)
	}
	if s.GetRemoveType() != pg.ObjectType_OBJECT_TABLE {
		return
	}
	for _, o := range s.GetObjects() {
		name := r.nameOf(o.GetList().GetItems())
		if t := r.tables[name]; t != nil {
			delete(r.tables, name)
			r.order = slices.DeleteFunc(r.order, func(other *postgresTable) bool { return other == t })
		}
	}
}
