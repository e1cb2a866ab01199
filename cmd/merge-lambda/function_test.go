package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	service "github.com/aws/aws-sdk-go-v2/service/athena"
	"github.com/aws/aws-sdk-go-v2/service/athena/types"
	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/internal/cwtest"
	"icehose/internal/gluetest"
	"icehose/internal/lambdalog"
	"icehose/sink/iceberg"
	"icehose/sink/merge/athena"
	"icehose/sink/merge/mergetest"
)

// value is one that no log, metric or answer may hold.
const value = "kept-from-every-log"

const testPipeline = `version: 1
database: lake
source: {engine: postgresql, position: postgres}
readers: [icehose, athena]
tables:
  - {source: s.a, mode: changelog, key: [id], columns: &columns [{name: id, type: int}, {name: note, type: string}]}
  - {source: s.b, mode: changelog, key: [id], columns: *columns}
  - {source: s.c, mode: changelog, key: [id], columns: *columns}
  - {source: s.m, mode: mirror, key: [id], columns: *columns}
`

// A world is Glue and S3 with three changelogs of a row each, and an Athena that
// does what the statements of a merge say, by other means.
type world struct {
	t        *testing.T
	cloud    *gluetest.Cloud
	store    *iceberg.Store
	pipeline *catalog.Pipeline
	function *function
	log      bytes.Buffer
	metrics  bytes.Buffer

	started  []string // kind of statement and table
	fails    string   // table of which each statement fails
	never    string   // table of which no statement ends
	stranger string   // table that has positions of two kinds
	below    string   // table of which the numbering has restarted
	stopped  int
	kind     map[string]types.StatementType // by query
	answers  map[string][]string
}

var _ athena.API = (*world)(nil)

func newWorld(t *testing.T) *world {
	t.Helper()
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	w := &world{t: t, cloud: gluetest.Start(t), kind: map[string]types.StatementType{}, answers: map[string][]string{}}
	file := filepath.Join(t.TempDir(), "pipeline.yaml")
	if err := os.WriteFile(file, []byte(testPipeline), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	if w.pipeline, err = catalog.Parse(file, []byte(testPipeline)); err != nil {
		t.Fatal(err)
	}
	var properties []string
	for name, value := range w.cloud.Properties() {
		properties = append(properties, name+"="+value)
	}
	properties = append(properties, "glue.endpoint="+w.cloud.GlueURL)
	s, err := parseSettings([]string{
		"ICEHOSE_PIPELINE=" + file, "ICEHOSE_WAREHOUSE=" + w.cloud.Warehouse, "ICEHOSE_WORKGROUP=shop-maintenance",
		"ICEHOSE_PROP=" + strings.Join(properties, ";"), "AWS_LAMBDA_RUNTIME_API=x",
	})
	if err != nil {
		t.Fatal(err)
	}
	if w.function, err = newFunction(t.Context(), s, lambdalog.New(&w.log, s.level), &w.metrics); err != nil {
		t.Fatal(err)
	}
	w.function.queries = &athena.Client{API: w, Workgroup: s.workgroup, Poll: time.Microsecond}
	if w.store, err = s.lake.OpenLake(t.Context(), iceberg.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.store.Close() })
	for _, table := range w.pipeline.Tables {
		w.append(t.Context(), table, "0000.00000000000000090000000000000009.1.0000000000000001")
	}
	return w
}

// append adds a row to a table.
func (w *world) append(ctx context.Context, table *catalog.Table, position string) {
	w.t.Helper()
	columns, _ := table.LakeColumns()
	row := make([][]byte, len(columns))
	for i, c := range columns {
		switch c.Name {
		case "id":
			row[i] = fmt.Append(nil, len(w.started)+1)
		case "note":
			row[i] = []byte(value)
		case catalog.ColumnPosition:
			row[i] = []byte(position)
		case catalog.ColumnOperation:
			row[i] = []byte("insert")
		}
	}
	if err := mergetest.Append(ctx, w.store, table, row); err != nil {
		w.t.Error(err)
	}
}

var statement = regexp.MustCompile("(?s)^([A-Z]+).*?[\"`]lake[\"`]\\.[\"`]([abc])(?:_folded)?[\"`]")

// StartQueryExecution implements athena.API.
func (w *world) StartQueryExecution(ctx context.Context, in *service.StartQueryExecutionInput, _ ...func(*service.Options)) (*service.StartQueryExecutionOutput, error) {
	found := statement.FindStringSubmatch(*in.QueryString)
	if found == nil || aws.ToString(in.WorkGroup) != "shop-maintenance" || strings.Contains(*in.QueryString, "${") {
		return nil, fmt.Errorf("statement in %s: %s", aws.ToString(in.WorkGroup), *in.QueryString)
	}
	kind, name := found[1], found[2]
	w.started = append(w.started, kind+" "+name)
	if name == w.fails {
		return nil, errors.New("ThrottlingException")
	}
	id := fmt.Sprint(name, len(w.started))
	current := w.pipeline.ByTarget("lake", name).Current()
	switch kind {
	case "CREATE":
		w.kind[id] = types.StatementTypeDdl
		if _, err := w.store.OpenTable(ctx, current); err != nil {
			return nil, err
		}
	case "SELECT":
		w.kind[id] = types.StatementTypeDml
		position, below := "0000.00000000000000090000000000000009.1.0000000000000001", "0"
		stranger := ""
		if name == w.stranger {
			stranger = position
		}
		if name == w.below {
			below = "2"
		}
		w.answers[id] = []string{"3", "1", position, "0", stranger, "", "", "", below}
	case "MERGE":
		w.kind[id] = types.StatementTypeDml
		w.append(ctx, current, "0000.00000000000000090000000000000009.1.0000000000000001")
		w.answers[id] = []string{"3"}
	default:
		return nil, errors.New("unknown statement " + kind)
	}
	return &service.StartQueryExecutionOutput{QueryExecutionId: &id}, nil
}

// GetQueryExecution implements athena.API.
func (w *world) GetQueryExecution(_ context.Context, in *service.GetQueryExecutionInput, _ ...func(*service.Options)) (*service.GetQueryExecutionOutput, error) {
	state := types.QueryExecutionStateSucceeded
	if w.never != "" && strings.HasPrefix(*in.QueryExecutionId, w.never) {
		state = types.QueryExecutionStateRunning
	}
	return &service.GetQueryExecutionOutput{QueryExecution: &types.QueryExecution{
		StatementType: w.kind[*in.QueryExecutionId], Status: &types.QueryExecutionStatus{State: state},
		Statistics: &types.QueryExecutionStatistics{DataScannedInBytes: aws.Int64(42)},
	}}, nil
}

// GetQueryResults implements athena.API.
func (w *world) GetQueryResults(_ context.Context, in *service.GetQueryResultsInput, _ ...func(*service.Options)) (*service.GetQueryResultsOutput, error) {
	header, row := types.Row{}, types.Row{}
	for i, text := range w.answers[*in.QueryExecutionId] {
		header.Data = append(header.Data, types.Datum{VarCharValue: aws.String(fmt.Sprint("column", i))})
		row.Data = append(row.Data, types.Datum{VarCharValue: &text})
	}
	return &service.GetQueryResultsOutput{ResultSet: &types.ResultSet{Rows: []types.Row{header, row}}}, nil
}

// StopQueryExecution implements athena.API.
func (w *world) StopQueryExecution(context.Context, *service.StopQueryExecutionInput, ...func(*service.Options)) (*service.StopQueryExecutionOutput, error) {
	w.stopped++
	return &service.StopQueryExecutionOutput{}, nil
}

// invoke runs the function once. No value of a row may leave it.
func (w *world) invoke(ctx context.Context, event string) (o outcome, err error) {
	w.t.Helper()
	w.started, w.stopped = nil, 0
	w.log.Reset()
	w.metrics.Reset()
	answer, err := w.function.Invoke(ctx, []byte(event))
	if err == nil {
		if err := json.Unmarshal(answer, &o); err != nil {
			w.t.Fatal(err)
		}
	}
	if said := fmt.Sprint(w.log.String(), w.metrics.String(), string(answer), err); strings.Contains(said, value) {
		w.t.Errorf("a value of a row is in\n%s", said)
	}
	return o, err
}

// lines returns the lines of the log with a message, by table.
func (w *world) lines(message string) map[string]map[string]any {
	w.t.Helper()
	lines := map[string]map[string]any{}
	for text := range strings.Lines(w.log.String()) {
		var line map[string]any
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			w.t.Fatalf("%s: %v", text, err)
		}
		if line["message"] == message {
			table, _ := line["table"].(string)
			lines[table] = line
		}
	}
	return lines
}

// sums adds up the metrics of all tables.
func (w *world) sums() map[string]float64 {
	w.t.Helper()
	sums := map[string]float64{}
	for text := range strings.Lines(w.metrics.String()) {
		metrics, err := cwtest.Embedded(text)
		if err != nil {
			w.t.Fatal(err)
		}
		var line map[string]any
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			w.t.Fatal(err)
		}
		for _, m := range metrics {
			if n, ok := line[m.Name].(float64); ok && len(m.Dimensions) == 1 && m.Namespace == "icehose" && m.Name != "merge_duration" {
				sums[m.Name] += n
			}
		}
	}
	return sums
}

func TestMerge(t *testing.T) {
	w := newWorld(t)
	o, err := w.invoke(t.Context(), `{"tables":[]}`)
	if err != nil {
		t.Fatal(err)
	}
	o.Seconds = 0
	want := outcome{Tables: 3, Read: 9, Late: 3, Changed: 3, Deleted: 6, PutOff: []string{}}
	if diff := cmp.Diff(want, o); diff != "" {
		t.Errorf("answer (-want +got):\n%s\n%s", diff, &w.log)
	}
	slices.Sort(w.started)
	if got, want := strings.Join(w.started, "|"), "CREATE a|CREATE b|CREATE c|MERGE a|MERGE b|MERGE c|SELECT a|SELECT b|SELECT c"; got != want {
		t.Errorf("statements %s, want %s", got, want)
	}
	for _, table := range []string{"s.a", "s.b", "s.c"} {
		line := w.lines("table merged")[table]
		if line["read"] != 3.0 || line["late"] != 1.0 || line["changed"] != 1.0 || line["deleted"] != 2.0 || line["scanned_bytes"] != 84.0 || line["level"] != "INFO" {
			t.Errorf("%s: line %v", table, line)
		}
	}
	if diff := cmp.Diff(map[string]float64{
		"merge_failed": 0, "merge_put_off": 0, "merge_read": 9, "merge_changed": 3, "merge_deleted": 6, "merge_late": 3, "merge_regressed": 0, "merge_scanned": 252,
	}, w.sums()); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}

	// What is noted is not merged again, and a table that is named is merged alone.
	if o, err = w.invoke(t.Context(), `{}`); err != nil || o.Tables != 3 || o.Read != 0 || len(w.started) > 0 {
		t.Errorf("nothing new: %+v, %v, statements %q", o, err, w.started)
	}
	w.append(t.Context(), w.pipeline.ByTarget("lake", "b"), "0000.00000000000000100000000000000010.1.0000000000000001")
	if o, err = w.invoke(t.Context(), `{"tables":["s.b"]}`); err != nil || o.Tables != 1 || o.Read != 3 || strings.Join(w.started, "|") != "SELECT b|MERGE b" {
		t.Errorf("s.b alone: %+v, %v, statements %q", o, err, w.started)
	}
}

// What fails or is refused fails the invocation, and keeps nothing else from being
// merged.
func TestTrouble(t *testing.T) {
	w := newWorld(t)
	w.fails, w.stranger, w.below = "a", "b", "c"
	_, err := w.invoke(t.Context(), `{}`)
	for _, want := range []string{"merge lake.a: ", "ThrottlingException", "merge lake.b: refused: ", "position_regressed: lake.c_folded: 2 changes lie below"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
	failed := w.lines("table not merged")
	if len(failed) != 2 || failed["s.a"]["refused"] != false || failed["s.b"]["refused"] != true || failed["s.b"]["level"] != "ERROR" {
		t.Errorf("lines %v", failed)
	}
	if line := w.lines("table merged")["s.c"]; line["regressed"] != 2.0 || line["level"] != "WARN" {
		t.Errorf("line of s.c: %v", line)
	}
	if sums := w.sums(); sums["merge_failed"] != 2 || sums["merge_regressed"] != 2 || sums["merge_changed"] != 1 {
		t.Errorf("metrics %v", sums)
	}
	w.fails, w.stranger, w.below = "", "", ""
	if o, err := w.invoke(t.Context(), `{}`); err != nil || o.Tables != 3 || o.Read != 6 {
		t.Errorf("the next run: %+v, %v", o, err)
	}
	for event, want := range map[string]string{
		`{"tables":["s.none"]}`: "no table s.none",
		`{"tables":["s.m"]}`:    "table s.m is a mirror: only a changelog is merged",
		`{"table":"s.a"}`:       `read event: want {"tables":["schema.table"]}`,
		`[`:                     "read event",
	} {
		if _, err := w.invoke(t.Context(), event); err == nil || !strings.Contains(err.Error(), want) || len(w.started) > 0 {
			t.Errorf("%s: %v, want %q", event, err, want)
		}
	}
}

// A statement that does not end in time is stopped, and the tables after it are
// put off; the next run has both.
func TestTime(t *testing.T) {
	w := newWorld(t)
	for while := time.Second; ; while *= 2 {
		w.never = "b"
		ctx, cancel := context.WithTimeout(t.Context(), while)
		_, err := w.invoke(ctx, `{"tables":["s.b","s.c","s.a"]}`)
		cancel()
		if w.stopped == 0 {
			continue // it has not come so far
		}
		if err == nil || !strings.Contains(err.Error(), "merge lake.b: ") || !strings.Contains(err.Error(), errTime.Error()) {
			t.Errorf("error %v, want one that says why s.b was stopped", err)
		}
		break
	}
	if ended := w.lines("run ended")[""]; !cmp.Equal(ended["put_off"], []any{"s.c", "s.a"}) || ended["level"] != "WARN" {
		t.Errorf("line %v", ended)
	}
	if sums := w.sums(); sums["merge_failed"] != 1 || sums["merge_put_off"] != 2 {
		t.Errorf("metrics %v", sums)
	}
	w.never = ""
	if o, err := w.invoke(t.Context(), `{}`); err != nil || o.Tables != 3 || o.Read != 9 {
		t.Errorf("the next run: %+v, %v", o, err)
	}
}

// Where several tables take all of the time, no order keeps the same ones waiting.
func TestOrder(t *testing.T) {
	w := newWorld(t)
	first := map[string]bool{}
	for range 200 {
		w.fails = "a"
		if _, err := w.invoke(t.Context(), `{}`); err == nil {
			t.Fatal("s.a was merged")
		}
		var line struct{ Table string }
		text, _, _ := strings.Cut(w.metrics.String(), "\n")
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatal(err)
		}
		if first[line.Table] = true; len(first) == 3 {
			return
		}
	}
	t.Errorf("only %v come first", first)
}

func TestLimits(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for left, want := range map[time.Duration][2]time.Duration{
		15 * time.Minute: {10 * time.Minute, 14*time.Minute + 30*time.Second},
		time.Minute:      {40 * time.Second, 48 * time.Second},
	} {
		ctx, cancel := context.WithDeadline(t.Context(), now.Add(left))
		begin, end := limits(ctx, now)
		cancel()
		if begin.Sub(now) != want[0] || end.Sub(now) != want[1] {
			t.Errorf("%v: begins until %v, ends at %v; want %v", left, begin.Sub(now), end.Sub(now), want)
		}
	}
	if begin, end := limits(t.Context(), now); !begin.IsZero() || !end.IsZero() {
		t.Errorf("without a deadline: %v, %v", begin, end)
	}
}
