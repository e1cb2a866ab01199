//go:build interop

package interop_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/catalog/artifact"
	"icehose/cdc"
	"icehose/sink"
	"icehose/sink/merge"
	"icehose/sink/merge/mergetest"
)

// History, retention and maintenance run as they are generated, on both tables,
// and change no current row, nor one that is not merged yet.
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
	half := len(log) / 2
	f.append(t, def, log[:half]...)
	f.merge(t, def)
	f.append(t, def, log[half:]...)
	want := fold(t, def, log)
	checkHistory(t, f.engine, f.dialect, def, log, half)
	before := f.count(t, "keyed", "true")
	cut := "TIMESTAMP '" + mergetest.Start().AddDate(0, 0, day).Format("2006-01-02 15:04:05") + " UTC'"
	for _, statement := range artifact.Retention(f.dialect, def, cut) {
		f.engine.sql(t, statement)
	}
	if after := f.count(t, "keyed", "true"); after >= before {
		t.Errorf("retention left %d of %d rows", after, before)
	}
	f.merge(t, def) // of what was there before retention, and what it left
	for _, statement := range statements(f.artifact(t, "keyed", "maintain")) {
		f.upkeep(t, statement)
	}
	f.compare(t, def, want, "after retention and maintenance")

	unkeyed, loads := f.table("unkeyed"), mergetest.UnkeyedLog(5)
	f.engine.sql(t, f.artifact(t, "unkeyed", "history"))
	f.append(t, unkeyed, loads...)
	checkHistory(t, f.engine, f.dialect, unkeyed, loads, len(loads)/2)
}

// Erasure leaves no row of the person, and no byte of it in any file, though a
// merge ran on while the changelog was erased, and another engine has merged too.
func TestSparkErasure(t *testing.T) { erase(t, newFixture(t, "spark")) }
func TestTrinoErasure(t *testing.T) { erase(t, newFixture(t, "trino")) }

func erase(t *testing.T, f *fixture) {
	t.Helper()
	def := f.table("keyed")
	const tenant, marker = 100, "person-7f3a"
	log := deliver(tenant, 6)
	secret := "secret of " + marker
	row := mergetest.Row{Tenant: tenant, ID: marker, B: &secret}
	for n := range 3 {
		row.Operation, row.Position, row.Committed = cdc.Update, cdc.ChangePosition(0, cdc.Body{Hi: 50, Lo: 50}, uint64(n)), mergetest.Start().AddDate(0, 0, 50)
		third := len(log) / 3
		f.append(t, def, append(log[n*third:(n+1)*third:(n+1)*third], row.Lake())...)
		if n < 2 || f.dialect == artifact.Athena { // Trino's tables have optional keys, which equality deletes cannot name
			f.merge(t, def)
		} else if _, err := merge.Local(t.Context(), f.store, def, merge.Options{}); err != nil { // writes equality deletes
			t.Fatal(err)
		}
	}
	if f.bytes(t, marker) == 0 {
		t.Fatal("no file has the person: the test shows nothing")
	}
	person := strings.NewReplacer("${id}", "'"+marker+"'", "${tenant}", fmt.Sprint(tenant), "retention_threshold => '7d'", "retention_threshold => '0s'")
	where := person.Replace("id = ${id} AND tenant = ${tenant}")
	f.sql(t, "CREATE TABLE d.copy AS SELECT * FROM d.keyed_folded WHERE "+where)
	others := f.count(t, "keyed", "true") - f.count(t, "keyed", where)
	deleted := make(deletions)
	for n, part := range erasureParts(f.artifact(t, "keyed", "erase")) {
		if n == 1 {
			// What a merge does that had read the changelog before it was erased.
			f.sql(t, "DELETE FROM d.keyed_folded WHERE "+where)
			f.sql(t, "INSERT INTO d.keyed_folded SELECT * FROM d.copy")
			f.merge(t, def)
		}
		for _, statement := range part {
			if f.dialect == artifact.Athena {
				statement = asTrino(statement)
			}
			if statement = person.Replace(statement); statement == "" {
				continue
			}
			statement = deleted.fill(statement)
			rows := f.engine.sql(t, statement)
			if orphans := strings.Replace(statement, "expire_snapshots(", "remove_orphan_files(", 1); f.dialect == artifact.Athena && orphans != statement {
				f.engine.sql(t, orphans) // VACUUM does both: expiry alone leaves what the newest snapshot removed
			}
			if strings.Contains(statement, "AS cdc_left") && *rows[0][0] != "0" {
				t.Errorf("%s are left of %s", *rows[0][0], statement)
			}
		}
	}
	for _, table := range []string{"keyed", "keyed_folded"} {
		if n := f.count(t, table, where); n != 0 {
			t.Errorf("%s still has %d rows of the person", table, n)
		}
	}
	if n := f.count(t, "keyed", "true"); n != others {
		t.Errorf("the changelog has %d rows of others, want %d", n, others)
	}
	if n := f.bytes(t, marker); n != 0 {
		t.Errorf("%d files still have the person", n)
	}
}

// deletions are when the DELETE of a changelog began, and, under true, that of its
// current table.
type deletions map[bool]string

// fill takes note of a DELETE, and says when it began to a statement that asks.
func (d deletions) fill(statement string) string {
	folded := strings.Contains(statement, "_folded")
	if strings.HasPrefix(statement, "DELETE FROM") {
		d[folded] = "TIMESTAMP '" + time.Now().UTC().Format("2006-01-02 15:04:05.000") + " UTC'" //nolint:forbidigo // the engine's clock
	}
	return strings.ReplaceAll(statement, "${cdc_deleted}", d[folded])
}

// bytes counts the files of the tables keyed and keyed_folded that hold a text: a
// value in a data or delete file, or a bound in a manifest.
func (f *fixture) bytes(t *testing.T, text string) (n int) {
	t.Helper()
	s := sharedLake(t)
	duck := s.engine(t, "duckdb")
	for _, table := range []string{"keyed", "keyed_folded"} {
		found := 0
		err := filepath.WalkDir(filepath.Join(s.dir, "warehouse", f.database, table), func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			var query string
			switch filepath.Ext(path) {
			case ".parquet":
				query = "SELECT count(*) FROM read_parquet('%s') AS r WHERE CAST(r AS VARCHAR) LIKE '%%%s%%'"
			case ".avro":
				if f.dialect == artifact.Athena { // as the file says
					return nil
				}
				query = "SELECT count(*) FROM read_avro('%s') AS r WHERE CAST(r AS VARCHAR) LIKE '%%%s%%'"
			case ".json":
				content, err := os.ReadFile(path)
				if strings.Contains(string(content), text) {
					t.Logf("%s has it", path)
					n++
				}
				return err
			default:
				return nil
			}
			found++
			if *duck.sql(t, fmt.Sprintf(query, path, text))[0][0] != "0" {
				t.Logf("%s has it", path)
				n++
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if found == 0 {
			t.Fatalf("no files of %s: the test shows nothing", table)
		}
	}
	return n
}

// Retention does not conflict with a changelog that is being written.
func TestSparkRetentionBesideDelivery(t *testing.T) {
	f := newFixture(t, "spark")
	def := f.table("keyed")
	log := deliver(400, 20)
	f.append(t, def, log...)
	f.engine.sql(t, artifact.CreateCurrent(f.dialect, def, ""))
	run := func() error {
		done := make(chan error)
		go func() {
			var err error
			for _, statement := range artifact.Retention(f.dialect, def, "TIMESTAMP '2027-01-01 00:00:00 UTC'") {
				if _, failed := f.engine.call(map[string]any{"sql": statement}); failed != nil {
					err = errors.Join(err, failed)
				}
			}
			done <- err
		}()
		for appended := 0; ; appended++ {
			select {
			case err := <-done:
				if appended == 0 {
					t.Fatal("nothing was delivered meanwhile: the test shows nothing")
				}
				return err
			case <-time.After(300 * time.Millisecond << min(appended, 4)): // a slow statement needs a gap to commit in
				err := sink.ErrConflict
				for errors.Is(err, sink.ErrConflict) { // with the statement's own commit
					err = mergetest.Append(t.Context(), f.store, def, log[appended%len(log)])
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if err := run(); err != nil {
		t.Errorf("retention beside delivery: %v", err)
	}
	f.sql(t, "ALTER TABLE d.keyed SET TBLPROPERTIES ('write.merge.isolation-level' = 'serializable')")
	f.append(t, def, log...)
	if err := run(); err == nil {
		t.Error("with serializable merges it does not conflict either: the test shows nothing")
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

// timeOf is the time of a row of a changelog of mergetest, "" for the beginning: a
// load has that of its floor.
func timeOf(t testing.TB, def *catalog.Table, row [][]byte) string {
	t.Helper()
	data := len(names(def))
	if row[data+1] != nil {
		return string(row[data+1])
	}
	n, err := strconv.ParseUint(string(row[data][21:37]), 16, 16)
	if err != nil {
		t.Fatal(err)
	}
	at := mergetest.Start().AddDate(0, 0, int(n))
	if len(def.Key) == 0 {
		at = mergetest.Start().Add(time.Duration(n) * time.Hour)
	}
	if n == 0 {
		return ""
	}
	return at.Format("2006-01-02T15:04:05.000000Z")
}

// checkHistory wants the history as of the position and the time of some rows
// to be the fold of everything up to them, and its open rows to be the current ones.
func checkHistory(t *testing.T, e *engine, dialect artifact.Dialect, def *catalog.Table, log [][][]byte, ats ...int) {
	t.Helper()
	data := len(names(def))
	// Rows of one key at one position are one change, at the latest of their times.
	times := make(map[string]string)
	change := func(row [][]byte) string {
		id := string(row[data])
		for n, name := range names(def) {
			if def.IsKey(name) {
				id += " " + string(row[n])
			}
		}
		return id
	}
	for _, row := range log {
		times[change(row)] = max(times[change(row)], timeOf(t, def, row))
	}
	timed := make([][][]byte, len(log))
	for i, row := range log {
		timed[i] = slices.Clone(row)
		if at := times[change(row)]; at != "" {
			timed[i][data+1] = []byte(at)
		}
	}
	asOf := func(query string, in func(row [][]byte) bool) {
		t.Helper()
		var until [][][]byte
		for _, row := range timed {
			if in(row) {
				until = append(until, row)
			}
		}
		if diff := mergetest.Diff(fold(t, def, until), historyRows(t, e, def, query), false, names(def)); diff != "" {
			t.Fatalf("%s:\n%s", query, diff)
		}
	}
	for _, at := range ats {
		position, committed := string(log[at][data]), string(timed[at][data+1])
		seconds := "1999-12-31 00:00:00"
		if committed != "" {
			seconds = strings.Replace(committed[:19], "T", " ", 1)
		}
		asOf(artifact.AsOfPosition(dialect, def, position), func(row [][]byte) bool { return string(row[data]) <= position })
		asOf(artifact.AsOfTime(dialect, def, seconds), func(row [][]byte) bool { return string(row[data+1]) <= committed })
	}
	open := *e.sql(t, fmt.Sprintf("SELECT count(*) FROM %s.%s_history WHERE cdc_valid_to_position IS NULL", def.Database(), def.Name()))[0][0]
	if diff := cmp.Diff(fmt.Sprint(len(fold(t, def, log))), open); diff != "" {
		t.Errorf("rows of the history that are current (-want +got):\n%s", diff)
	}
}

// historyRows reads the rows that a query of the history gives, with the times
// from which on they were current in the place of those of their commits.
func historyRows(t testing.TB, e *engine, def *catalog.Table, query string) map[string]mergetest.Current {
	t.Helper()
	columns := currentColumns(def)
	selected := strings.Replace(e.list(columns), catalog.ColumnCommittedAt, "cdc_valid_from", 1)
	query = strings.Replace(query, "SELECT *", "SELECT "+selected, 1)
	if e.name == "duckdb" {
		query = strings.ReplaceAll(query, "`", `"`)
	}
	return parseRows(t, e, def, columns, query)
}

// erasureParts splits a generated erasure into the statements before the merge
// that it asks for, and those after it.
func erasureParts(text string) [][]string {
	var out [][]string
	for part := range strings.SplitSeq(text, "-- Now run icehose merge") {
		if len(out) > 0 { // the rest of that line
			_, part, _ = strings.Cut(part, "\n")
		}
		out = append(out, statements(part))
	}
	return out
}
