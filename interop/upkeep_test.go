//go:build interop

package interop_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/catalog/artifact"
	"icehose/sink/merge/mergetest"
)

// History, retention, maintenance and erasure run as they are generated, on
// both tables; none but erasure changes a current row.
func TestSparkUpkeep(t *testing.T) { upkeep(t, newFixture(t, "spark")) }
func TestTrinoUpkeep(t *testing.T) { upkeep(t, newFixture(t, "trino")) }

func upkeep(t *testing.T, f *fixture) {
	t.Helper()
	def := f.table("keyed")
	for _, view := range []string{"current", "history"} {
		f.engine.sql(t, f.artifact(t, "keyed", view))
	}
	const tenant, day = 100, 20
	log := deliver(tenant, 6)
	f.append(t, def, log...)
	f.merge(t, def)
	want := fold(t, def, log)
	checkHistory(t, f.engine, f.dialect, def, log, len(log)/2)
	before := f.count(t, "keyed", "true")
	cut := "TIMESTAMP '" + mergetest.Start().AddDate(0, 0, day).Format("2006-01-02 15:04:05") + " UTC'"
	for _, statement := range artifact.Retention(f.dialect, def, cut) {
		f.engine.sql(t, statement)
	}
	if after := f.count(t, "keyed", "true"); after >= before {
		t.Errorf("retention left %d of %d rows", after, before)
	}
	for _, statement := range statements(f.artifact(t, "keyed", "maintain")) {
		f.upkeep(t, statement)
	}
	f.compare(t, def, want, "after retention and maintenance")

	person := strings.NewReplacer("${id}", "'w'", "${tenant}", fmt.Sprint(tenant))
	where := person.Replace("id = ${id} AND tenant = ${tenant}")
	if f.count(t, "keyed", where) == 0 {
		t.Fatal("no row of the person: the test shows nothing")
	}
	for _, statement := range statements(f.artifact(t, "keyed", "erase")) {
		f.upkeep(t, person.Replace(statement))
	}
	for _, table := range []string{"keyed", "keyed_folded"} {
		if n := f.count(t, table, where); n != 0 {
			t.Errorf("%s still has %d rows of the person", table, n)
		}
		if f.count(t, table, "id = 'w'") == 0 {
			t.Errorf("%s has lost the rows of others", table)
		}
	}
}

// statements splits a generated file.
func statements(text string) []string {
	var out []string
	for part := range strings.SplitSeq(text, ";\n") {
		var lines []string
		for line := range strings.SplitSeq(part, "\n") {
			if !strings.HasPrefix(line, "--") {
				lines = append(lines, line)
			}
		}
		if s := strings.TrimSpace(strings.Join(lines, "\n")); s != "" {
			out = append(out, s)
		}
	}
	return out
}

// upkeep runs a statement, if the engine has such.
func (f *fixture) upkeep(t *testing.T, statement string) {
	t.Helper()
	if f.dialect == artifact.Athena {
		if statement = asTrino(statement); statement == "" {
			return
		}
	}
	f.engine.sql(t, statement)
}

// count counts rows of a table of the fixture.
func (f *fixture) count(t *testing.T, table, where string) (n int) {
	t.Helper()
	got := *f.sql(t, "SELECT count(*) FROM d."+table+" WHERE "+where)[0][0]
	if _, err := fmt.Sscan(got, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// checkHistory wants the history as of the position and the time of some rows
// to be the fold of everything up to them, and its open rows to be the current ones.
func checkHistory(t *testing.T, e *engine, dialect artifact.Dialect, def *catalog.Table, log [][][]byte, ats ...int) {
	t.Helper()
	columns := currentColumns(def)
	data := len(names(def))
	selected := strings.Replace(e.list(columns), catalog.ColumnCommittedAt, "cdc_valid_from", 1)
	ask := func(query string) string {
		query = strings.Replace(query, "SELECT *", "SELECT "+selected, 1)
		if e.name == "duckdb" {
			query = strings.ReplaceAll(query, "`", `"`)
		}
		return query
	}
	for _, at := range ats {
		position, committed := string(log[at][data]), string(log[at][data+1])
		seconds := strings.Replace(committed[:19], "T", " ", 1)
		for _, as := range []struct {
			query string
			in    func(row [][]byte) bool
		}{
			{artifact.AsOfPosition(dialect, def, position), func(row [][]byte) bool { return string(row[data]) <= position }},
			{artifact.AsOfTime(dialect, def, seconds), func(row [][]byte) bool { return string(row[data+1]) <= committed }},
		} {
			var until [][][]byte
			for _, row := range log {
				if as.in(row) {
					until = append(until, row)
				}
			}
			got := parseRows(t, e, def, columns, ask(as.query))
			if diff := mergetest.Diff(fold(t, def, until), got, false, names(def)); diff != "" {
				t.Fatalf("%s:\n%s", as.query, diff)
			}
		}
	}
	open := *e.sql(t, fmt.Sprintf("SELECT count(*) FROM %s.%s_history WHERE cdc_valid_to_position IS NULL", def.Database(), def.Name()))[0][0]
	if diff := cmp.Diff(fmt.Sprint(len(fold(t, def, log))), open); diff != "" {
		t.Errorf("rows of the history that are current (-want +got):\n%s", diff)
	}
}
