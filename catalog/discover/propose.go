package discover

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"icehose/catalog"
)

// A proposal is a table as it is proposed for the file.
type proposal struct {
	source    *catalog.SourceTable
	target    string // empty: what the file makes of the source's name
	targetWhy string
	mode      catalog.Mode
	modeWhy   string
	key       []string
	columns   []proposedColumn
}

// A proposedColumn is a column as it is proposed, with the reason.
type proposedColumn struct {
	catalog.Column
	source *catalog.SourceColumn
	why    string
}

func (p *proposal) summary() string {
	columns := fmt.Sprintf("%d columns", len(p.columns))
	if len(p.columns) == 1 {
		columns = "1 column"
	}
	return fmt.Sprintf("%s of %s, %s", p.mode, columns, p.modeWhy)
}

// propose describes a table that the file does not have, or nil when it cannot
// be; what is wrong is in u.problems then. begun has the columns that a person
// has already described.
func (u *updater) propose(t *catalog.SourceTable, begun *catalog.Table) *proposal {
	before := len(u.problems)
	p := &proposal{source: t}
	if strings.Contains(t.Schema, ".") || t.Schema == "" {
		u.problem(t.FullName(), "", "a schema without a name, or with a dot in it, cannot be written as schema.table: exclude the table with --tables")
	}
	if !utf8.ValidString(t.FullName()) {
		u.problem(t.FullName(), "", "its name is not UTF-8, and no record can have it: exclude the table with --tables")
	}
	names := make(map[string]string)                  // lake name -> what has it
	described := make(map[*catalog.SourceColumn]bool) // by the person
	if begun != nil {
		for _, c := range begun.Columns {
			if c != nil {
				names[c.Name] = "column " + c.Name + " of the file"
			}
		}
		for _, s := range pair(begun, t) {
			described[s] = true
		}
	}
	for _, c := range t.Columns {
		if described[c] {
			continue
		}
		column := u.proposeColumn(t, c)
		if column == nil {
			continue
		}
		if other, ok := names[column.Name]; ok {
			u.problem(t.FullName(), c.Name, "its name in the lake, %s, is already that of %s: describe one of the two in the pipeline file by hand, with name: and source:, and run this again",
				column.Name, other)
			continue
		}
		names[column.Name] = c.Name
		p.columns = append(p.columns, *column)
	}
	if len(u.problems) > before {
		return nil
	}
	if begun == nil {
		u.proposeKey(p, t)
	} else if begun.Mode != "" {
		u.compareIdentity(begun, t)
	}
	return p
}

// compareIdentity notes a key of the file that deletes do not carry.
func (u *updater) compareIdentity(have *catalog.Table, t *catalog.SourceTable) {
	var key []string
	for i, s := range pair(have, t) {
		if s != nil && slices.Contains(have.Key, have.Columns[i].Name) {
			key = append(key, s.Name)
		}
	}
	gap := t.IdentityGap(key)
	if gap == nil || t.ReplicaIdentity == catalog.IdentityDefault && !t.KeyDeferrable {
		return // what the primary key lacks of it, compareKey says
	}
	u.note(Note{
		Kind: Attention, Table: t.FullName(), Text: "deletes do not carry the key of the file: " + gap.What,
		Meanwhile: "they fail missing_key or do not come; an update that changes the key leaves the old row",
		Edit:      gap.Fix + ", or make the table a changelog without key:",
	})
}

// proposeColumn describes a column; nil when it cannot be.
func (u *updater) proposeColumn(t *catalog.SourceTable, c *catalog.SourceColumn) *proposedColumn {
	var whys []string
	if !utf8.ValidString(c.Name) {
		u.problem(t.FullName(), c.Name, "its name is not UTF-8, and no record can have it: rename it in the source")
		return nil
	}
	m, err := u.mapType(c)
	if err != nil {
		unmapped, ok := errors.AsType[*catalog.UnmappedError](err)
		if !ok {
			u.problem(t.FullName(), c.Name, "%v", err)
			return nil
		}
		u.problem(t.FullName(), c.Name, "no Iceberg type is known for %s: carry its text with --as-text %q, or write the column into the pipeline file by hand, with a type or with exclude: true",
			unmapped.Type, c.Type.Name)
		return nil
	}
	out := &proposedColumn{source: c}
	name, changed := lakeName(c.Name)
	out.Name = name
	if changed {
		out.Source = c.Name
		whys = append(whys, "renamed: the lake takes lower-case letters, digits and underscores")
	}
	if catalog.QuotedInQueries(name) {
		whys = append(whys, "a reserved word: quote it in queries")
	}
	out.Type, out.TypeText = m.Type, m.Type.String()
	out.SourceType = spelling(u.schema.Words, c)
	out.MayBeUnchanged = c.OutOfLine && !slices.Contains(t.Key, c.Name)
	out.NotNull = !c.Nullable && !slices.Contains(t.Key, c.Name)
	out.Loses = m.Losses
	if c.Generated.Computed() {
		out.Exclude, out.Loses, out.MayBeUnchanged = true, nil, false
		whys = append(whys, "computed by the source: its log has no value for it; a view can compute it")
	} else if m.Note != "" {
		whys = append(whys, m.Note)
	}
	if len(out.Loses) > 0 {
		whys = append(whys, fmt.Sprintf("to accept that, add allow_lossy: [%q]", out.Loses[0]))
	}
	out.why = strings.Join(whys, "; ")
	return out
}

// dmsPrefix marks a source_type in DMS's words, which no engine has.
const dmsPrefix = "dms:"

// spelling is the source_type of a column: what a domain is made of, and whose
// words it is in where they are not the engine's.
func spelling(words catalog.Engine, c *catalog.SourceColumn) string {
	if words == catalog.DMS {
		return dmsPrefix + c.Declared
	}
	return c.Type.String()
}

func (u *updater) mapType(c *catalog.SourceColumn) (catalog.Mapping, error) {
	m, err := catalog.MapType(u.schema.Words, c)
	if err == nil {
		return m, nil
	}
	_, bare, _ := strings.Cut(c.Type.Name, ".")
	for _, name := range u.options.AsText {
		if strings.EqualFold(name, c.Type.Name) || strings.EqualFold(name, c.Declared) || bare != "" && strings.EqualFold(name, withoutParams(bare)) {
			return catalog.Mapping{Type: catalog.Type{Kind: catalog.String}, Note: "the text that the source writes for it, as --as-text asked"}, nil
		}
	}
	return m, err
}

func withoutParams(name string) string {
	head, _, _ := strings.Cut(name, "(")
	return head
}

// proposeKey chooses the key and the write mode.
func (u *updater) proposeKey(p *proposal, t *catalog.SourceTable) {
	p.mode, p.modeWhy = catalog.Changelog, "no primary key: nothing says which row an update means"
	if len(t.Key) == 0 {
		return
	}
	keyed := make([]string, 0, len(t.Key))
	for _, k := range t.Key {
		i := slices.IndexFunc(p.columns, func(c proposedColumn) bool { return c.source.Name == k })
		switch source := t.Column(k); {
		case source.Nullable:
			p.modeWhy = fmt.Sprintf("without a key, because %s may be null: a delivered change must carry all of its key", k)
		case i >= 0 && (p.columns[i].Type.Kind == catalog.Float || p.columns[i].Type.Kind == catalog.Double):
			p.modeWhy = fmt.Sprintf("without a key, because %s is a %s: Iceberg refuses equality on floating point", k, p.columns[i].Type)
		case i >= 0 && p.columns[i].Exclude && source.Generated.Computed():
			p.modeWhy = fmt.Sprintf("without a key, because %s is computed and not in the log", k)
		case i >= 0 && (p.columns[i].Exclude || p.columns[i].Mask != ""):
			p.modeWhy = fmt.Sprintf("without a key, because %s is excluded or masked", k)
		case i >= 0 && len(p.columns[i].Loses) > 0:
			p.modeWhy = fmt.Sprintf("without a key, because %s loses values", k)
		case i >= 0:
			keyed = append(keyed, p.columns[i].Name)
			continue
		}
		u.note(Note{
			Kind: Attention, Table: t.FullName(), Column: k, Text: "the primary key cannot be the key in the lake: " + p.modeWhy,
			Edit: "leave the table a changelog, or change the key in the source",
		})
		return
	}
	if gap := t.IdentityGap(t.Key); gap != nil {
		p.modeWhy = "without a key, because " + gap.What
		u.note(Note{
			Kind: Attention, Table: t.FullName(), Text: "the primary key cannot be the key in the lake: " + p.modeWhy,
			Edit: "leave the table a changelog, or " + gap.Fix,
		})
		return
	}
	p.key = keyed
	var large []string
	for _, c := range p.columns {
		if c.MayBeUnchanged {
			large = append(large, c.Name)
		}
	}
	switch {
	case len(large) > 0:
		p.modeWhy = fmt.Sprintf("an update may leave out %s, which the source keeps out of line; a mirror fails such updates", list(large))
	case u.schema.Knows(catalog.AspectOutOfLine):
		p.mode, p.modeWhy = catalog.Mirror, "current rows by key: no value is kept out of line, so every update has its whole row"
	default:
		p.mode, p.modeWhy = catalog.Mirror, "current rows by key: no large object among its columns"
	}
	if t.PartitionOf != "" {
		p.modeWhy += "; a partition of " + t.PartitionOf
	}
}

// list names at most three.
func list(names []string) string {
	const most = 3
	if len(names) > most {
		return fmt.Sprintf("%s and %d more columns", strings.Join(names[:most-1], ", "), len(names)-most+1)
	}
	return strings.Join(names, ", ")
}

// targets are the lake tables that are taken.
type targets struct {
	routed   bool // the file names tables by routes: none is proposed
	database string
	taken    map[string]bool
}

func newTargets(p *catalog.Pipeline, database string) *targets {
	t := &targets{database: database, taken: make(map[string]bool)}
	if p == nil {
		return t
	}
	t.database, t.routed = p.Database, len(p.Routes) > 0
	for _, table := range p.Tables {
		if table == nil {
			continue
		}
		_, name, _ := strings.Cut(table.Source, ".")
		if table.Target != "" {
			name = strings.TrimPrefix(table.Target, p.Database+".")
		}
		t.taken[strings.ToLower(name)] = true
	}
	return t
}

// place gives a table a target of its own where its name would not do.
func (t *targets) place(u *updater, p *proposal) {
	if t.routed {
		return
	}
	name, changed := lakeName(p.source.Name)
	if changed {
		p.target, p.targetWhy = name, "renamed: the lake takes lower-case letters, digits and underscores"
	}
	if why := t.unfit(name); why != "" {
		schema, _ := lakeName(p.source.Schema)
		p.target, p.targetWhy = schema+"_"+name, why
		name = p.target
	}
	if t.taken[name] {
		u.problem(p.source.FullName(), "", "its name in the lake, %s, is taken, because names there have no capitals: write the table's source: and a target: into the pipeline file by hand, and run this again", name)
	}
	if catalog.QuotedInQueries(name) {
		p.targetWhy = strings.TrimPrefix(p.targetWhy+"; a reserved word: quote it in queries", "; ")
	}
	t.taken[name] = true
}

// unfit says why a table cannot have a name; empty if it can.
func (t *targets) unfit(name string) string {
	if t.taken[name] {
		return "another table is " + name + " already"
	}
	if catalog.ReservedTable(name) {
		return name + " is a reserved word, and Athena's OPTIMIZE and VACUUM take no quotes"
	}
	for _, suffix := range catalog.GeneratedSuffixes() {
		if base, ok := strings.CutSuffix(name, suffix); ok && t.taken[base] {
			return name + " is generated for " + base
		}
		if t.taken[name+suffix] {
			return name + suffix + " would be generated for it, and another table is that already"
		}
	}
	return ""
}
