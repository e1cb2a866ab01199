package ddl

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/parser/types"

	"icehose/catalog"
)

// foreignTypes are types that the parser does not know.
var foreignTypes = [...]string{ //nolint:gochecknoglobals // constant table
	"geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection", "geomcollection",
	"uuid", "inet4", "inet6", "xmltype",
}

// column reads the definition of a column, which goes to position at of the
// table, or to the end.
func (r *mysqlReader) column(t *catalog.SourceTable, e []token, at int) error {
	c := &catalog.SourceColumn{Name: e[0].name(r.text), Nullable: true}
	if len(e) < 2 {
		return fmt.Errorf("column %s has no type", c.Name)
	}
	text, foreign := r.known(e)
	create, err := r.parse(text)
	if err != nil {
		return fmt.Errorf("column %s %w", c.Name, err)
	}
	if len(create.Cols) != 1 {
		return errors.New("want one column")
	}
	def := create.Cols[0]
	switch {
	case foreign != "":
		c.Declared = foreign
		c.Type = catalog.SourceType{Name: foreign}
	default:
		if c.Declared, err = spell(def.Tp); err != nil {
			return fmt.Errorf("column %s: %w", c.Name, err)
		}
		if c.Type, err = catalog.ParseSourceType(c.Declared); err != nil {
			return fmt.Errorf("column %s: %w", c.Name, err)
		}
	}
	for _, o := range def.Options {
		switch o.Tp { //nolint:exhaustive // the others change nothing that a column is
		case ast.ColumnOptionNotNull:
			c.Nullable = false
		case ast.ColumnOptionAutoIncrement:
			c.Generated, c.Nullable = catalog.GeneratedIdentity, false
		case ast.ColumnOptionGenerated:
			c.Generated = catalog.GeneratedVirtual
			if o.Stored {
				c.Generated = catalog.GeneratedStored
			}
		case ast.ColumnOptionPrimaryKey:
			t.Key = []string{c.Name}
		}
	}
	r.attributes(c, e)
	c.ZeroDates = c.Default != nil && strings.HasPrefix(c.Default.Text, "0000-00-00")
	if at < 0 {
		at = len(t.Columns)
	}
	t.Columns = slices.Insert(t.Columns, at, c)
	return nil
}

// known returns the element with what the parser does not know replaced or
// blanked, and the type that was replaced.
func (r *mysqlReader) known(e []token) (text, foreign string) {
	base := e[0].start
	out := []byte(r.text[base:e[len(e)-1].end])
	blank := func(from, to token) {
		for i := from.start - base; i < to.end-base; i++ {
			out[i] = ' '
		}
	}
	if name := strings.ToLower(e[1].of(r.text)); e[1].kind == 'w' && slices.Contains(foreignTypes[:], name) {
		foreign = name
		blank(e[1], e[1])
		copy(out[e[1].start-base:], "blob")
	}
	for i := 2; i < len(e); i++ {
		switch {
		case e[i].is(r.text, "srid") && i+1 < len(e):
			blank(e[i], e[i+1])
		case e[i].is(r.text, "ref_system_id") && i+2 < len(e):
			blank(e[i], e[i+2])
		case e[i].is(r.text, "invisible"), e[i].is(r.text, "visible"), e[i].is(r.text, "compressed"):
			blank(e[i], e[i])
		case r.words(e[i:], "without", "system", "versioning"), r.words(e[i:], "with", "system", "versioning"):
			blank(e[i], e[i+2])
		case foreign != "" && e[i].is(r.text, "default") && i+1 < len(e):
			blank(e[i], e[r.expressionEnd(e, i+1)-1]) // a blob has none
		}
	}
	return string(out), foreign
}

// attributes reads the default and the comment from the element's own text:
// the tree spells expressions differently.
func (r *mysqlReader) attributes(c *catalog.SourceColumn, e []token) {
	depth := 0
	for i := 1; i < len(e); i++ {
		switch e[i].of(r.text) {
		case "(":
			depth++
		case ")":
			depth--
		}
		if depth > 0 {
			continue
		}
		switch {
		case e[i].is(r.text, "default") && i+1 < len(e):
			end := r.expressionEnd(e, i+1)
			if end == i+2 && e[i+1].kind == '\'' {
				c.Default = &catalog.SourceDefault{Text: e[i+1].literal(r.text)}
				continue
			}
			c.Default = catalog.LiteralDefault(r.text[e[i+1].start:e[end-1].end])
		case e[i].is(r.text, "comment") && i+1 < len(e) && e[i+1].kind == '\'':
			c.Comment = e[i+1].literal(r.text)
		}
	}
}

// expressionEnd returns the index behind the expression that begins at from.
func (r *mysqlReader) expressionEnd(e []token, from int) int {
	depth := 0
	for i := from; i < len(e); i++ {
		switch word := strings.ToLower(e[i].of(r.text)); {
		case word == "(":
			depth++
		case word == ")":
			depth--
		case depth == 0 && i > from && e[i].kind == 'w' && slices.Contains([]string{
			"not", "null", "on", "comment", "auto_increment", "check", "collate", "primary", "unique", "key", "generated", "references",
			"visible", "invisible", "column_format", "storage", "constraint",
		}, word):
			return i
		}
	}
	return len(e)
}

// spell writes a type as COLUMN_TYPE of the information schema does.
func spell(ft *types.FieldType) (string, error) {
	t := catalog.SourceType{Name: types.TypeToStr(ft.GetType(), ft.GetCharset())}
	flen, scale := ft.GetFlen(), ft.GetDecimal()
	switch ft.GetType() {
	case mysql.TypeEnum, mysql.TypeSet:
		t.Members = ft.GetElems()
	case mysql.TypeTimestamp, mysql.TypeDatetime, mysql.TypeDuration:
		if scale > 0 {
			t.Params = []int{scale}
		}
	case mysql.TypeNewDecimal:
		if flen == types.UnspecifiedLength {
			flen = 10
		}
		t.Params = []int{flen, max(scale, 0)}
	case mysql.TypeFloat, mysql.TypeDouble:
		if flen != types.UnspecifiedLength && scale != types.UnspecifiedLength {
			t.Params = []int{flen, scale}
		}
	case mysql.TypeTiny, mysql.TypeShort, mysql.TypeInt24, mysql.TypeLong, mysql.TypeLonglong, mysql.TypeBit, mysql.TypeYear,
		mysql.TypeVarchar, mysql.TypeVarString, mysql.TypeString, mysql.TypeTiDBVectorFloat32:
		if flen != types.UnspecifiedLength {
			t.Params = []int{flen}
		}
	case mysql.TypeDate, mysql.TypeNewDate, mysql.TypeJSON, mysql.TypeTinyBlob, mysql.TypeMediumBlob, mysql.TypeLongBlob, mysql.TypeBlob:
	default:
		return "", fmt.Errorf("type %s is not one of MySQL", t.Name)
	}
	text := t.String()
	if mysql.HasUnsignedFlag(ft.GetFlag()) && ft.GetType() != mysql.TypeBit && ft.GetType() != mysql.TypeYear {
		text += " unsigned"
	}
	if mysql.HasZerofillFlag(ft.GetFlag()) && ft.GetType() != mysql.TypeYear {
		text += " zerofill"
	}
	return text, nil
}
