package iceberg

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"icehose/catalog"
)

// The types of iceberg-go that Tables speaks of.
type (
	// Schema is iceberg-go's schema.
	Schema = iceberg.Schema
	// Properties is iceberg-go's map of properties.
	Properties = iceberg.Properties
)

// A Kind is what an action does.
type Kind string

// The kinds of actions.
const (
	Create      Kind = "create"       // the table
	Add         Kind = "add"          // a column
	Widen       Kind = "widen"        // a column's type
	Rename      Kind = "rename"       // a column, which keeps its field id
	Drop        Kind = "drop"         // a column
	SetKey      Kind = "set_key"      // the identifier, which was empty
	SetProperty Kind = "set_property" // of the table
	Partition   Kind = "partition"    // by other fields, of rows to come
)

// An Action is one change of a table.
type Action struct {
	Kind   Kind   `json:"kind"`
	Column string `json:"column,omitempty"` // its new name, for Rename
	From   string `json:"from,omitempty"`
	To     string `json:"to,omitempty"`
	Key    bool   `json:"key,omitempty"` // of Add: the column is part of a new table's key
}

// A Refusal is a difference that cannot be put right safely.
type Refusal struct {
	Column string `json:"column,omitempty"`
	Reason string `json:"reason"`
	// Folds says that only folds of the rows would be wrong: a sink may go on
	// writing them.
	Folds bool `json:"-"`
}

// A TablePlan is what must be done to one table.
type TablePlan struct {
	Table    string    `json:"table"`
	Actions  []Action  `json:"actions"`
	Refusals []Refusal `json:"refusals"`
}

// A Plan is what must be done to the tables of a pipeline, in their order.
type Plan struct {
	Tables []TablePlan `json:"tables"`
}

// Pending reports whether there is anything to do.
func (p *Plan) Pending() bool {
	return slices.ContainsFunc(p.Tables, func(t TablePlan) bool { return len(t.Actions) > 0 })
}

// Refused reports whether there is anything that cannot be done.
func (p *Plan) Refused() bool {
	return slices.ContainsFunc(p.Tables, func(t TablePlan) bool { return len(t.Refusals) > 0 })
}

// Plan compares the tables of the pipeline with those of the catalog and
// changes nothing.
func (l *Lake) Plan(ctx context.Context, p *catalog.Pipeline) (*Plan, error) {
	plan := new(Plan)
	for _, t := range p.Tables {
		current, err := l.load(ctx, t)
		if err != nil {
			return nil, err
		}
		if current == nil && l.OnlyExisting {
			continue
		}
		tp, err := l.planTable(ctx, t, current)
		if err != nil {
			return nil, fmt.Errorf("plan table %s: %w", fullName(t), err)
		}
		plan.Tables = append(plan.Tables, *tp)
	}
	return plan, nil
}

// planTable compares one table; current is nil when it does not exist.
func (l *Lake) planTable(ctx context.Context, t *catalog.Table, current *table.Table) (*TablePlan, error) {
	want, err := SchemaOf(t)
	if err != nil {
		return nil, err
	}
	p := &planner{t: t, want: want, allowDrop: l.AllowDrop, plan: TablePlan{Table: fullName(t), Actions: []Action{}, Refusals: []Refusal{}}}
	if current == nil {
		p.act(Action{Kind: Create})
		for _, f := range want.Fields() {
			p.act(Action{Kind: Add, Column: f.Name, To: f.Type.String(), Key: f.Required})
		}
		if len(t.Partition) > 0 {
			p.act(Action{Kind: Partition, To: list(fieldTexts(t))})
		}
		return &p.plan, nil
	}
	p.have, p.matched = current.Schema(), make(map[int]string)
	if v := current.Metadata().Version(); v != 2 {
		p.refuse("", "its format version is %d, and Firehose writes version 2 alone", v)
	}
	sameMode := p.mode()
	if sameMode {
		for _, f := range want.Fields() {
			p.column(f)
		}
		p.rest(current)
		p.key()
		if err := p.partition(ctx, current); err != nil {
			return nil, err
		}
		p.plan.Refusals = append(p.plan.Refusals, misread(t, current)...)
	}
	p.properties(current)
	if sameMode {
		p.notes(current)
	}
	return &p.plan, nil
}

// A planner compares one existing table with its definition.
type planner struct {
	t          *catalog.Table
	have, want *iceberg.Schema
	allowDrop  bool
	matched    map[int]string // field ids of the table -> column of the file
	plan       TablePlan
}

func (p *planner) act(a Action) { p.plan.Actions = append(p.plan.Actions, a) }

func (p *planner) refuse(column, reason string, args ...any) {
	p.plan.Refusals = append(p.plan.Refusals, Refusal{Column: column, Reason: fmt.Sprintf(reason, args...)})
}

// mode refuses to make a mirror of a changelog or the other way round; it
// reports whether the modes agree.
func (p *planner) mode() bool {
	_, log := p.have.FindFieldByName(catalog.ColumnOperation)
	_, managed := p.have.FindFieldByName(catalog.ColumnPosition)
	switch {
	case !managed:
		p.refuse(catalog.ColumnPosition, "the table was not made by icehose: it has no %s. Give the table another target", catalog.ColumnPosition)
		return false
	case log && p.t.Mode != catalog.Changelog:
		p.refuse("", "the table is a changelog and the pipeline file says mirror: its rows would mean something else. Give the table another target")
		return false
	case !log && p.t.Mode == catalog.Changelog:
		p.refuse("", "the table is a mirror and the pipeline file says changelog: its rows would mean something else. Give the table another target")
		return false
	}
	return true
}

// column compares one column of the file with the table.
func (p *planner) column(want iceberg.NestedField) {
	have, ok := p.have.FindFieldByName(want.Name)
	from := p.renamedFrom(want.Name)
	if !ok && from != "" {
		if old, found := p.have.FindFieldByName(from); found {
			have, ok = old, true
			p.act(Action{Kind: Rename, Column: want.Name, From: from, To: want.Name})
		}
	}
	if !ok {
		p.add(want)
		return
	}
	p.matched[have.ID] = want.Name
	if !have.Type.Equals(want.Type) {
		reason := narrowing(have.Type, want.Type)
		if reason == "" && want.Required && p.t.Mode == catalog.Mirror && p.t.DeleteFormat() == catalog.EqualityDeletes &&
			want.Type.Equals(iceberg.PrimitiveTypes.Int64) {
			// Verified with iceberg-go 0.7: it compares keys as they are stored.
			reason = "it is the key of a mirror, and a delete of a long does not find a row that was written as an int: old rows would stay. Create the table anew"
		}
		if reason != "" {
			p.refuse(want.Name, "%s cannot become %s: %s", have.Type, want.Type, reason)
		} else {
			p.act(Action{Kind: Widen, Column: want.Name, From: have.Type.String(), To: want.Type.String()})
		}
	}
	switch {
	case want.Required && !have.Required:
		p.refuse(want.Name, "a key column must be required and this one is optional: old files may hold nulls in it. Create the table anew")
	case !want.Required && have.Required:
		p.refuse(want.Name, "it is required in the table and no key column in the pipeline file: deletes could not be written")
	}
}

// add adds a column unless its name would mean two.
func (p *planner) add(want iceberg.NestedField) {
	if other, ok := p.have.FindFieldByNameCaseInsensitive(want.Name); ok {
		p.refuse(want.Name, "the table has column %s, which engines without case take for the same", other.Name)
		return
	}
	if want.Required {
		p.refuse(want.Name, "a key column cannot be added to a table: its rows have no value for it")
		return
	}
	p.act(Action{Kind: Add, Column: want.Name, To: want.Type.String()})
}

// becomes returns the column of the file that is to be renamed from another one;
// empty if none is.
func (p *planner) becomes(from string) string {
	for _, c := range p.t.Columns {
		if c.RenamedFrom == from && !c.Exclude {
			return c.Name
		}
	}
	return ""
}

func (p *planner) renamedFrom(name string) string {
	for _, c := range p.t.Columns {
		if c.Name == name && !c.Exclude {
			return c.RenamedFrom
		}
	}
	return ""
}

// narrowing says why a type cannot become another one in place; empty if it can.
func narrowing(have, want iceberg.Type) string {
	if have.Equals(iceberg.PrimitiveTypes.Int32) && want.Equals(iceberg.PrimitiveTypes.Int64) ||
		have.Equals(iceberg.PrimitiveTypes.Float32) && want.Equals(iceberg.PrimitiveTypes.Float64) {
		return ""
	}
	from, ok1 := have.(iceberg.DecimalType)
	to, ok2 := want.(iceberg.DecimalType)
	if ok1 && ok2 {
		switch {
		case from.Scale() != to.Scale():
			return "a decimal's scale is fixed. Add a column of another name"
		case from.Precision() > to.Precision():
			return "the table may hold numbers that do not fit. Keep the precision"
		}
		return ""
	}
	return "Iceberg widens int to long, float to double and a decimal's precision, nothing else. Add a column of another name, or create the table anew"
}

// rest deals with columns that the file does not have.
func (p *planner) rest(current *table.Table) {
	for _, f := range p.have.Fields() {
		if p.matched[f.ID] != "" {
			continue
		}
		switch use := UseOf(current, f.ID); {
		case slices.Contains(p.have.IdentifierFieldIDs, f.ID):
			p.refuse(f.Name, "it is part of the table's key and not in the pipeline file: rows could not be found any more")
		case use != "":
			p.refuse(f.Name, "it is not in the pipeline file, and the table's %s needs it", use)
		case f.Required:
			p.refuse(f.Name, "it is required and not in the pipeline file: no row could be written")
		case p.becomes(f.Name) != "":
			p.refuse(f.Name, "column %[1]s has renamed_from: %[2]s, and the table has %[1]s already: as a column of its own, "+
				"null in rows from before it was added, whose values are in %[2]s. "+
				"Where %[1]s has no values to keep, stop the table's stream, write name: %[2]s instead of %[1]s and no renamed_from:, "+
				"and apply with --allow-drop, which drops %[1]s; then write %[1]s with renamed_from: %[2]s, and apply again. Otherwise create the table anew and load it. "+
				"Without renamed_from:, --allow-drop drops %[2]s and its values", p.becomes(f.Name), f.Name)
		case !p.allowDrop:
			p.refuse(f.Name, "it is not in the pipeline file: --allow-drop drops it and its values; "+
				"renamed_from: on the column that it became renames it, unless the table has that one already")
		default:
			p.act(Action{Kind: Drop, Column: f.Name, From: f.Type.String()})
		}
	}
}

// UseOf says what of the table, besides rows, needs a column; empty for nothing.
func UseOf(current *table.Table, id int) string {
	for _, spec := range current.Metadata().PartitionSpecs() {
		for _, f := range spec.Fields() {
			if slices.Contains(f.SourceIDs, id) {
				return "partitioning"
			}
		}
	}
	order := current.SortOrder()
	for _, f := range order.Fields() {
		if slices.Contains(f.SourceIDs, id) {
			return "sort order"
		}
	}
	return ""
}

// key compares identifiers. What stands in the way of a column was said there.
func (p *planner) key() {
	have, want := keyNames(p.have), keyNames(p.want)
	for i, name := range have {
		for _, a := range p.plan.Actions {
			if a.Kind == Rename && a.From == name {
				have[i] = a.To
			}
		}
	}
	slices.Sort(have)
	switch {
	case slices.Equal(have, want) || len(p.plan.Refusals) > 0:
	case len(have) == 0:
		p.act(Action{Kind: SetKey, To: strings.Join(want, ", ")})
	default:
		p.refuse("", "the table's key is (%s) and that of the pipeline file (%s): its rows are found by their key. Create the table anew",
			strings.Join(have, ", "), strings.Join(want, ", "))
	}
}

// properties adds those that the table lacks. One that was set to another value
// was set by somebody; except that a table whose readers need copy-on-write
// must not be written otherwise.
func (p *planner) properties(current *table.Table) {
	have, want := current.Properties(), p.t.Properties()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		value, ok := have[name]
		if !ok || want[name] == string(catalog.CopyOnWrite) && value != want[name] {
			p.act(Action{Kind: SetProperty, Column: name, From: value, To: want[name]})
		}
	}
}

// notes brings what is noted of the rows of a changelog up to date: what the pipeline
// file must not say of them is refused.
func (p *planner) notes(current *table.Table) {
	have := current.Properties()
	notes := noted(p.t, have, current.CurrentSnapshot() == nil)
	for _, name := range slices.Sorted(maps.Keys(notes)) {
		if have[name] != notes[name] {
			p.act(Action{Kind: SetProperty, Column: name, From: have[name], To: notes[name]})
		}
	}
}
