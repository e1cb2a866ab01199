// Package mergetest makes changelogs that are hard to merge, and says what
// their fold is: for tests of package merge, and of the generated SQL on real
// engines.
//
// Log draws changes from a seed: any operations in any order, key changes that
// leave columns out, repeated rows. Traps are small changelogs, each of which
// some tool in the world gets wrong.
package mergetest

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/sink"
)

// Pipeline defines the tables keyed, unkeyed and plain, each with a partition a
// day of commit: a key of two columns and columns that a change may leave out; no
// key; neither. Of the floors at which keyed is loaded, two are announced, the
// first load needs none, and the last is that of a repair.
const Pipeline = `version: 1
database: d
source: {engine: postgresql, position: postgres}
readers: [icehose, spark, trino, athena]
tables:
  - source: s.keyed
    mode: changelog
    key: [id, tenant]
    partition: [day(cdc_committed_at)]
    loads:
      - {floor: "000000000000000a000000000000000a", since: 2026-01-11T00:00:00Z, finished: true}
      - {floor: "00000000000000140000000000000014", since: 2026-01-21T00:00:00Z, finished: true}
    columns:
      - {name: tenant, type: int}
      - {name: id, type: string}
      - {name: a, type: "decimal(12,2)"}
      - {name: b, type: string, may_be_unchanged: true}
      - {name: c, type: timestamptz, may_be_unchanged: true}
      - {name: grade, type: string, not_null: true, default: "new'"}
  - source: s.unkeyed
    mode: changelog
    position: column:serial
    partition: [day(cdc_committed_at)]
    columns:
      - {name: tenant, type: int}
      - {name: a, type: string}
  - source: s.plain
    mode: changelog
    key: [id]
    partition: [day(cdc_committed_at)]
    columns:
      - {name: id, type: int}
      - {name: v, type: string}
`

// Before is Pipeline before the column grade was added to the table keyed.
func Before() string {
	return strings.Replace(Pipeline, "      - {name: grade, type: string, not_null: true, default: \"new'\"}\n", "", 1)
}

// RowBefore takes the column grade out of a row of the table keyed.
func RowBefore(row [][]byte) [][]byte {
	return slices.Delete(slices.Clone(row), columnGrade, columnGrade+1)
}

// NullGrade is what a row from before the column grade reads like after it.
func NullGrade(row [][]byte) [][]byte {
	row = slices.Clone(row)
	row[columnGrade] = nil
	return row
}

// A Row is a row of the table keyed, as delivered.
type Row struct {
	Tenant    int
	Position  cdc.Position
	Operation cdc.Operation
	ID        string
	OldID     string // empty when the key did not change
	A, B, C   *string
	Grade     *string // null before the column was added
	Absent    []string
	Committed time.Time // zero for a load
}

// columns of the table keyed, in the order of its definition.
const (
	columnTenant = iota
	columnID
	columnA
	columnB
	columnC
	columnGrade
	dataColumns
)

// Start is when the first change is committed.
func Start() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

// bodyOf is the body of a position of PostgreSQL's kind: two numbers.
func bodyOf(n int) cdc.Body { return cdc.Body{Hi: uint64(n), Lo: uint64(n)} } //nolint:gosec // not negative

// ChangeAt is the position of a change of the table keyed.
func ChangeAt(n int) cdc.Position { return cdc.ChangePosition(0, bodyOf(n), 1) }

// committed is the text of a commit time, nil for none.
func committed(at time.Time) []byte {
	if at.IsZero() {
		return nil
	}
	return []byte(at.UTC().Format("2006-01-02T15:04:05.000000Z"))
}

func text(s *string) []byte {
	if s == nil {
		return nil
	}
	return append([]byte{}, *s...)
}

// values are the texts of the data columns.
func (r *Row) values() [][]byte {
	return [][]byte{strconv.AppendInt(nil, int64(r.Tenant), 10), []byte(r.ID), text(r.A), text(r.B), text(r.C), text(r.Grade)}
}

// Lake returns the texts of the row's lake columns.
func (r *Row) Lake() [][]byte {
	row := append(r.values(), []byte(r.Position), committed(r.Committed), []byte(r.Operation.String()), nil, nil)
	if r.OldID != "" {
		key, err := json.Marshal([]string{r.OldID, strconv.Itoa(r.Tenant)})
		if err != nil {
			panic(err)
		}
		row[dataColumns+3] = key
	}
	if len(r.Absent) > 0 {
		row[dataColumns+4] = []byte(strings.Join(r.Absent, ","))
	}
	return row
}

// Log returns the changelog of one tenant in the order of delivery.
func Log(seed uint64, tenant int) []Row {
	r := mathrand.New(mathrand.NewPCG(seed, uint64(tenant))) //nolint:gosec // a tenant is not negative
	some := func(format string) *string {
		if r.IntN(4) == 0 {
			return nil
		}
		s := fmt.Sprintf(format, r.IntN(1000))
		return &s
	}
	ids := []string{"w", "x'", "y\"", "z,\\"}
	var log []Row
	for n := range 4 + r.IntN(16) {
		row := Row{Tenant: tenant, ID: ids[r.IntN(len(ids))], A: some("%d.50"), B: some("v%d'"), C: some("2026-02-03T04:05:06.%06dZ"), Grade: some("g%d")}
		row.Operation = []cdc.Operation{cdc.Load, cdc.Insert, cdc.Update, cdc.Update, cdc.Update, cdc.Delete}[r.IntN(6)]
		day := 1 + r.IntN(40)
		if row.Operation == cdc.Load {
			day = (day - 1) / 10 * 10 // the floor of a first load is zero
			position, err := cdc.LoadPosition(0, bodyOf(day), Start().AddDate(0, 0, day), cdc.Origin{Shard: "shardId-000000000000", Sequence: strconv.Itoa(n)})
			if err != nil {
				panic(err)
			}
			row.Position = position
		} else {
			row.Position = cdc.ChangePosition(0, bodyOf(day), uint64(n))
			row.Committed = Start().AddDate(0, 0, day)
		}
		switch {
		case row.Operation == cdc.Delete:
			row.A, row.B, row.C, row.Grade = nil, nil, nil, nil
		case row.Operation == cdc.Update && r.IntN(2) == 0:
			row.Absent, row.B = append(row.Absent, "b"), nil
			if r.IntN(2) == 0 {
				row.Absent, row.C = append(row.Absent, "c"), nil
			}
		}
		if old := ids[r.IntN(len(ids))]; row.Operation == cdc.Update && r.IntN(4) == 0 && old != row.ID {
			row.OldID = old
		}
		log = append(log, row)
		if r.IntN(4) == 0 {
			log = append(log, row)
		}
	}
	r.Shuffle(len(log), func(i, j int) { log[i], log[j] = log[j], log[i] })
	return log
}

// Copies returns the rows, each followed now and then by one of the same position
// that differs: what another pipeline file has made of the same record.
func Copies(seed uint64, log []Row) []Row {
	r := mathrand.New(mathrand.NewPCG(seed, 2)) //nolint:gosec // a test
	some := func(format string) *string {
		if r.IntN(3) == 0 {
			return nil
		}
		s := fmt.Sprintf(format, r.IntN(1000)-r.IntN(2)*900)
		return &s
	}
	var out []Row
	for _, row := range log {
		out = append(out, row)
		if row.Operation == cdc.Delete || r.IntN(3) > 0 {
			continue
		}
		row.A, row.Grade = some("%d.50"), some("n%d")
		if !row.Committed.IsZero() { // a load has no time, however often it comes
			row.Committed = row.Committed.Add(time.Duration(r.IntN(3)) * time.Hour)
		}
		row.B, row.C, row.Absent = some("v%d"), nil, nil
		if row.Operation == cdc.Update {
			if r.IntN(2) == 0 {
				row.B, row.Absent = nil, []string{"b"}
			}
			if r.IntN(2) == 0 {
				row.Absent = append(row.Absent, "c")
			}
		}
		out = append(out, row)
	}
	r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// Append adds rows, given as the texts of lake columns, to a changelog.
func Append(ctx context.Context, store sink.Store, t *catalog.Table, rows ...[][]byte) error {
	log, err := store.OpenTable(ctx, t)
	if err != nil {
		return fmt.Errorf("append to %s: %w", t.Name(), err)
	}
	state, err := log.Load(ctx)
	if err != nil {
		return fmt.Errorf("append to %s: %w", t.Name(), err)
	}
	id := rand.Text()
	err = log.Commit(ctx, &sink.Batch{
		Parent: state.Properties[sink.PropertyCommit], ID: id, Properties: map[string]string{sink.PropertyCommit: id}, Inserts: sink.NewRows(rows...),
	})
	if err != nil {
		return fmt.Errorf("append to %s: %w", t.Name(), err)
	}
	return nil
}

// A Current is a current row: texts of the columns of the current table but
// cdc_unresolved, "NULL" for null, and the names of the columns in that.
type Current struct {
	Values     []string
	Unresolved []string
}

// Fold returns the current rows of a changelog by key, given the texts of its
// lake columns: what sink.Folder says, with the defaults of later columns.
func Fold(t *catalog.Table, rows [][][]byte) (map[string]Current, error) {
	reader, err := sink.NewChangelogReader(t)
	if err != nil {
		return nil, err
	}
	columns, data := t.LakeColumns()
	folder := sink.FolderOf(t, append(slices.Clone(columns[:data]), columns[data+1]))
	for passes := 1; passes == 1 || folder.Again(); passes++ {
		for _, values := range rows {
			row, err := reader.Row(values)
			if err != nil {
				return nil, err
			}
			row.Values = append(slices.Clone(values[:data]), values[data+1])
			folder.Add(row)
		}
	}
	out := make(map[string]Current)
	for row, err := range folder.Rows() {
		if err != nil {
			return nil, err
		}
		var c Current
		for i, v := range row.Values {
			if i < data && v == nil && columns[i].Default != nil && !slices.Contains(row.Unknown, i) {
				v = []byte(*columns[i].Default)
			}
			if i == data {
				c.Values = append(c.Values, string(row.Position))
			}
			c.Values = append(c.Values, show(v))
		}
		for _, i := range row.Unknown {
			c.Unresolved = append(c.Unresolved, columns[i].Name)
		}
		out[KeyOf(t, c.Values)] = c
	}
	return out, nil
}

func show(v []byte) string {
	if v == nil {
		return "NULL"
	}
	return string(v)
}

// KeyOf is the key of a row as one text; the position without a key.
func KeyOf(t *catalog.Table, values []string) string {
	columns, data := t.LakeColumns()
	if len(t.Key) == 0 {
		return values[data]
	}
	parts := make([]string, len(t.Key))
	for n, name := range t.Key {
		parts[n] = values[slices.IndexFunc(columns, func(c catalog.Column) bool { return c.Name == name })]
	}
	return strings.Join(parts, "\x00")
}

// Diff compares current rows with what they must be; "" if they are equal. A
// column that got says it does not know is not compared, if it is null, unless
// exact is set.
func Diff(want, got map[string]Current, exact bool, columns []string) string {
	var b strings.Builder
	for key, g := range got {
		w, ok := want[key]
		if !ok {
			fmt.Fprintf(&b, "row %q should not be there\n", key)
			continue
		}
		for i, v := range g.Values {
			unknown := i < len(columns) && slices.Contains(g.Unresolved, columns[i])
			switch {
			case !unknown && v != w.Values[i], unknown && v != "NULL":
				fmt.Fprintf(&b, "row %q: value %d is %q, want %q\n", key, i, v, w.Values[i])
			case unknown && exact && !slices.Contains(w.Unresolved, columns[i]):
				fmt.Fprintf(&b, "row %q: column %s is not resolved\n", key, columns[i])
			}
		}
		for _, name := range w.Unresolved {
			if !slices.Contains(g.Unresolved, name) {
				fmt.Fprintf(&b, "row %q: column %s is not known, and not said to be so\n", key, name)
			}
		}
	}
	for key := range want {
		if _, ok := got[key]; !ok {
			fmt.Fprintf(&b, "row %q is missing\n", key)
		}
	}
	return b.String()
}

// UnkeyedLog returns a changelog of the table unkeyed, in the order of
// delivery, as the texts of lake columns: loads of several floors, inserts and
// repeated rows.
func UnkeyedLog(seed uint64) [][][]byte {
	r := mathrand.New(mathrand.NewPCG(seed, 1)) //nolint:gosec // a test
	var log [][][]byte
	for n := range 24 {
		body := cdc.Body{Lo: uint64(r.IntN(12))}
		operation, position, at := cdc.Insert, cdc.ChangePosition(0, body, uint64(n)), Start().Add(time.Duration(body.Lo)*time.Hour) //nolint:gosec // below 12
		if r.IntN(2) == 0 {
			body.Lo = uint64(r.IntN(3)) * 3
			p, err := cdc.LoadPosition(0, body, Start().Add(time.Duration(body.Lo)*time.Hour), cdc.Origin{Sequence: strconv.Itoa(n)}) //nolint:gosec // below 12
			if err != nil {
				panic(err)
			}
			operation, position, at = cdc.Load, p, time.Time{}
		}
		row := [][]byte{
			[]byte("1"), []byte(fmt.Sprint("v", n, "'")), []byte(position), committed(at), []byte(operation.String()), nil, nil,
		}
		log = append(log, row)
		if r.IntN(3) == 0 {
			log = append(log, row)
		}
	}
	r.Shuffle(len(log), func(i, j int) { log[i], log[j] = log[j], log[i] })
	return log
}

// UnkeyedAgain are the rows of such a changelog as they come when their records
// are delivered again to another pipeline file, with times that are later: of each
// column a fold keeps the greatest value.
func UnkeyedAgain(log [][][]byte) [][][]byte {
	again := make([][][]byte, len(log))
	for i, row := range log {
		again[i] = slices.Clone(row)
		again[i][1] = []byte([]string{"", "w"}[i%2])
		if row[3] != nil { // a load has no time, however often it comes
			again[i][3] = committed(Start().AddDate(0, 0, 1))
		}
	}
	return again
}
