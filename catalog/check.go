package catalog

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"icehose/cdc"
)

// lakeName is what Firehose, Glue and every engine take as a name unquoted.
var lakeName = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)

// A checker validates a decoded file, fills in defaults and indexes, and
// collects every error with its place.
type checker struct {
	file string
	tree *ast.File
	errs []error
}

func (c *checker) fail(field, value, reason string, args ...any) {
	c.errs = append(c.errs, &FileError{
		File: c.file, Line: lineOf(c.tree, field), Field: field, Value: value, Reason: fmt.Sprintf(reason, args...),
	})
}

// oneOf checks a word against its closed list. An empty one becomes the
// default, if there is a default.
func oneOf[T ~string](c *checker, field string, got *T, def T, words ...T) {
	if *got == "" && def != "" {
		*got = def
		return
	}
	if !slices.Contains(words, *got) {
		list := make([]string, len(words))
		for i, w := range words {
			list[i] = string(w)
		}
		c.fail(field, string(*got), "want %s", strings.Join(list, ", "))
	}
}

func (c *checker) pipeline(p *Pipeline) {
	if p.Version != 1 {
		c.fail("version", fmt.Sprint(p.Version), "want 1, the only version of the file format")
	}
	if !lakeName.MatchString(p.Database) {
		c.fail("database", p.Database, "want a lower-case name of letters, digits and underscores")
	}
	if ReservedTable(p.Database) {
		c.fail("database", p.Database, "a reserved word, and Athena's OPTIMIZE and VACUUM take no quotes: want another name")
	}
	c.source(&p.Source)
	oneOf(c, "on_unknown_table", &p.OnUnknownTable, UnknownFail, UnknownFail, UnknownDrop)
	oneOf(c, "names", &p.Names, NamesExact, NamesExact, NamesFold)
	c.readers("readers", p.Readers)
	c.patterns("include", p.Include)
	c.patterns("exclude", p.Exclude)
	c.checkRoutes(p)
	for i, e := range p.Epochs {
		if i > 0 && (e.Epoch <= p.Epochs[i-1].Epoch || !e.Since.After(p.Epochs[i-1].Since)) {
			c.fail(fmt.Sprintf("epochs[%d]", i), "", "epochs and their since must both rise")
		}
	}
	if len(p.Tables) == 0 {
		c.fail("tables", "", "want at least one table")
	}
	c.tables(p)
	c.checkUse(p)
}

// patterns checks a list of patterns of source tables.
func (c *checker) patterns(field string, list []string) {
	for i, e := range list {
		if err := CheckPattern(e); err != nil {
			c.fail(fmt.Sprintf("%s[%d]", field, i), e, "%v", err)
		}
	}
}

func (c *checker) tables(p *Pipeline) {
	p.bySource, p.byTarget = make(map[string]int), make(map[string]int)
	for i, t := range p.Tables {
		field := fmt.Sprintf("tables[%d]", i)
		if t == nil {
			c.fail(field, "", "want a table")
			continue
		}
		c.table(p, field, t)
		if j, ok := p.bySource[p.fold(t.Source)]; ok {
			c.fail(field+".source", t.Source, "already described by tables[%d]", j)
		}
		p.bySource[p.fold(t.Source)] = i
		if len(p.Include) > 0 && !slices.ContainsFunc(p.Include, func(e string) bool { _, ok := match(p.fold(e), p.fold(t.Source)); return ok }) {
			c.fail(field+".source", t.Source, "include: leaves it out, so it would never flow")
		}
		target := t.database + "." + t.name
		if j, ok := p.byTarget[target]; ok {
			c.fail(field+c.targetField(t), target, "already the target of tables[%d]", j)
		}
		p.byTarget[target] = i
	}
	c.currentTables(p)
}

// targetField is the field that a table's target comes from.
func (c *checker) targetField(t *Table) string {
	if t.Target == "" {
		return ".source"
	}
	return ".target"
}

func (c *checker) source(s *Source) {
	oneOf(c, "source.engine", &s.Engine, "", PostgreSQL, MySQL, MariaDB, Oracle, SQLServer)
	oneOf(c, "source.nulls", &s.Nulls, NullsOmitted, NullsIncluded, NullsOmitted)
	oneOf(c, "source.unchanged", &s.Unchanged, UnchangedAbsent, UnchangedNever, UnchangedAbsent, UnchangedNull)
	switch s.BeforeImage {
	case "":
		s.BeforeImage = "before-image"
	case "data", "metadata", "control":
		c.fail("source.before_image", s.BeforeImage, "want the name of a field that is not already a part of every record")
	}
	kind, err := cdc.ParsePositionKind(s.PositionText)
	if err != nil {
		c.fail("source.position", s.PositionText, "want postgres, mysql, sqlserver, oracle, column:NAME or none")
	}
	s.Position = kind
}

func (c *checker) table(p *Pipeline, field string, t *Table) {
	schema, name, ok := strings.Cut(t.Source, ".")
	if !ok || schema == "" || name == "" {
		c.fail(field+".source", t.Source, "want schema.table")
	}
	t.database, t.name = p.Database, strings.ToLower(name)
	target := t.Target
	if target == "" {
		target, t.route = p.routed(t.Source)
	}
	if target != "" {
		if database, table, two := strings.Cut(target, "."); two {
			t.database, t.name = database, table
		} else {
			t.name = target
		}
	}
	if !lakeName.MatchString(t.database) || !lakeName.MatchString(t.name) {
		reason := "want lower-case names of letters, digits and underscores"
		if t.route > 0 {
			reason += fmt.Sprintf("; routes[%d] made this: give the table a target:", t.route-1)
		}
		c.fail(field+c.targetField(t), t.database+"."+t.name, "%s", reason)
	}
	for _, part := range []string{t.database, t.name} {
		if ReservedTable(part) && part != p.Database {
			c.fail(field+c.targetField(t), part, "a reserved word, and Athena's OPTIMIZE and VACUUM take no quotes: give %s another target:", t.Source)
		}
	}
	oneOf(c, field+".mode", &t.Mode, "", Mirror, Changelog)
	oneOf(c, field+".on_load", &t.OnLoad, LoadInsert, LoadInsert, LoadUpsert)
	oneOf(c, field+".on_insert", &t.OnInsert, InsertUpdate, InsertUpdate, InsertInsert)
	oneOf(c, field+".nulls", &t.Nulls, p.Source.Nulls, NullsIncluded, NullsOmitted)
	oneOf(c, field+".unchanged", &t.Unchanged, p.Source.Unchanged, UnchangedNever, UnchangedAbsent, UnchangedNull)
	c.position(p, field, t)
	c.loads(field, t)
	c.columns(field, t)
	c.key(field, t)
	for i, col := range t.Columns {
		if col != nil { // said already
			c.defaultOf(fmt.Sprintf("%s.columns[%d]", field, i), t, col)
		}
	}
	if c.readers(field+".readers", t.Readers); len(t.Readers) == 0 {
		t.Readers = p.Readers
	}
	if !slices.Contains(t.Columns, nil) { // said already
		c.partition(field, t)
	}
}

func (c *checker) position(p *Pipeline, field string, t *Table) {
	t.Position = p.Source.Position
	if t.PositionText != "" {
		kind, err := cdc.ParsePositionKind(t.PositionText)
		if err != nil {
			c.fail(field+".position", t.PositionText, "want postgres, mysql, sqlserver, oracle, column:NAME or none")
		}
		t.Position = kind
	}
	if t.Position.Source == cdc.SourceNone && t.Mode == Mirror && len(t.Key) > 0 {
		c.fail(field+".position", t.Position.String(),
			"a mirror with a key needs a position: without one an old change can win; use mode changelog or declare one")
	}
}

func (c *checker) loads(field string, t *Table) {
	for i := range t.Loads {
		l := &t.Loads[i]
		place := fmt.Sprintf("%s.loads[%d]", field, i)
		floor, err := cdc.ParseBody(string(l.FloorText))
		if err != nil {
			c.fail(place+".floor", string(l.FloorText), "want the 32 hexadecimal digits that icehose resync start wrote")
		}
		l.Floor = floor
		if i > 0 && !l.Since.After(t.Loads[i-1].Since) {
			c.fail(place+".since", "", "want a time after the load before it")
		}
		if i > 0 && floor.Compare(t.Loads[i-1].Floor) < 0 {
			c.fail(place+".floor", string(l.FloorText), "want a floor that is not below the load before it")
		}
	}
}

func (c *checker) columns(field string, t *Table) {
	if len(t.Columns) == 0 {
		c.fail(field+".columns", "", "want at least one column")
	}
	seen, sources := make(map[string]int), make(map[string]int)
	for i, col := range t.Columns {
		place := fmt.Sprintf("%s.columns[%d]", field, i)
		if col == nil {
			c.fail(place, "", "want a column")
			continue
		}
		if !lakeName.MatchString(col.Name) {
			c.fail(place+".name", col.Name, "want a lower-case name of letters, digits and underscores")
		}
		if strings.HasPrefix(col.Name, "cdc_") {
			c.fail(place+".name", col.Name, "names that begin with cdc_ are for metadata columns; rename it with source: and name:")
		}
		if ReservedColumn(col.Name) && !col.Exclude {
			c.fail(place+".name", col.Name, "Iceberg adds a column of this name to every table, and Spark could not read %s: rename it with source: and name:, or exclude it", t.Source)
		}
		if j, ok := seen[col.Name]; ok {
			c.fail(place+".name", col.Name, "already the name of columns[%d]", j)
		}
		seen[col.Name] = i
		if j, ok := sources[col.Source]; ok && col.Source != "" {
			c.fail(place+".source", col.Source, "columns[%d] has this source too: two columns cannot share one", j)
		}
		sources[col.Source] = i
		typ, err := ParseType(col.TypeText)
		if err != nil {
			c.fail(place+".type", col.TypeText, "%s", strings.TrimPrefix(err.Error(), "parse type: "))
		}
		col.Type = typ
		if col.Mask != "" {
			oneOf(c, place+".mask", &col.Mask, "", MaskSHA256, MaskNull)
		}
		for j := range col.AllowLossy {
			allowed := fmt.Sprintf("%s.allow_lossy[%d]", place, j)
			oneOf(c, allowed, &col.AllowLossy[j], "", LossRound, LossNull, LossInvalid)
			if types := lossTypes(col.AllowLossy[j]); err == nil && types != nil && !slices.Contains(types, typ.Kind) {
				c.fail(allowed, string(col.AllowLossy[j]), "a %s never loses a value this way, only %s can: remove it", typ, kindList(types))
			}
		}
		for j := range col.Loses {
			oneOf(c, fmt.Sprintf("%s.loses[%d]", place, j), &col.Loses[j], "", LossRound, LossNull, LossInvalid)
		}
	}
	c.renames(field, t)
}

// lossTypes returns the types that have values to lose in a way; nil for a way
// that does not exist.
func lossTypes(l Loss) []TypeKind {
	switch l {
	case LossRound:
		return []TypeKind{Float, Decimal, Time, Timestamp, TimestampTZ}
	case LossNull:
		return []TypeKind{Int, Long, Float, Double, Decimal, Date, Time, Timestamp, TimestampTZ, Fixed}
	case LossInvalid:
		return []TypeKind{String}
	}
	return nil
}

// kindList lists kinds for people.
func kindList(kinds []TypeKind) string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = k.String()
	}
	return strings.Join(names, ", ")
}

func (c *checker) key(field string, t *Table) {
	t.keyColumns = t.keyColumns[:0]
	for i, k := range t.Key {
		place := fmt.Sprintf("%s.key[%d]", field, i)
		at := slices.IndexFunc(t.Columns, func(col *Column) bool { return col != nil && col.Name == k })
		if at < 0 {
			c.fail(place, k, "no column of this name")
			continue
		}
		if slices.Contains(t.keyColumns, at) {
			c.fail(place, k, "named twice")
		}
		t.keyColumns = append(t.keyColumns, at)
		switch col := t.Columns[at]; {
		case col.Exclude || col.Mask != "":
			c.fail(place, k, "a key column cannot be excluded or masked")
		case col.MayBeUnchanged:
			c.fail(place, k, "a key column is in every change: it cannot be may_be_unchanged")
		case col.Type.Kind == Float || col.Type.Kind == Double:
			c.fail(place, k, "a %s cannot be a key: Iceberg refuses equality on floating point", col.Type)
		case slices.Contains(col.AllowLossy, LossNull):
			c.fail(place, k, "a key column cannot become null")
		}
	}
}
