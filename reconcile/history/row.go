package history

import (
	"fmt"
	"strconv"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	iceberglib "github.com/apache/iceberg-go"

	"icehose/catalog"
	"icehose/reconcile"
)

type recordBatch = arrow.RecordBatch

// A column is one of the table, and where its value comes from.
type column struct {
	name     string
	kind     catalog.TypeKind
	required bool
	doc      string
	value    func(id string, r *reconcile.Report, t *reconcile.TableReport) string // canonical text; empty: null
}

// The types of the columns.
const (
	text    = catalog.String
	count64 = catalog.Long
	seconds = catalog.Double
	moment  = catalog.TimestampTZ
)

// columns are those of the table, in order. New ones go to the end, so that a
// field keeps its id; none may be taken out.
var columns = []column{ //nolint:gochecknoglobals // a constant, as far as Go has them for this
	{"run_id", text, true, "one run of icehose reconcile", func(id string, _ *reconcile.Report, _ *reconcile.TableReport) string { return id }},
	{"began_at", moment, true, "when the run began", func(_ string, r *reconcile.Report, _ *reconcile.TableReport) string { return timeText(r.Began) }},
	{"ended_at", moment, true, "when the run ended", func(_ string, r *reconcile.Report, _ *reconcile.TableReport) string { return timeText(r.Ended) }},
	{"run_verdict", text, true, "of all tables: equal, different or inconclusive", func(_ string, r *reconcile.Report, _ *reconcile.TableReport) string { return string(r.Verdict()) }},
	{"source_table", text, true, "schema.table of the source", ofTable(func(t *reconcile.TableReport) string { return t.Table })},
	{"lake_table", text, false, "database.table of the lake", ofTable(func(t *reconcile.TableReport) string { return t.Target })},
	{"verdict", text, true, "of this table: equal, different or inconclusive", ofTable(verdict)},
	{"why", text, false, "what could not be read or told", ofTable(func(t *reconcile.TableReport) string { return t.Why })},
	{"scope", text, false, "which rows were meant, when not all", ofTable(func(t *reconcile.TableReport) string { return t.Scope })},
	{"sampled", seconds, false, "fraction of the keys that was compared; null: all", ofTable(func(t *reconcile.TableReport) string { return fraction(t.Sampled) })},
	{"source_moment", text, false, "what the source was read at", ofTable(func(t *reconcile.TableReport) string { return t.Source.Moment })},
	{"lake_moment", text, false, "the snapshot of the lake table", ofTable(func(t *reconcile.TableReport) string { return t.Lake.Moment })},
	{"lake_position", text, false, "cdc_position of the newest change in the lake table", ofTable(newest)},
	{"source_rows", count64, false, "rows of the source; null: not read to the end", ofTable(func(t *reconcile.TableReport) string { return rows(t.Source.Rows) })},
	{"lake_rows", count64, false, "rows of the lake; null: not read to the end", ofTable(func(t *reconcile.TableReport) string { return rows(t.Lake.Rows) })},
	{"missing", count64, true, "rows that the lake does not have", counted(func(c *reconcile.Counts) uint64 { return c.Missing })},
	{"extra", count64, true, "rows that the source does not have", counted(func(c *reconcile.Counts) uint64 { return c.Extra })},
	{"differs", count64, true, "rows with other values", counted(func(c *reconcile.Counts) uint64 { return c.Differs })},
	{"stale", count64, true, "rows of an older version", counted(func(c *reconcile.Counts) uint64 { return c.Stale })},
	{"duplicate", count64, true, "rows that are there once too often", counted(func(c *reconcile.Counts) uint64 { return c.Duplicate })},
	{"in_flight", count64, true, "keys that differed and then agreed", ofTable(func(t *reconcile.TableReport) string { return strconv.Itoa(t.InFlight) })},
	{"unsettled", count64, true, "keys that kept changing", ofTable(func(t *reconcile.TableReport) string { return strconv.Itoa(t.Unsettled) })},
	{"undecided", count64, true, "keys that may still be on their way", ofTable(func(t *reconcile.TableReport) string { return strconv.Itoa(t.Undecided) })},
	{"commit_lag_seconds", seconds, false, "age of the newest change in the lake table at the source's moment", ofTable(lag)},
	{"seconds", seconds, true, "that the table took", ofTable(func(t *reconcile.TableReport) string { return number(t.Seconds) })},
	{"decided_at", moment, false, "when the verdict was reached, by this run or one that it continued", ofTable(decidedAt)},
}

func ofTable(value func(t *reconcile.TableReport) string) func(string, *reconcile.Report, *reconcile.TableReport) string {
	return func(_ string, _ *reconcile.Report, t *reconcile.TableReport) string { return value(t) }
}

func counted(value func(c *reconcile.Counts) uint64) func(string, *reconcile.Report, *reconcile.TableReport) string {
	return ofTable(func(t *reconcile.TableReport) string { return strconv.FormatUint(value(&t.Counts), 10) })
}

func timeText(t time.Time) string { return t.UTC().Format(canonicalTime) }

const canonicalTime = "2006-01-02T15:04:05.000000Z"

// verdict never is empty: a table that was not compared is inconclusive.
func verdict(t *reconcile.TableReport) string {
	if t.Verdict == "" {
		return string(reconcile.Inconclusive)
	}
	return string(t.Verdict)
}

func decidedAt(t *reconcile.TableReport) string {
	if t.DecidedAt.IsZero() {
		return ""
	}
	return timeText(t.DecidedAt)
}

func newest(t *reconcile.TableReport) string {
	if t.Lake.Newest == nil {
		return ""
	}
	return t.Lake.Newest.Position
}

func rows(n *uint64) string {
	if n == nil {
		return ""
	}
	return strconv.FormatUint(*n, 10)
}

func lag(t *reconcile.TableReport) string {
	if t.CommitLag == nil {
		return ""
	}
	return number(*t.CommitLag)
}

func fraction(f float64) string {
	if f == 0 {
		return ""
	}
	return number(f)
}

func number(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

// rowOf returns the canonical texts of a row, nil for null.
func rowOf(id string, r *reconcile.Report, t *reconcile.TableReport) [][]byte {
	row := make([][]byte, len(columns))
	for i, c := range columns {
		if value := c.value(id, r, t); value != "" {
			row[i] = []byte(value)
		}
	}
	return row
}

// schema is that of a new table.
func schema() *iceberglib.Schema {
	fields := make([]iceberglib.NestedField, len(columns))
	for i, c := range columns {
		fields[i] = iceberglib.NestedField{ID: i + 1, Name: c.name, Type: icebergType(c.kind), Required: c.required, Doc: c.doc}
	}
	return iceberglib.NewSchema(0, fields...)
}

func icebergType(kind catalog.TypeKind) iceberglib.Type {
	switch kind { //nolint:exhaustive // the types of columns
	case count64:
		return iceberglib.PrimitiveTypes.Int64
	case seconds:
		return iceberglib.PrimitiveTypes.Float64
	case moment:
		return iceberglib.PrimitiveTypes.TimestampTz
	default:
		return iceberglib.PrimitiveTypes.String
	}
}

// readColumns are what Read needs.
var readColumns = []catalog.Column{ //nolint:gochecknoglobals // a constant, as far as Go has them for this
	{Name: "run_id", Type: catalog.Type{Kind: text}},
	{Name: "began_at", Type: catalog.Type{Kind: moment}},
	{Name: "ended_at", Type: catalog.Type{Kind: moment}},
	{Name: "run_verdict", Type: catalog.Type{Kind: text}},
	{Name: "verdict", Type: catalog.Type{Kind: text}},
	{Name: "scope", Type: catalog.Type{Kind: text}},
	{Name: "sampled", Type: catalog.Type{Kind: seconds}},
	{Name: "missing", Type: catalog.Type{Kind: count64}},
	{Name: "extra", Type: catalog.Type{Kind: count64}},
	{Name: "differs", Type: catalog.Type{Kind: count64}},
	{Name: "stale", Type: catalog.Type{Kind: count64}},
	{Name: "duplicate", Type: catalog.Type{Kind: count64}},
}

// firstCount is where the counts of findings begin in readColumns.
const firstCount = 7

// count adds a row of readColumns to its run.
func count(runs map[string]*Run, row [][]byte) error {
	id := string(row[0])
	run := runs[id]
	if run == nil {
		run = &Run{ID: id, Verdict: reconcile.Verdict(row[3])}
		var err error
		if run.Began, err = time.Parse(canonicalTime, string(row[1])); err == nil {
			run.Ended, err = time.Parse(canonicalTime, string(row[2]))
		}
		if err != nil {
			return fmt.Errorf("run %s: %w", id, err)
		}
		runs[id] = run
	}
	var findings uint64
	for _, value := range row[firstCount:] {
		n, err := strconv.ParseUint(string(value), 10, 64)
		if err != nil {
			return fmt.Errorf("run %s: a count is not a number", id)
		}
		findings += n
	}
	run.add(reconcile.Verdict(row[4]), findings, row[5] != nil || row[6] != nil)
	return nil
}
