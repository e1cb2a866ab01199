package discover

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"icehose/catalog"
)

// A writer writes YAML text.
type writer struct{ strings.Builder }

func (w *writer) printf(format string, args ...any) { fmt.Fprintf(&w.Builder, format, args...) }

func (w *writer) header(engine catalog.Engine, database string) {
	position, why := "postgres", "the log sequence numbers of stream-position: IncludeTransactionDetails=true"
	switch engine {
	case catalog.PostgreSQL:
	case catalog.MySQL, catalog.MariaDB:
		position, why = "mysql", "transaction-id is the place in the binary log; transaction-record-id needs IncludeTransactionDetails=true"
	case catalog.Oracle, catalog.SQLServer, catalog.DMS:
		position, why = "column:ar_h_change_seq", "a column that a transformation rule adds, with the expression $AR_H_CHANGE_SEQ"
	}
	w.printf(`# The pipeline file: which source tables flow into which lake tables, and how.
# icehose catalog discover proposed it. It is yours to edit: a later discover adds
# what is new in the source and leaves everything else as you wrote it.
version: 1
database: %s

source:
  engine: %s
  position: %s # %s
  nulls: included # IncludeNullAndEmpty=true, so that a missing column is never taken for a null
  unchanged: absent # how an update shows a value that it did not change and the log does not have
  before_image: before-image # BeforeImageSettings.FieldName

%stables:
`, scalar(database), engine, scalar(position), why, readersLine())
}

// readersLine proposes the readers of all tables.
func readersLine() string {
	var able, others []string
	for _, r := range catalog.Readers() {
		if r.ReadsEqualityDeletes() {
			able = append(able, string(r))
		} else {
			others = append(others, string(r))
		}
	}
	return fmt.Sprintf("readers: [%s] # who reads the tables. All of these read equality deletes, which are fast to write; for %s a mirror is copied on write\n",
		strings.Join(able, ", "), strings.Join(others, ", "))
}

// choices proposes how a table is delivered and partitioned, as far as a person
// has not chosen; begun is the person's text, if any.
func (w *writer) choices(indent string, p *proposal, begun ast.Node) {
	propose := func(key, text string) {
		if member(begun, key) == nil {
			w.WriteString(indent + text + "\n")
		}
	}
	switch p.mode {
	case catalog.Changelog:
		propose("partition", "partition: [day("+catalog.ColumnCommittedAt+")] # what came together lies together: compaction goes by day. A merge reads the whole changelog")
	case catalog.Mirror:
		propose("on_load", "on_load: insert # fast; rows that a repeated load brings twice are found by reconcile. upsert makes repeats harmless")
		propose("on_insert", "on_insert: update # an upsert: an insert that comes twice, or after its row was loaded, is harmless")
		if len(p.key) > 0 {
			propose("partition", fmt.Sprintf("# partition: [\"bucket(16, %s)\"] # suits many millions of rows; by key columns alone, since a delete has no others, and before the table has rows", p.key[0]))
		}
	}
}

// table writes a table whose dash stands behind indent.
func (w *writer) table(indent string, p *proposal) {
	inner := indent + "  "
	w.printf("%s- source: %s\n", indent, scalar(p.source.FullName()))
	if p.source.Comment != "" {
		w.printf("%s# %s\n", inner, oneLine(p.source.Comment))
	}
	switch {
	case p.target != "":
		w.printf("%starget: %s # %s\n", inner, scalar(p.target), p.targetWhy)
	case p.targetWhy != "":
		w.printf("%s# %s\n", inner, p.targetWhy)
	}
	w.printf("%smode: %s # %s\n", inner, p.mode, p.modeWhy)
	if len(p.key) > 0 {
		w.printf("%skey: [%s]\n", inner, strings.Join(scalars(p.key), ", "))
	}
	w.choices(inner, p, nil)
	w.printf("%scolumns:\n", inner)
	said := make(map[string]bool)
	for i := range p.columns {
		w.column(inner+"  ", &p.columns[i], said)
	}
}

// column writes a column on a line. What was said of another column of the
// table is not said again.
func (w *writer) column(indent string, c *proposedColumn, said map[string]bool) {
	w.printf("%s- %s", indent, flow(c))
	if c.why != "" && !said[c.why] {
		w.WriteString(" # " + c.why)
		said[c.why] = true
	}
	w.WriteByte('\n')
}

// flow writes a column as a mapping on one line.
func flow(c *proposedColumn) string {
	parts := []string{"name: " + scalar(c.Name)}
	add := func(key, value string) { parts = append(parts, key+": "+value) }
	if c.Source != "" {
		add("source", scalar(c.Source))
	}
	add("type", scalar(c.TypeText))
	add("source_type", scalar(c.SourceType))
	if c.NotNull {
		add("not_null", "true")
	}
	if c.MayBeUnchanged {
		add("may_be_unchanged", "true")
	}
	if c.Exclude {
		add("exclude", "true")
	}
	if len(c.Loses) > 0 {
		losses := make([]string, len(c.Loses))
		for i, l := range c.Loses {
			losses[i] = quoted(string(l))
		}
		add("loses", "["+strings.Join(losses, ", ")+"]")
	}
	if c.Default != nil {
		add("default", quoted(string(*c.Default)))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func scalars(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = scalar(n)
	}
	return out
}

// scalar writes a text as YAML: plain where nothing else could be meant.
func scalar(s string) string {
	switch strings.ToLower(s) {
	case "", "true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf":
		return quoted(s)
	}
	for i, r := range s {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || (r < '0' || r > '9') && !strings.ContainsRune(" .-()", r)) {
			return quoted(s)
		}
	}
	if strings.HasSuffix(s, " ") {
		return quoted(s)
	}
	return s
}

// quoted writes a text in double quotes. JSON's escapes are YAML's as well.
func quoted(s string) string {
	text, err := json.Marshal(s)
	if err != nil { // a string always has a JSON form
		return `""`
	}
	return string(text)
}

// oneLine makes a comment of a text, however long or odd.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == 0x85 || r == 0x2028 || r == 0x2029 || r == 0xfeff {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	s = strings.Join(strings.Fields(s), " ")
	const most = 160
	if runes := []rune(s); len(runes) > most {
		s = string(runes[:most]) + "..."
	}
	return s
}
