package reconciletest

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"icehose/reconcile"
)

// FaultPipeline is the pipeline file of Faults, of a PostgreSQL.
const FaultPipeline = `version: 1
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

// The columns of FaultPipeline.
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
func faultRow(id int) Row {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(id) * 1234567 * time.Microsecond)
	return MakeRow(strconv.Itoa(id), fmt.Sprintf("note %d", id), fmt.Sprintf("other %d", id), fmt.Sprintf("%d.%04d", id, id%10000),
		strconv.FormatFloat(float64(id)/7, 'g', -1, 64), strconv.FormatFloat(float64(float32(id)/3), 'g', -1, 32),
		at.Format("2006-01-02T15:04:05.000000Z"), at.Format("2006-01-02T15:04:05.000000"), at.Format("15:04:05.000000"), at.Format("2006-01-02"),
		strconv.FormatBool(id%2 == 0), fmt.Sprintf("%08x", id))
}

// A scene is the rows of both sides while faults are made.
type scene struct {
	r    *rand.Rand
	rows map[int][]Row // of the lake, by key
	src  map[int]Row
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
	s.rows[key] = []Row{faultRow(key)}
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

// faults are made in every engine, postgresFaults in PostgreSQL alone.
var faults = []func(*scene) []reconcile.Finding{ //nolint:gochecknoglobals // constant table
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
		s.src[a][cNote].Text, s.rows[a][0][cNote] = "", Null()
		s.src[b][cNote], s.rows[b][0][cNote] = Null(), Value{}
		return []reconcile.Finding{found(reconcile.Differs, a), found(reconcile.Differs, b)}
	},
	change(cAt, "", step("2006-01-02T15:04:05.000000Z")), change(cWall, "", step("2006-01-02T15:04:05.000000")),
	change(cClock, "11:59:59.999998", text("11:59:59.999999")),
	change(cPrice, "1.1000", text("1.1001")), change(cPrice, "12.0000", text("1.2000")), change(cPrice, "", func(text string) string { return "-" + text }),
	change(cWeight, "", ulp(64)), change(cSmall, "", ulp(32)), change(cWeight, "5e-324", text("0")),
	change(cNote, "straße", text("strasse")), change(cNote, "Abc", text("abc")), change(cNote, "\u00e9", text("e\u0301")),
	change(cNote, "a", text("a ")), change(cNote, "N:", text("")), change(cNote, `\\`, text(`\`)),
	change(cDay, "2024-02-29", text("2024-02-28")), change(cPaid, "true", text("false")), change(cRaw, "00ff", text("00fe")), change(cRaw, "", text("00")),
	same(cWeight, "-0", "0"), same(cSmall, "-0", "0"), same(cPrice, "-0.0", "0.0000"), same(cPrice, "1.1", "1.1000"), same(cWeight, "1e3", "1000"),
	same(cDay, "20240229", "2024-02-29"), same(cRaw, "ABCD", "abcd"),
}

var postgresFaults = []func(*scene) []reconcile.Finding{ //nolint:gochecknoglobals // constant table
	change(cWeight, "NaN", text("Infinity")), same(cAt, "2026-03-29 02:30:00+05:45", "2026-03-28T20:45:00.000000Z"),
}

// Faults makes the rows of a source and of its lake, in which there are so
// many faults, and the findings of all of them, in the order of SortFindings.
// Some are none: both sides mean one value, written in two ways.
func Faults(seed uint64, n int, postgres bool) (source, lake []Row, want []reconcile.Finding) {
	const rows = 900
	s := &scene{r: rand.New(rand.NewPCG(seed, 7)), rows: map[int][]Row{}, src: map[int]Row{}, next: rows + 1}
	for i := range rows {
		key := i + 1
		s.keys = append(s.keys, key)
		s.src[key] = faultRow(key)
		s.rows[key] = []Row{faultRow(key)}
	}
	s.r.Shuffle(rows, func(i, j int) { s.keys[i], s.keys[j] = s.keys[j], s.keys[i] })
	kinds := faults
	if postgres {
		kinds = slices.Concat(faults, postgresFaults)
	}
	for i := range n {
		if i >= len(kinds) { // each at least once
			i = s.r.IntN(len(kinds))
		}
		want = append(want, kinds[i](s)...)
	}
	SortFindings(want)
	for _, row := range s.src {
		source = append(source, row)
	}
	for _, some := range s.rows {
		lake = append(lake, some...)
	}
	return source, lake, want
}

// SortFindings orders findings by key and kind.
func SortFindings(findings []reconcile.Finding) {
	slices.SortFunc(findings, func(a, b reconcile.Finding) int {
		return cmp.Or(strings.Compare(a.Key[0], b.Key[0]), strings.Compare(string(a.Kind), string(b.Kind)))
	})
}
