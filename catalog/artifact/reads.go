package artifact

import (
	"regexp"
	"slices"
	"strings"

	"icehose/catalog"
)

// A Read is a table that the statements of a Merge read, and the columns that
// they need of it. An engine that keeps no common table expression, as Athena,
// reads it once for each time that an expression around it is named.
type Read struct {
	Of      Source
	Columns []string
	Times   int
}

// A Source is what a Merge reads.
type Source string

// The sources of a merge.
const (
	SourceAdded   Source = "${added}" // the new rows of the changelog
	SourceLog     Source = "${log}"   // the changelog
	SourceCurrent Source = "current"  // the current table
)

var (
	unionPattern    = regexp.MustCompile(`\nUNION(?: ALL)?\n`)
	relationPattern = regexp.MustCompile("(?:FROM|JOIN|INTO) (\\$\\{[a-z]+\\}|[a-z0-9_]+|[\"`][^ ]+[\"`])(?: AS ([a-z0-9]+))?")
	columnPattern   = regexp.MustCompile("([a-z0-9]+)\\.[\"`]([a-z0-9_]+)[\"`]")
)

// Reads returns what Read and Apply, with Changes in it, read in a run that
// is no rebuild.
func (m *Merge) Reads() []Read {
	times := map[string]int{"": 1}
	var out []Read
	scan := func(name, statement string) {
		for _, branch := range unionPattern.Split(statement, -1) {
			if strings.HasSuffix(branch, "WHERE ${rebuild}") {
				continue
			}
			for _, found := range relationPattern.FindAllStringSubmatch(branch, -1) {
				relation, columns := found[1], columnsOf(branch, found[2])
				switch {
				case len(columns) == 0: // of a rebuild
				case relation == string(SourceAdded), relation == string(SourceLog):
					out = append(out, Read{Source(relation), columns, times[name]})
				case strings.ContainsAny(relation, "\"`"):
					out = append(out, Read{SourceCurrent, columns, times[name]})
				}
				times[relation] += times[name]
			}
		}
	}
	scan("", m.Read)
	scan("", m.Apply)
	scan("", m.Last)
	for _, s := range slices.Backward(m.Steps) { // which name only earlier ones
		scan(s.Name, s.SQL)
	}
	return out
}

// columnsOf lists the columns that a select names of a relation.
func columnsOf(branch, alias string) []string {
	var out []string
	for _, found := range columnPattern.FindAllStringSubmatch(branch, -1) {
		if found[1] == alias && !slices.Contains(out, found[2]) {
			out = append(out, found[2])
		}
	}
	if alias == "c" && strings.Contains(branch, "coalesce(\""+catalog.ColumnAbsent) { // see listed
		out = append(out, catalog.ColumnAbsent)
	}
	return out
}
