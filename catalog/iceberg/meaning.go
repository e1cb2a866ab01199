package iceberg

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/apache/iceberg-go/table"

	"icehose/catalog"
)

// What a changelog notes of the pipeline files by which its rows were written, since
// its columns do not tell it. Rows keep what they say for ever: the pipeline file
// must go on to say what it means.
const (
	// PropertyKey lists the key columns in the order of the texts in cdc_old_key.
	PropertyKey = "icehose.key"
	// PropertyAbsent lists the columns that a row may list in cdc_absent, by the
	// names that they had when this was noted.
	PropertyAbsent = "icehose.absent"
)

// noted are the properties that a changelog with a key must have, given those that
// it has; none of any other table. What may be absent only grows, unless there are
// no rows.
func noted(t *catalog.Table, have Properties, empty bool) map[string]string {
	if t.Mode != catalog.Changelog || len(t.Key) == 0 {
		return nil
	}
	absent := names(have[PropertyAbsent])
	if empty {
		absent = nil
	}
	columns, data := t.LakeColumns()
	for _, c := range columns[:data] {
		if c.MayBeUnchanged && !slices.Contains(absent, c.Name) {
			absent = append(absent, c.Name)
		}
	}
	properties := map[string]string{PropertyKey: strings.Join(t.Key, ",")}
	if len(absent) > 0 || have[PropertyAbsent] != "" {
		slices.Sort(absent)
		properties[PropertyAbsent] = strings.Join(absent, ",")
	}
	return properties
}

func names(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' })
}

// CheckMeaning reports whether the rows of a changelog mean what its definition
// says. It reads metadata alone.
func CheckMeaning(t *catalog.Table, log *table.Table) error {
	refusals := misread(t, log)
	if len(refusals) == 0 {
		return nil
	}
	if refusals[0].Column == "" {
		return fmt.Errorf("%s", refusals[0].Reason)
	}
	return fmt.Errorf("column %s: %s", refusals[0].Column, refusals[0].Reason)
}

// misread lists what the definition of a changelog makes of its rows that they do
// not mean.
func misread(t *catalog.Table, log *table.Table) []Refusal {
	if t.Mode != catalog.Changelog || log.CurrentSnapshot() == nil {
		return nil
	}
	columns, data := t.LakeColumns()
	m := &meaning{t: t, columns: columns[:data], log: log, had: make(map[string][]int)}
	for _, schema := range log.Metadata().Schemas() {
		for _, f := range schema.Fields() {
			if !slices.Contains(m.had[f.Name], f.ID) {
				m.had[f.Name] = append(m.had[f.Name], f.ID)
			}
		}
	}
	m.key()
	if written := len(m.refusals); len(t.Key) > 0 {
		m.absent()
		for i := range m.refusals[written:] {
			m.refusals[written+i].Folds = true
		}
	}
	return m.refusals
}

// meaning compares a definition with what a changelog has noted, and with the names
// that its schemas have given to its columns: metadata keeps all schemas, unless an
// engine was told to clean them up.
type meaning struct {
	t        *catalog.Table
	columns  []catalog.Column // of the source
	log      *table.Table
	had      map[string][]int // name -> field ids of the columns that have had it
	refusals []Refusal
}

func (m *meaning) refuse(column, reason string, args ...any) {
	m.refusals = append(m.refusals, Refusal{Column: column, Reason: fmt.Sprintf(reason, args...)})
}

// field is the id of a column in the table, also before a rename is applied; 0 for a
// column that it does not have yet.
func (m *meaning) field(c *catalog.Column) int {
	for _, name := range []string{c.Name, c.RenamedFrom} {
		if f, ok := m.log.Schema().FindFieldByName(name); ok {
			return f.ID
		}
	}
	return 0
}

// owner is the column that has one of the field ids.
func (m *meaning) owner(ids []int) *catalog.Column {
	for i := range m.columns {
		if id := m.field(&m.columns[i]); id != 0 && slices.Contains(ids, id) {
			return &m.columns[i]
		}
	}
	return nil
}

// key refuses another order of the key: an old key is a list of texts.
func (m *meaning) key() {
	text, ok := m.log.Properties()[PropertyKey]
	if !ok {
		return
	}
	was := names(text)
	now := slices.Clone(was)
	for i, name := range was {
		if at := catalog.Named(m.columns, name); at >= 0 {
			now[i] = m.columns[at].Name
		} else if c := m.owner(m.had[name]); c != nil {
			now[i] = c.Name
		}
	}
	switch {
	case slices.Equal(now, m.t.Key):
	case slices.Equal(sorted(now), sorted(m.t.Key)):
		m.refuse("", "its rows have the key before a key change in the order (%[1]s), and key: of the pipeline file says (%[2]s): "+
			"a row that changed its key would stay under its old one too. Write key: [%[1]s]", list(now), list(m.t.Key))
	default:
		m.refuse("", "its rows have the key before a key change as (%s), and key: of the pipeline file says (%s): "+
			"they cannot be read by another key. Create the changelog anew, and load it", list(now), list(m.t.Key))
	}
}

// absent refuses a definition by which a value that a change did not carry would
// pass for null.
func (m *meaning) absent() {
	for _, name := range names(m.log.Properties()[PropertyAbsent]) {
		m.absentName(name)
	}
	for i := range m.columns {
		c := &m.columns[i]
		id := m.field(c)
		if !c.MayBeUnchanged || id == 0 {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(m.had)) {
			if slices.Contains(m.had[name], id) && !slices.Contains(c.Names(), name) {
				m.forgotten(c, name)
			}
		}
	}
}

// absentName judges a name that rows may list in cdc_absent.
func (m *meaning) absentName(name string) {
	was := m.owner(m.had[name])
	at := catalog.Named(m.columns, name)
	switch {
	case at < 0 && was == nil: // it is gone, and its values with it
	case at < 0:
		if !was.MayBeUnchanged { // else said of the column
			m.forgotten(was, name)
		}
	case was != nil && was.Name != m.columns[at].Name && !slices.Contains(m.had[name], m.field(&m.columns[at])):
		m.refuse(m.columns[at].Name, "%s was the name of column %s, and rows that left that out still say %s in %s: give this column another name",
			name, was.Name, name, catalog.ColumnAbsent)
	case !m.columns[at].MayBeUnchanged && !m.t.IsKey(m.columns[at].Name):
		m.refuse(m.columns[at].Name, "rows may have left it out, because it was may_be_unchanged: null there does not mean null. Put may_be_unchanged: true back, "+
			"which does no harm where every change carries the column; if no row has %s in %s, take it out of the table's property %s", name, catalog.ColumnAbsent, PropertyAbsent)
	}
}

// forgotten refuses a former name that the pipeline file does not have.
func (m *meaning) forgotten(c *catalog.Column, name string) {
	m.refuse(c.Name, "it was called %[1]s, and rows that left it out say %[1]s in %[2]s: write former_names: [%[3]s] on it, and leave that there",
		name, catalog.ColumnAbsent, list(append(slices.Clone(c.FormerNames), name)))
}
