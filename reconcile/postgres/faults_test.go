//go:build postgres

package postgres_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/reconcile"
	"icehose/reconcile/lake"
	"icehose/reconcile/postgres"
	"icehose/reconcile/reconciletest"
	"icehose/sink"
	"icehose/sink/iceberg"
)

const faultPipeline = `version: 1
database: lake
source: {engine: postgresql, position: postgres}
tables:
  - source: public.t
    mode: mirror
    key: [id]
    columns:
      - {name: id, type: long}
      - {name: note, type: string}
      - {name: other, type: string}
      - {name: price, type: "decimal(12,4)"}
      - {name: weight, type: double}
      - {name: small, type: float}
      - {name: at, type: timestamptz}
      - {name: wall, type: timestamp}
      - {name: clock, type: time}
      - {name: day, type: date}
      - {name: paid, type: boolean}
      - {name: raw, type: binary}
`

// The columns of faultPipeline.
const (
	cID = iota
	cNote
	cOther
	cPrice
	cWeight
	cSmall
	cAt
	cWall
	cClock
	cDay
	cPaid
	cRaw
)

// faultRow makes the row of a key. Every row has other values.
func faultRow(id int) reconciletest.Row {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(id) * 1234567 * time.Microsecond)
	return reconciletest.MakeRow(strconv.Itoa(id), fmt.Sprintf("note %d", id), fmt.Sprintf("other %d", id), fmt.Sprintf("%d.%04d", id, id%10000),
		strconv.FormatFloat(float64(id)/7, 'g', -1, 64), strconv.FormatFloat(float64(float32(id)/3), 'g', -1, 32),
		at.Format("2006-01-02T15:04:05.000000Z"), at.Format("2006-01-02T15:04:05.000000"), at.Format("15:04:05.000000"), at.Format("2006-01-02"),
		strconv.FormatBool(id%2 == 0), fmt.Sprintf("%08x", id))
}

// A scene is the rows of both sides while faults are made.
type scene struct {
	r    *rand.Rand
	rows map[int][]reconciletest.Row // of the lake, by key
	src  map[int]reconciletest.Row
	keys []int // that have no fault yet
	next int   // a key that the source does not have
}

func (s *scene) take() int {
	key := s.keys[len(s.keys)-1]
	s.keys = s.keys[:len(s.keys)-1]
	return key
}

func (s *scene) extra() int {
	key := s.next
	s.next++
	s.rows[key] = []reconciletest.Row{faultRow(key)}
	return key
}

func found(kind reconcile.Kind, key int) reconcile.Finding {
	return reconcile.Finding{Kind: kind, Key: []string{strconv.Itoa(key)}, Rows: 1}
}

// change damages one value of the lake, given the source's.
func change(column int, source string, lake func(text string) string) func(*scene) []reconcile.Finding {
	return func(s *scene) []reconcile.Finding {
		key := s.take()
		if source != "" {
			s.src[key][column].Text = source
		}
		s.rows[key][0][column].Text = lake(s.src[key][column].Text)
		return []reconcile.Finding{found(reconcile.Differs, key)}
	}
}

func text(text string) func(string) string { return func(string) string { return text } }

// step moves a time by a microsecond.
func step(layout string) func(string) string {
	return func(text string) string {
		at, err := time.Parse(layout, text)
		if err != nil {
			return "unreadable"
		}
		return at.Add(time.Microsecond).Format(layout)
	}
}

// ulp is the next float.
func ulp(bits int) func(string) string {
	return func(text string) string {
		f, err := strconv.ParseFloat(text, bits)
		if err != nil {
			return "unreadable"
		}
		if bits == 32 {
			return strconv.FormatFloat(float64(math.Nextafter32(float32(f), math.MaxFloat32)), 'g', -1, 32)
		}
		return strconv.FormatFloat(math.Nextafter(f, math.MaxFloat64), 'g', -1, 64)
	}
}

// same is no fault at all: both sides mean one value, which the source writes
// in its own way.
func same(column int, source, lake string) func(*scene) []reconcile.Finding {
	return func(s *scene) []reconcile.Finding {
		key := s.take()
		s.src[key][column].Text, s.rows[key][0][column].Text = source, lake
		return nil
	}
}

var realFaults = []func(*scene) []reconcile.Finding{
	func(s *scene) []reconcile.Finding {
		key := s.take()
		delete(s.rows, key)
		return []reconcile.Finding{found(reconcile.Missing, key)}
	},
	func(s *scene) []reconcile.Finding { return []reconcile.Finding{found(reconcile.Extra, s.extra())} },
	func(s *scene) []reconcile.Finding {
		key := s.take()
		s.rows[key] = append(s.rows[key], s.rows[key][0])
		return []reconcile.Finding{found(reconcile.Duplicate, key)}
	},
	func(s *scene) []reconcile.Finding { // equal counts
		lost, twice := s.take(), s.take()
		delete(s.rows, lost)
		s.rows[twice] = append(s.rows[twice], s.rows[twice][0])
		return []reconcile.Finding{found(reconcile.Missing, lost), found(reconcile.Duplicate, twice)}
	},
	func(s *scene) []reconcile.Finding { // equal counts again
		lost := s.take()
		delete(s.rows, lost)
		return []reconcile.Finding{found(reconcile.Missing, lost), found(reconcile.Extra, s.extra())}
	},
	func(s *scene) []reconcile.Finding { // every column has the values it had
		a, b := s.take(), s.take()
		for _, column := range []int{cNote, cPrice, cAt} {
			s.rows[a][0][column], s.rows[b][0][column] = s.rows[b][0][column], s.rows[a][0][column]
		}
		return []reconcile.Finding{found(reconcile.Differs, a), found(reconcile.Differs, b)}
	},
	func(s *scene) []reconcile.Finding { // every row has the values it had
		key := s.take()
		row := s.rows[key][0]
		row[cNote], row[cOther] = row[cOther], row[cNote]
		return []reconcile.Finding{found(reconcile.Differs, key)}
	},
	func(s *scene) []reconcile.Finding { // NULL for the empty text, and the other way round
		a, b := s.take(), s.take()
		s.src[a][cNote].Text, s.rows[a][0][cNote] = "", reconciletest.Null()
		s.src[b][cNote], s.rows[b][0][cNote] = reconciletest.Null(), reconciletest.Value{}
		return []reconcile.Finding{found(reconcile.Differs, a), found(reconcile.Differs, b)}
	},
	change(cAt, "", step("2006-01-02T15:04:05.000000Z")), change(cWall, "", step("2006-01-02T15:04:05.000000")),
	change(cClock, "11:59:59.999998", text("11:59:59.999999")),
	change(cPrice, "1.1000", text("1.1001")), change(cPrice, "12.0000", text("1.2000")), change(cPrice, "", func(text string) string { return "-" + text }),
	change(cWeight, "", ulp(64)), change(cSmall, "", ulp(32)), change(cWeight, "NaN", text("Infinity")), change(cWeight, "5e-324", text("0")),
	change(cNote, "straße", text("strasse")), change(cNote, "Abc", text("abc")), change(cNote, "\u00e9", text("e\u0301")),
	change(cNote, "a", text("a ")), change(cNote, "N:", text("")), change(cNote, `\\`, text(`\`)),
	change(cDay, "2024-02-29", text("2024-02-28")), change(cPaid, "true", text("false")), change(cRaw, "00ff", text("00fe")), change(cRaw, "", text("00")),
	same(cWeight, "-0", "0"), same(cSmall, "-0", "0"), same(cPrice, "-0.0", "0.0000"), same(cPrice, "1.1", "1.1000"), same(cWeight, "1e3", "1000"),
	same(cAt, "2026-03-29 02:30:00+05:45", "2026-03-28T20:45:00.000000Z"), same(cDay, "20240229", "2024-02-29"), same(cRaw, "ABCD", "abcd"),
}

// A thousand seeded faults between a real PostgreSQL and a real Iceberg table:
// every one is found, with its kind and key, and none is invented; whether the
// server digests the rows or they are streamed.
func TestThousandFaults(t *testing.T) {
	p := pipeline(t, faultPipeline)
	total := 0
	for seed := range uint64(5) {
		s, want := newScene(seed, 200)
		total += 200
		dsn, conn := newDatabase(t)
		var source []reconciletest.Row
		for _, row := range s.src {
			source = append(source, row)
		}
		fill(t, conn, p, reconciletest.Tables{"public.t": source})
		lakeReader := lake.Open(faultLake(t, p.Tables[0], s))
		for _, o := range []postgres.Options{{}, {Stream: true}} {
			report, err := reconcile.Run(t.Context(), p, open(t, dsn, o), lakeReader, reconcile.Options{MaxFindings: 10_000})
			if err != nil {
				t.Fatal(err)
			}
			got := report.Tables[0]
			slices.SortFunc(got.Findings, byKey)
			if diff := gocmp.Diff(want, got.Findings); diff != "" || got.Verdict != reconcile.Different || got.Why != "" {
				t.Errorf("seed %d, stream %v: %s, %q, findings differ (-want +got):\n%s", seed, o.Stream, got.Verdict, got.Why, diff)
			}
		}
	}
	if total < 1000 {
		t.Errorf("%d faults, want 1000", total)
	}
}

func byKey(a, b reconcile.Finding) int {
	return cmp.Or(strings.Compare(a.Key[0], b.Key[0]), strings.Compare(string(a.Kind), string(b.Kind)))
}

func newScene(seed uint64, faults int) (*scene, []reconcile.Finding) {
	const rows = 900
	s := &scene{r: rand.New(rand.NewPCG(seed, 7)), rows: map[int][]reconciletest.Row{}, src: map[int]reconciletest.Row{}, next: rows}
	for key := range rows {
		s.src[key] = faultRow(key)
		s.rows[key] = []reconciletest.Row{faultRow(key)}
	}
	s.keys = s.r.Perm(rows)
	var want []reconcile.Finding
	for n := range faults {
		i := n
		if n >= len(realFaults) { // each at least once
			i = s.r.IntN(len(realFaults))
		}
		want = append(want, realFaults[i%len(realFaults)](s)...)
	}
	slices.SortFunc(want, byKey)
	return s, want
}

// faultLake writes the lake's rows in two commits.
func faultLake(t *testing.T, table *catalog.Table, s *scene) *iceberg.Store {
	t.Helper()
	store, err := iceberg.Open(t.Context(), t.TempDir(), iceberg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	opened, err := store.OpenTable(t.Context(), table)
	if err != nil {
		t.Fatal(err)
	}
	var rows [][][]byte
	for _, some := range s.rows {
		for _, row := range some {
			var texts [][]byte
			for _, v := range row {
				value := append([]byte{}, v.Text...)
				if v.Null {
					value = nil
				}
				texts = append(texts, value)
			}
			rows = append(rows, append(texts, []byte("0000.00000000000000010000000000000001.1.0000000000000001"), []byte("2026-01-01T00:00:00.000000Z")))
		}
	}
	parent := ""
	for i, part := range [][][][]byte{rows[:len(rows)/2], rows[len(rows)/2:]} {
		id := fmt.Sprint("commit-", i)
		err := opened.Commit(t.Context(), &sink.Batch{Parent: parent, ID: id, Properties: map[string]string{sink.PropertyCommit: id}, Inserts: sink.NewRows(part...)})
		if err != nil {
			t.Fatal(err)
		}
		parent = id
	}
	return store
}
