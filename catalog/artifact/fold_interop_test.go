//go:build interop

package artifact_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/catalog/artifact"
	"icehose/cdc"
	"icehose/sink"
)

var python = flag.String("python", "", "Python that has the packages of interop/requirements.txt")

const foldPipeline = head + `  - source: s.keyed
    mode: changelog
    key: [id, tenant]
    columns:
      - {name: tenant, type: int}
      - {name: id, type: string}
      - {name: a, type: string}
      - {name: b, type: string, may_be_unchanged: true}
      - {name: c, type: string, may_be_unchanged: true}
  - source: s.unkeyed
    mode: changelog
    columns:
      - {name: tenant, type: int}
      - {name: a, type: string}
`

// A logRow is a row of a changelog, as delivered.
type logRow struct {
	tenant   int
	position cdc.Position
	op       cdc.Operation
	id       string
	oldID    string // empty when the key did not change
	a, b, c  *string
	absent   []string
}

func (r *logRow) json() map[string]any {
	out := map[string]any{
		"tenant": r.tenant, "id": r.id, "a": r.a, "b": r.b, "c": r.c,
		"cdc_position": string(r.position), "cdc_operation": r.op.String(),
	}
	if r.oldID != "" {
		text, _ := json.Marshal([]string{r.oldID, fmt.Sprint(r.tenant)})
		out["cdc_old_key"] = string(text)
	}
	if len(r.absent) > 0 {
		out["cdc_absent"] = strings.Join(r.absent, ",")
	}
	return out
}

func bytesOf(s *string) []byte {
	if s == nil {
		return nil
	}
	return []byte("=" + *s)[1:] // never nil
}

// fold adds the row to a folder of the keyed table.
func (r *logRow) fold(f *sink.Folder) {
	row := sink.FoldRow{
		Position: r.position, Operation: r.op,
		Values: [][]byte{[]byte(fmt.Sprint(r.tenant)), []byte(r.id), bytesOf(r.a), bytesOf(r.b), bytesOf(r.c)},
	}
	if r.oldID != "" {
		row.OldKey = [][]byte{[]byte(r.oldID), []byte(fmt.Sprint(r.tenant))}
	}
	for _, name := range r.absent {
		row.Absent = append(row.Absent, map[string]int{"b": 3, "c": 4}[name])
	}
	f.Add(row)
}

// randomLog returns the changelog of one tenant: any operations in any order,
// repeated here and there.
func randomLog(rng *rand.Rand, tenant int, keyed bool) []logRow {
	text := func() *string {
		if rng.IntN(4) == 0 {
			return nil
		}
		s := fmt.Sprintf("v%d'", rng.IntN(1000))
		return &s
	}
	ids := []string{"w", "x'", "y\"", "z,"}
	var log []logRow
	for n := range 2 + rng.IntN(10) {
		body := cdc.Body{Lo: uint64(rng.IntN(30))}
		r := logRow{tenant: tenant, id: ids[rng.IntN(len(ids))], a: text(), b: text(), c: text()}
		r.op = []cdc.Operation{cdc.Load, cdc.Insert, cdc.Update, cdc.Update, cdc.Update, cdc.Delete}[rng.IntN(6)]
		if !keyed {
			r.op = []cdc.Operation{cdc.Load, cdc.Insert}[rng.IntN(2)]
			if rng.IntN(3) > 0 {
				body = cdc.Body{Lo: uint64(rng.IntN(3))} // loads of one floor
			}
		}
		if r.op == cdc.Load {
			position, err := cdc.LoadPosition(0, body, time.UnixMicro(int64(n)), cdc.Origin{Shard: "shardId-000000000000", Sequence: fmt.Sprint(n)})
			if err != nil {
				panic(err)
			}
			r.position = position
		} else {
			r.position = cdc.ChangePosition(0, body, uint64(n))
		}
		switch {
		case r.op == cdc.Delete:
			r.a, r.b, r.c = nil, nil, nil
		case r.op == cdc.Update && rng.IntN(2) == 0:
			r.absent, r.b = append(r.absent, "b"), nil
			if rng.IntN(2) == 0 {
				r.absent, r.c = append(r.absent, "c"), nil
			}
		}
		if old := ids[rng.IntN(len(ids))]; r.op == cdc.Update && rng.IntN(3) == 0 && old != r.id {
			r.oldID = old
		}
		log = append(log, r)
		if rng.IntN(4) == 0 {
			log = append(log, r)
		}
	}
	rng.Shuffle(len(log), func(i, j int) { log[i], log[j] = log[j], log[i] })
	return log
}

// run executes the view and the merges of a table over a changelog.
func run(t *testing.T, dialect, table string, columns []map[string]string, log []logRow) map[string][]map[string]any {
	t.Helper()
	p, err := catalog.Parse("fold.yaml", []byte(foldPipeline))
	if err != nil {
		t.Fatal(err)
	}
	made, err := artifact.Generate(p, artifact.Options{})
	if err != nil {
		t.Fatal(err)
	}
	job := map[string]any{"dialect": dialect, "database": "d", "table": table, "columns": columns}
	for _, f := range made.Files {
		switch f.Path {
		case dialect + "/d." + table + ".current.sql":
			job["view"] = string(f.Data)
		case dialect + "/d." + table + ".merge.sql":
			job["merge"] = string(f.Data)
		}
	}
	// Loads come first, but changes that lie before or between them may be late.
	// A change that is delivered twice was committed once.
	first, second := []map[string]any{}, []map[string]any{}
	late := make(map[cdc.Position]bool)
	for i := range log {
		if _, seen := late[log[i].position]; !seen {
			late[log[i].position] = log[i].op != cdc.Load && i%2 == 1
		}
		if late[log[i].position] {
			second = append(second, log[i].json())
		} else {
			first = append(first, log[i].json())
		}
	}
	job["first"], job["second"] = first, second
	in, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	if *python == "" {
		t.Fatal("want -python: run make interop-sql")
	}
	cmd := exec.CommandContext(t.Context(), *python, "interop/fold.py")
	cmd.Stdin = bytes.NewReader(in)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("fold.py: %v\n%s", err, stderr.Bytes())
	}
	var result map[string][]map[string]any
	if err := json.Unmarshal(out, &result); err != nil {
		t.Fatal(err)
	}
	return result
}

func optional(v []byte) any {
	if v == nil {
		return nil
	}
	return string(v)
}

// The generated SQL folds any changelog as sink.Folder does, except for what it
// says itself that it does not know.
func TestSQLFoldsAsSink(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	var log []logRow
	folder := sink.NewFolder([]int{1, 0}, 5)
	for tenant := range 400 {
		log = append(log, randomLog(rng, tenant, true)...)
	}
	for pass := true; pass; pass = folder.Again() {
		for i := range log {
			log[i].fold(folder)
		}
	}
	names := []string{"tenant", "id", "a", "b", "c"}
	want := make(map[string]map[string]any)
	unknown := make(map[string][]string)
	for row, err := range folder.Rows() {
		if err != nil {
			t.Fatal(err)
		}
		key := string(row.Values[0]) + "/" + string(row.Values[1])
		want[key] = map[string]any{"cdc_position": string(row.Position)}
		for i, name := range names {
			want[key][name] = optional(row.Values[i])
		}
		for _, i := range row.Unknown {
			unknown[key] = append(unknown[key], names[i])
		}
	}
	columns := []map[string]string{
		{"name": "tenant", "type": "INTEGER"},
		{"name": "id", "type": "VARCHAR"},
		{"name": "a", "type": "VARCHAR"},
		{"name": "b", "type": "VARCHAR"},
		{"name": "c", "type": "VARCHAR"},
	}
	for _, dialect := range []string{"athena", "spark"} {
		for name, rows := range run(t, dialect, "keyed", columns, log) {
			got, expected, unresolved := make(map[string]map[string]any), make(map[string]map[string]any), 0
			maps.Copy(expected, want)
			for _, row := range rows {
				row["tenant"] = fmt.Sprint(row["tenant"])
				key := fmt.Sprintf("%v/%v", row["tenant"], row["id"])
				list, _ := row["cdc_unresolved"].(string)
				delete(row, "cdc_unresolved")
				columns := strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
				for _, column := range unknown[key] {
					if !slices.Contains(columns, column) {
						t.Errorf("%s %s: %s: column %s is not known, and not said to be so", dialect, name, key, column)
					}
				}
				if expected[key] != nil {
					expected[key] = maps.Clone(expected[key])
				}
				for _, column := range columns {
					unresolved++
					delete(row, column)
					delete(expected[key], column)
				}
				got[key] = row
			}
			if diff := cmp.Diff(expected, got); diff != "" {
				t.Errorf("%s %s (-sink +SQL):\n%s", dialect, name, diff)
			}
			t.Logf("%s %s: %d changes, %d rows, %d values unresolved", dialect, name, len(log), len(got), unresolved)
		}
	}
}

func TestSQLFoldsUnkeyedAsSink(t *testing.T) {
	for seed := range uint64(8) {
		log := randomLog(rand.New(rand.NewPCG(seed, 1)), 1, false)
		folder := sink.NewFolder(nil, 2)
		for i := range log {
			folder.Add(sink.FoldRow{Position: log[i].position, Operation: log[i].op, Values: [][]byte{[]byte("1"), bytesOf(log[i].a)}})
		}
		want := make(map[string]any)
		for row, err := range folder.Rows() {
			if err != nil {
				t.Fatal(err)
			}
			want[string(row.Position)] = optional(row.Values[1])
		}
		for _, dialect := range []string{"athena", "spark"} {
			result := run(t, dialect, "unkeyed", []map[string]string{{"name": "tenant", "type": "INTEGER"}, {"name": "a", "type": "VARCHAR"}}, log)
			for name, rows := range result {
				got := make(map[string]any)
				for _, row := range rows {
					position, _ := row["cdc_position"].(string)
					if _, twice := got[position]; twice {
						t.Errorf("%s %s, seed %d: a row is there twice", dialect, name, seed)
					}
					got[position] = row["a"]
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s %s, seed %d (-sink +SQL):\n%s", dialect, name, seed, diff)
				}
			}
		}
	}
}
