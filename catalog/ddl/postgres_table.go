package ddl

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"

	"icehose/catalog"
)

func (r *postgresReader) createTable(s *pg.CreateStmt) error {
	name := r.qualified(s.GetRelation())
	if r.tables[name] != nil {
		if s.GetIfNotExists() {
			return nil
		}
		return fmt.Errorf("table %s is defined twice, first in line %d", name, r.tables[name].Line)
	}
	schema, _, _ := strings.Cut(name, ".")
	if persistence := s.GetRelation().GetRelpersistence(); persistence == "t" {
		return nil
	}
	t := &postgresTable{
		SourceTable: &catalog.SourceTable{
			Schema: schema, Name: s.GetRelation().GetRelname(), ReplicaIdentity: catalog.IdentityDefault,
			Line: lineAt(r.text, int(s.GetRelation().GetLocation())),
		},
		parent: s.GetPartspec() != nil, unlogged: s.GetRelation().GetRelpersistence() == "u",
	}
	if s.GetOfTypename() != nil {
		return fmt.Errorf("table %s OF a type: dump it from a server", name)
	}
	for _, n := range s.GetInhRelations() {
		parent := r.tables[r.qualified(n.GetRangeVar())]
		if parent == nil {
			return fmt.Errorf("table %s: its parent %s is not defined before it", name, r.qualified(n.GetRangeVar()))
		}
		for _, c := range parent.Columns {
			if t.Column(c.Name) == nil {
				own := *c
				own.Comment = ""
				t.Columns = append(t.Columns, &own)
			}
		}
		if s.GetPartbound() != nil {
			t.PartitionOf = parent.FullName()
		}
	}
	t.inherited = len(t.Columns)
	for _, n := range s.GetTableElts() {
		if err := r.tableElement(t, n); err != nil {
			return fmt.Errorf("table %s: %w", name, err)
		}
	}
	r.tables[name] = t
	r.order = append(r.order, t)
	return nil
}

func (r *postgresReader) tableElement(t *postgresTable, n *pg.Node) error {
	switch {
	case n.GetColumnDef() != nil:
		return r.addColumn(t, n.GetColumnDef())
	case n.GetConstraint() != nil:
		return r.tableConstraint(t, n.GetConstraint())
	case n.GetTableLikeClause() != nil:
		return errors.New("LIKE another table: dump it from a server")
	}
	return fmt.Errorf("an element of a kind that is not known: %T", n.GetNode())
}

func (r *postgresReader) tableConstraint(t *postgresTable, c *pg.Constraint) error {
	if c.GetContype() == pg.ConstrType_CONSTR_UNIQUE {
		t.uniqueConstraint(c)
	}
	if c.GetContype() != pg.ConstrType_CONSTR_PRIMARY {
		return nil
	}
	if c.GetIndexname() != "" {
		return fmt.Errorf("primary key of %s using an index: its columns are not in the statement", t.FullName())
	}
	t.Key, t.KeyDeferrable = texts(c.GetKeys()), c.GetDeferrable() || c.GetInitdeferred()
	t.addIndex(c.GetConname(), "pkey", slices.Clone(t.Key))
	return nil
}

func (r *postgresReader) addColumn(t *postgresTable, d *pg.ColumnDef) error {
	at := slices.IndexFunc(t.Columns, func(c *catalog.SourceColumn) bool { return c.Name == d.GetColname() })
	if at >= t.inherited {
		return fmt.Errorf("column %s is defined twice", d.GetColname())
	}
	c := &catalog.SourceColumn{Name: d.GetColname(), Nullable: true}
	def, err := r.columnType(c, d.GetTypeName())
	if err != nil {
		return fmt.Errorf("column %s: %w", c.Name, err)
	}
	if serial := serialBase(c.Declared); serial != "" {
		c.Declared, c.Nullable = serial, false
		c.Type = catalog.SourceType{Name: serial}
		def = fmt.Sprintf("nextval('%s.%s_%s_seq'::regclass)", t.Schema, t.Name, c.Name)
	}
	for i, n := range d.GetConstraints() {
		switch con := n.GetConstraint(); con.GetContype() { //nolint:exhaustive // only these change what a column is
		case pg.ConstrType_CONSTR_NOTNULL:
			c.Nullable = false
		case pg.ConstrType_CONSTR_DEFAULT:
			def = r.expression(int(con.GetLocation()))
		case pg.ConstrType_CONSTR_IDENTITY:
			c.Generated, c.Nullable = catalog.GeneratedIdentity, false
		case pg.ConstrType_CONSTR_GENERATED:
			c.Generated = catalog.GeneratedStored
		case pg.ConstrType_CONSTR_PRIMARY:
			t.Key = []string{c.Name}
			t.addIndex(con.GetConname(), "pkey", []string{c.Name})
		case pg.ConstrType_CONSTR_UNIQUE:
			t.addIndex(con.GetConname(), "key", []string{c.Name})
		case pg.ConstrType_CONSTR_ATTR_DEFERRABLE, pg.ConstrType_CONSTR_ATTR_DEFERRED: // of the one before it
			t.KeyDeferrable = t.KeyDeferrable || i > 0 && d.GetConstraints()[i-1].GetConstraint().GetContype() == pg.ConstrType_CONSTR_PRIMARY
		}
	}
	if !c.Generated.Computed() {
		c.Default = catalog.LiteralDefault(def)
	}
	if strings.EqualFold(d.GetStorageName(), "plain") {
		t.plain = append(t.plain, c.Name)
	}
	if at < 0 {
		t.Columns = append(t.Columns, c)
	} else { // merged with the parent's, in its place
		t.Columns[at] = c
	}
	return nil
}

// columnType sets the column's type, and what a domain says of it. The result
// is the domain's default.
func (r *postgresReader) columnType(c *catalog.SourceColumn, n *pg.TypeName) (def string, err error) {
	spelled, class, err := r.typeName(n)
	if err != nil {
		return "", err
	}
	c.Declared = spelled
	for class == catalog.ClassDomain {
		d, ok := r.types[spelled]
		if !ok { // an array of a domain
			break
		}
		spelled, class = d.base, d.inner
		c.Nullable = c.Nullable && !d.notNull
		if def == "" {
			def = d.def
		}
	}
	if c.Type, err = catalog.ParseSourceType(spelled); err != nil {
		return "", err
	}
	c.Type.Class = class
	return def, nil
}

// sqlNames are the names that format_type has for types of another name inside.
var sqlNames = map[string]string{ //nolint:gochecknoglobals // constant table
	"int2": "smallint", "int4": "integer", "int8": "bigint", "float4": "real", "float8": "double precision", "bool": "boolean",
	"varchar": "character varying", "varbit": "bit varying", "timestamp": "timestamp without time zone",
	"timestamptz": "timestamp with time zone", "time": "time without time zone", "timetz": "time with time zone", "char": `"char"`,
}

func serialBase(name string) string {
	switch name {
	case "smallserial", "serial2":
		return "smallint"
	case "serial", "serial4":
		return "integer"
	case "bigserial", "serial8":
		return "bigint"
	}
	return ""
}

// typeName spells a type as format_type does without a search path, and tells
// its class.
func (r *postgresReader) typeName(n *pg.TypeName) (string, catalog.TypeClass, error) {
	names := texts(n.GetNames())
	name := names[len(names)-1]
	builtin := len(names) == 2 && names[0] == "pg_catalog"
	t := catalog.SourceType{Array: len(n.GetArrayBounds()) > 0}
	words, err := r.modifiers(n, &t)
	if err != nil {
		return "", "", err
	}
	if sql, ok := sqlNames[name]; ok && (builtin || len(names) == 1) {
		name, builtin = sql, true
	}
	if name == "bpchar" && len(t.Params) > 0 {
		name = "character"
	}
	if len(names) == 1 && (builtin || catalog.IsPostgresType(name) || serialBase(name) != "") && r.types[r.schema+"."+name] == (userType{}) {
		builtin = true
	}
	if builtin {
		t.Name = name + words
		return t.String(), "", nil
	}
	full := r.nameOf(n.GetNames())
	class := catalog.ClassOther
	if user, ok := r.types[full]; ok {
		class = user.class
	} else if r.tables[full] != nil {
		class = catalog.ClassComposite // every table is a type
	}
	parts := strings.SplitN(full, ".", 2)
	t.Name = quoteIdentifier(parts[0]) + "." + quoteIdentifier(parts[1]) + words
	return t.String(), class, nil
}

// modifiers reads what stands in parentheses: numbers into t, the fields of an
// interval and the words of an extension's type into the result.
func (r *postgresReader) modifiers(n *pg.TypeName, t *catalog.SourceType) (words string, err error) {
	names := texts(n.GetNames())
	var params []string
	for _, m := range n.GetTypmods() {
		switch {
		case m.GetAConst() != nil && m.GetAConst().GetSval() == nil && m.GetAConst().GetFval() == nil:
			i := int(m.GetAConst().GetIval().GetIval())
			t.Params, params = append(t.Params, i), append(params, strconv.Itoa(i))
		case m.GetColumnRef() != nil:
			params = append(params, strings.Join(texts(m.GetColumnRef().GetFields()), "."))
		default:
			return "", fmt.Errorf("type %s: a parameter that is neither a number nor a name", strings.Join(names, "."))
		}
	}
	if len(params) != len(t.Params) {
		t.Params = nil
		return "(" + strings.Join(params, ",") + ")", nil
	}
	if names[len(names)-1] == "interval" && len(t.Params) > 0 {
		words = intervalFields(t.Params[0])
		t.Params = t.Params[1:]
	}
	return words, nil
}

// intervalFields spells the mask of an interval's fields.
func intervalFields(mask int) string {
	const month, year, day, hour, minute, second = 1 << 1, 1 << 2, 1 << 3, 1 << 10, 1 << 11, 1 << 12
	fields := []struct {
		bit  int
		name string
	}{{year, "year"}, {month, "month"}, {day, "day"}, {hour, "hour"}, {minute, "minute"}, {second, "second"}}
	var first, last string
	for _, f := range fields {
		if mask&f.bit == 0 {
			continue
		}
		if first == "" {
			first = f.name
		}
		last = f.name
	}
	switch {
	case mask == 0x7fff || first == "":
		return ""
	case first == last:
		return " " + first
	}
	return " " + first + " to " + last
}

func quoteIdentifier(s string) string {
	for i, c := range s {
		if c != '_' && (c < 'a' || c > 'z') && (i == 0 || c < '0' || c > '9') {
			return `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
		}
	}
	return s
}

// expression returns the text behind the word DEFAULT at the offset, up to the
// next element of the column, the next element of the list or the end.
func (r *postgresReader) expression(at int) string {
	i := r.tokenAt(at)
	if i < len(r.tokens) && r.tokens[i].GetToken() == pg.Token_DEFAULT {
		i++
	}
	if i >= len(r.tokens) {
		return ""
	}
	start, end, depth := int(r.tokens[i].GetStart()), 0, 0
	for first := i; i < len(r.tokens); i++ {
		t := r.tokens[i]
		switch t.GetToken() { //nolint:exhaustive // every other token is part of the expression
		case pg.Token_ASCII_40, pg.Token_ASCII_91:
			depth++
		case pg.Token_ASCII_41, pg.Token_ASCII_93:
			depth--
		}
		if depth < 0 || depth == 0 && i > first && endsExpression(t.GetToken()) {
			break
		}
		end = int(t.GetEnd())
	}
	return r.text[start:max(start, end)]
}

func endsExpression(t pg.Token) bool {
	switch t { //nolint:exhaustive // every other token is part of the expression
	case pg.Token_ASCII_44, pg.Token_ASCII_59, pg.Token_NOT, pg.Token_NULL_P, pg.Token_CONSTRAINT, pg.Token_PRIMARY, pg.Token_UNIQUE,
		pg.Token_CHECK, pg.Token_REFERENCES, pg.Token_GENERATED, pg.Token_COLLATE, pg.Token_DEFERRABLE:
		return true
	}
	return false
}
