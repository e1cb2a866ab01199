package inspect_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"icehose/cdc"
	"icehose/cdc/capture"
	"icehose/cdc/inspect"
)

// A rec describes a record of table public.t; zero fields have defaults that
// make a record which nothing is wrong with.
type rec struct {
	op       string
	id       int
	shard    int
	seq      int // default: its place in the stream
	keyType  string
	tx, n    int // transaction and record number; 0: none
	prevTx   int
	prevN    int
	first    int // numbers of the stream position, default tx
	second   int
	built    int // seconds, default: its place
	data     string
	before   string
	table    string
	control  string
	noImage  bool // an update without a before-image
	lessMeta bool // without transaction details
	commit   int  // minutes, default 0
}

// stream writes records as DMS does.
func stream(recs ...rec) []capture.Record {
	out := make([]capture.Record, len(recs))
	for i, r := range recs {
		at := func(n, def int) int {
			if n == 0 {
				return def
			}
			return n
		}
		if r.keyType == "" {
			r.keyType = "primary-key"
		}
		if r.table == "" {
			r.table = "t"
		}
		if r.data == "" {
			r.data = fmt.Sprintf(`{"id":%d,"v":null}`, r.id)
		}
		kind := "data"
		if r.control != "" {
			kind, r.keyType = "control", "task-id"
		}
		meta := fmt.Sprintf(`"timestamp":"2026-01-01T00:%02d:%02d.000000Z","record-type":%q,"operation":%q,"partition-key-type":%q,"schema-name":"public","table-name":%q`,
			at(r.built, i+1)/60, at(r.built, i+1)%60, kind, r.op, r.keyType, r.table)
		if r.keyType == "primary-key" {
			meta += fmt.Sprintf(`,"partition-key-value":"public.%s.%d"`, r.table, r.id)
		}
		if r.tx > 0 {
			meta += fmt.Sprintf(`,"transaction-id":%d`, r.tx)
		}
		if r.tx > 0 && !r.lessMeta {
			meta += fmt.Sprintf(`,"transaction-record-id":%d,"commit-timestamp":"2026-01-01T00:%02d:00.000000Z"`, at(r.n, 1), r.commit)
			meta += fmt.Sprintf(`,"stream-position":"00000000/%08X.2.00000000/%08X"`, at(r.first, r.tx*16+at(r.n, 1)), at(r.second, r.tx*16))
		}
		if r.prevTx > 0 {
			meta += fmt.Sprintf(`,"prev-transaction-id":%d,"prev-transaction-record-id":%d`, r.prevTx, at(r.prevN, 1))
		}
		text := `{"data":` + r.data
		switch {
		case r.control != "":
			text = `{"control":` + r.control
		case r.before != "":
			text += `,"before-image":` + r.before
		case r.op == "update" && !r.noImage:
			text += `,"before-image":{}`
		}
		out[i] = capture.Record{
			ID: fmt.Sprint("r", i), Data: []byte(text + `,"metadata":{` + meta + `}}`), PartitionKey: fmt.Sprintf("public.%s.%d", r.table, r.id),
			Origin: cdc.Origin{Shard: fmt.Sprintf("shardId-%012d", r.shard), Sequence: fmt.Sprint(at(r.seq, 100+i))},
		}
	}
	return out
}

func report(o inspect.Options, records []capture.Record) *inspect.Report {
	in := inspect.New(o)
	for i := range records {
		in.Add(&records[i])
	}
	return in.Report()
}

const createTable = `{"table-def":{"columns":{"id":{"type":"INT32"}},"primary-key":["ID"]}}`

// calm is a stream that nothing is wrong with.
func calm() []rec {
	return []rec{
		{op: "create-table", control: createTable},
		{op: "load", id: 1},
		{op: "load", id: 2},
		{op: "insert", id: 3, tx: 5},
		{op: "update", id: 1, tx: 6, prevTx: 5},
		{op: "update", id: 1, tx: 6, n: 2, prevTx: 6},
		{op: "delete", id: 3, tx: 7, prevTx: 6, prevN: 2},
	}
}

// ids returns "severity id table count" of each finding.
func ids(r *inspect.Report) []string {
	out := []string{}
	for _, f := range r.Findings {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s %d", f.Severity, f.ID, f.Table, f.Count)))
	}
	return out
}

func TestFindings(t *testing.T) {
	t.Parallel()
	with := func(more ...rec) []rec { return append(calm(), more...) }
	wide := func(n int) string { return `{"id":9,"v":null,"w":"` + strings.Repeat("x", n) + `"}` }
	for _, test := range []struct {
		name    string
		records []rec
		options inspect.Options
		want    []string
	}{
		{"nothing", nil, inspect.Options{}, []string{}},
		{"calm", calm(), inspect.Options{}, []string{}},
		{"inversion in a shard", with(rec{op: "update", id: 3, tx: 4, prevTx: 3}), inspect.Options{}, []string{
			"problem chain_gap  1", "problem order_inverted public.t 1",
		}},
		{"inversion across shards", with(rec{op: "update", id: 3, tx: 8, prevTx: 7, shard: 1}, rec{op: "update", id: 3, tx: 8, n: 2, prevTx: 8, shard: 1}, rec{op: "update", id: 3, tx: 8, n: 3, prevTx: 8, prevN: 2}, rec{op: "update", id: 3, tx: 8, n: 2, built: 9}), inspect.Options{}, []string{
			"problem keys_on_several_shards public.t 1", "warning duplicates public.t 1",
		}},
		{"old change on another shard", with(rec{op: "update", id: 3, tx: 7, n: 3, first: 1, second: 1, prevTx: 7, shard: 1}), inspect.Options{}, []string{
			"problem keys_on_several_shards public.t 1", "warning order_inverted_across_shards public.t 1",
		}},
		{"load after change", with(rec{op: "load", id: 3}), inspect.Options{}, []string{"problem load_after_change public.t 1"}},
		{"load after change of a changelog", with(rec{op: "load", id: 3}), inspect.Options{Tables: map[string]inspect.Table{
			"public.t": {Key: []string{"ID"}, Position: cdc.PositionKind{Source: cdc.SourcePostgres}, Folded: true},
		}}, []string{"note load_after_change public.t 1"}},
		{"loaded twice", with(rec{op: "load", id: 2, built: 99}), inspect.Options{}, []string{"warning loaded_again public.t 1"}},
		{"loaded again later", with(rec{op: "create-table", control: createTable}, rec{op: "load", id: 4}), inspect.Options{}, []string{"warning loaded_after_changes public.t 1"}},
		{"key types differ", []rec{
			{op: "create-table", control: createTable},
			{op: "load", id: 1},
			{op: "update", id: 1, tx: 5, shard: 1, keyType: "schema-table"},
		}, inspect.Options{}, []string{"problem key_mismatch public.t 1"}},
		{"duplicate change", with(rec{op: "delete", id: 3, tx: 7, prevTx: 6, prevN: 2}), inspect.Options{}, []string{"warning duplicates public.t 1"}},
		{"duplicate load", with(rec{op: "load", id: 2, built: 3}), inspect.Options{}, []string{"warning duplicates public.t 1"}},
		{"gap", with(rec{op: "update", id: 1, tx: 9, prevTx: 8}), inspect.Options{}, []string{"problem chain_gap  1"}},
		{"capture begins in the middle", []rec{{op: "insert", id: 1, tx: 5, prevTx: 4}, {op: "insert", id: 2, tx: 6, prevTx: 5}}, inspect.Options{}, []string{}},
		{"fork", with(rec{op: "update", id: 1, tx: 8, prevTx: 5}, rec{op: "update", id: 2, tx: 9, prevTx: 8}), inspect.Options{}, []string{"warning chain_fork  1"}},
		{"fork of a missing change", with(rec{op: "update", id: 1, tx: 9, prevTx: 8}, rec{op: "update", id: 2, tx: 10, prevTx: 8}), inspect.Options{}, []string{"problem chain_gap  2", "warning chain_fork  1"}},
		{"restart", with(rec{op: "update", id: 1, tx: 9}), inspect.Options{}, []string{"note task_restarted  1"}},
		{"both numbers fall", with(rec{op: "insert", id: 8, tx: 8, prevTx: 7, first: 1, second: 1}), inspect.Options{}, []string{"problem position_regressed  1"}},
		{"first number is the commit's", []rec{
			{op: "insert", id: 1, tx: 5, first: 10, second: 30}, {op: "insert", id: 2, tx: 6, first: 20, second: 25, prevTx: 5},
		}, inspect.Options{}, []string{"note commit_number  1"}},
		{"no details", with(rec{op: "update", id: 1, tx: 9, lessMeta: true}), inspect.Options{}, []string{"problem no_position public.t 1"}},
		{"late control", with(rec{op: "add-column", control: `{}`, built: 2}), inspect.Options{}, []string{"note control_after_data public.t 1"}},
		{"large", with(rec{op: "insert", id: 9, tx: 8, prevTx: 7, data: wide(2000)}), inspect.Options{Large: 2000}, []string{"warning large_records public.t 1"}},
		{"not quite large", with(rec{op: "insert", id: 9, tx: 8, prevTx: 7, data: wide(100)}), inspect.Options{Large: 2000}, []string{}},
		{"damaged number", with(rec{op: "insert", id: 9, tx: 8, prevTx: 7, data: `{"id":9,"v":1.2345678901234567e+18,"w":1e3,"x":1.5E-20}`}), inspect.Options{}, []string{"problem damaged_numbers public.t 1"}},
		{"key missing", with(rec{op: "insert", id: 9, tx: 8, prevTx: 7, data: `{"v":null}`}), inspect.Options{Tables: map[string]inspect.Table{
			"public.t": {Key: []string{"id"}, Position: cdc.PositionKind{Source: cdc.SourcePostgres}},
		}}, []string{"warning key_missing public.t 1"}},
		{"equal positions are in order", with(rec{op: "insert", id: 9, tx: 8, prevTx: 7}, rec{op: "update", id: 9, tx: 8}), inspect.Options{}, []string{"note task_restarted  1"}},
		{"load restarted before any change", []rec{
			{op: "create-table", control: createTable}, {op: "load", id: 1}, {op: "create-table", control: createTable}, {op: "load", id: 2},
		}, inspect.Options{}, []string{}},
		{"first create-table after load and change", []rec{
			{op: "load", id: 1}, {op: "insert", id: 2, tx: 5}, {op: "create-table", control: createTable},
		}, inspect.Options{}, []string{"warning loaded_after_changes public.t 1"}},
		{"first create-table after a change", []rec{{op: "insert", id: 2, tx: 5}, {op: "create-table", control: createTable}}, inspect.Options{}, []string{}},
		{"a delete's key is in its before-image", with(
			rec{op: "insert", id: 9, tx: 9, prevTx: 8}, rec{op: "delete", id: 9, tx: 8, prevTx: 7, data: `{"v":null}`, before: `{"id":9}`},
		), inspect.Options{}, []string{"problem order_inverted public.t 1"}},
		{"commit time falls", []rec{{op: "insert", id: 1, tx: 5, commit: 3}, {op: "insert", id: 2, tx: 6, commit: 2, prevTx: 5}}, inspect.Options{}, []string{"note commit_time_falls  1"}},
		{"the task's own rows have a chain of their own", with(
			rec{op: "update", table: "awsdms_status", tx: 3, prevTx: 1}, rec{op: "insert", table: "awsdms_history", tx: 9, prevTx: 8},
		), inspect.Options{}, []string{}},
		{"key types differ where there is no key", []rec{
			{op: "load", id: 1, keyType: "schema-table"}, {op: "insert", id: 1, tx: 5, shard: 1, keyType: "constant"},
		}, inspect.Options{Tables: map[string]inspect.Table{"public.t": {Position: cdc.PositionKind{Source: cdc.SourcePostgres}}}}, []string{}},
		{"file not in order", with(rec{op: "insert", id: 9, tx: 8, prevTx: 7, seq: 5}), inspect.Options{}, []string{"warning capture_out_of_order  1"}},
		{"no before-image", []rec{{op: "update", id: 1, tx: 5, noImage: true}}, inspect.Options{}, []string{"note no_before_image  1"}},
		{"nulls left out", []rec{{op: "load", id: 1, data: `{"id":1,"a":2}`}, {op: "load", id: 2, data: `{"id":2}`}}, inspect.Options{}, []string{"warning nulls_omitted  2"}},
		{"too many keys", calm(), inspect.Options{Keys: 2}, []string{"warning keys_not_followed  2"}},
		{"duplicate in the older half of the window", []rec{
			{op: "load", id: 1, built: 1}, {op: "load", id: 2, built: 2}, {op: "load", id: 3, built: 3}, {op: "load", id: 1, built: 1},
		}, inspect.Options{Window: 2}, []string{"warning duplicates public.t 1"}},
		{"small window", with(rec{op: "load", id: 4}, rec{op: "load", id: 5}), inspect.Options{Window: 2}, []string{"note duplicates_in_window  9"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := report(test.options, stream(test.records...))
			if diff := cmp.Diff(test.want, ids(r)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if want := slices.ContainsFunc(test.want, func(s string) bool { return strings.HasPrefix(s, "problem") }); r.Problems() != want {
				t.Errorf("problems: %t", r.Problems())
			}
			for _, f := range r.Findings {
				if f.What == "" || f.Consequence == "" || f.Fix == "" {
					t.Errorf("%s says too little: %+v", f.ID, f)
				}
			}
		})
	}
}

func TestInvalid(t *testing.T) {
	t.Parallel()
	r := report(inspect.Options{}, []capture.Record{
		{ID: "a", Fault: capture.BadJSON}, {ID: "b", Fault: capture.BadBase64}, {ID: "c", Data: []byte(`{"data":{}}`)}, {ID: "d", Data: []byte(`{"data":`)},
	})
	if diff := cmp.Diff([]string{"problem invalid_records  4"}, ids(r)); diff != "" || r.Invalid != 4 {
		t.Fatalf("%d invalid (-want +got):\n%s", r.Invalid, diff)
	}
	if diff := cmp.Diff([]string{"a", "b", "c", "d"}, r.Findings[0].Examples); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The reading of the two numbers, by what falls along the chain and what
// stands still inside a transaction.
func TestCommitNumber(t *testing.T) {
	t.Parallel()
	chain := func(positions ...[3]int) []rec { // transaction, first, second
		var out []rec
		for i, p := range positions {
			r := rec{op: "insert", id: i, tx: p[0], n: i + 1, first: p[1], second: p[2]}
			if i > 0 {
				r.prevTx, r.prevN = positions[i-1][0], i
			}
			out = append(out, r)
		}
		return out
	}
	for _, test := range []struct {
		name    string
		records []rec
		want    inspect.Reading
	}{
		{"nothing to compare", chain([3]int{1, 1, 1}), inspect.ReadingNone},
		{"first falls", chain([3]int{1, 20, 30}, [3]int{2, 10, 40}), inspect.ReadingSecond},
		{"second falls", chain([3]int{1, 20, 30}, [3]int{2, 40, 10}), inspect.ReadingFirst},
		{"both fall", chain([3]int{1, 20, 30}, [3]int{2, 40, 10}, [3]int{3, 10, 40}), inspect.ReadingNeither},
		{"neither falls", chain([3]int{1, 20, 30}, [3]int{2, 40, 50}), inspect.ReadingBoth},
		{"second stands still", chain([3]int{1, 20, 30}, [3]int{1, 21, 30}), inspect.ReadingSecond},
		{"first stands still", chain([3]int{1, 20, 30}, [3]int{1, 20, 31}), inspect.ReadingFirst},
		{"second stands still between transactions", chain([3]int{1, 20, 30}, [3]int{2, 10, 30}), inspect.ReadingSecond},
		{"first stands still between transactions", chain([3]int{1, 20, 30}, [3]int{2, 20, 10}), inspect.ReadingFirst},
		{"both stand still", chain([3]int{1, 20, 30}, [3]int{1, 20, 30}), inspect.ReadingNone},
		{"falling says more than standing still", chain([3]int{1, 20, 30}, [3]int{1, 20, 31}, [3]int{2, 10, 40}), inspect.ReadingSecond},
	} {
		if got := report(inspect.Options{}, stream(test.records...)).Chain.CommitNumber; got != test.want {
			t.Errorf("%s: got %s, want %s", test.name, got, test.want)
		}
	}
}

// A record is large with its partition key, from the limit on.
func TestLargeLimit(t *testing.T) {
	t.Parallel()
	records := stream(rec{op: "load", id: 1})
	size := len(records[0].Data) + len(records[0].PartitionKey)
	if got := ids(report(inspect.Options{Large: size}, records)); len(got) != 1 {
		t.Errorf("a record of the limit: %v", got)
	}
	if got := ids(report(inspect.Options{Large: size + 1}, records)); len(got) != 0 {
		t.Errorf("a record below the limit: %v", got)
	}
}

// Positions are told from records: by the form of the stream position, MySQL's
// by a transaction id with a file number.
func TestPositionKinds(t *testing.T) {
	t.Parallel()
	mysql := func(id uint64) []capture.Record {
		return []capture.Record{{Data: fmt.Appendf(nil, `{"data":{"id":1},"metadata":{"operation":"insert","table-name":"t","transaction-id":%d,"transaction-record-id":1}}`, id)}}
	}
	at := func(id uint64, position string) []capture.Record {
		return []capture.Record{{Data: fmt.Appendf(nil,
			`{"data":{"id":1},"metadata":{"operation":"insert","table-name":"t","transaction-id":%d,"transaction-record-id":1,"stream-position":%s}}`, id, position)}}
	}
	for _, test := range []struct {
		name    string
		records []capture.Record
		want    string
	}{
		{"postgres", stream(rec{op: "insert", tx: 1}), "postgres"},
		{"mysql", mysql(3<<32 | 2753), "mysql"},
		{"mysql with a stream position", at(3<<32|2753, `"mysql-bin.000003:2753:-1:2780:12884904641:mysql-bin.000003:2700"`), "mysql"},
		{"small transaction ids", mysql(655368), "none"},
		{"sqlserver", at(5, `"00000014:00000061:0001"`), "sqlserver"},
		{"sqlserver, not padded", at(5, `"14:61:1"`), "none"},
		{"oracle", at(655368, `"1298123"`), "oracle"},
		{"oracle as a number", at(655368, `1298123`), "oracle"},
		{"oracle beyond 64 bits", at(655368, `"99999999999999999999"`), "none"},
		{"loads only", stream(rec{op: "load"}), "-"},
	} {
		if got := report(inspect.Options{}, test.records).Tables[0].Position; got != test.want {
			t.Errorf("%s: got %s", test.name, got)
		}
	}
}

// A report names no value of a row.
func TestReportHoldsNoValues(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	records := stream(
		rec{op: "load", data: `{"id":"` + secret + `","v":null}`}, rec{op: "update", tx: 5, data: `{"id":"` + secret + `","v":1e18}`},
		rec{op: "update", tx: 4, data: `{"id":"` + secret + `"}`, before: `{"id":"` + secret + `"}`}, rec{op: "load", data: `{"id":"` + secret + `"}`},
	)
	records = append(records, capture.Record{ID: "x", Data: []byte(`{"data":"` + secret)})
	r := report(inspect.Options{Tables: map[string]inspect.Table{"public.t": {Key: []string{"id"}}}}, records)
	var text, json strings.Builder
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	if err := r.WriteJSON(&json); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text.String(), secret) || strings.Contains(json.String(), secret) {
		t.Error("the report holds a value")
	}
	if !strings.Contains(text.String(), "order_inverted") {
		t.Errorf("the report misses the inversion:\n%s", text.String())
	}
}

// FuzzAdd: any records give a report, and the same one again.
func FuzzAdd(f *testing.F) {
	for _, r := range stream(calm()...) {
		f.Add(r.Data, r.Data)
	}
	f.Add([]byte(`{`), []byte(`{"data":{},"metadata":{"operation":"insert","table-name":"t","transaction-id":1,"transaction-record-id":1,"prev-transaction-id":1,"prev-transaction-record-id":1}}`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		render := func() string {
			in := inspect.New(inspect.Options{Window: 1, Keys: 1})
			for i, data := range [][]byte{a, b, a} {
				in.Add(&capture.Record{ID: fmt.Sprint(i), Data: data})
			}
			var out strings.Builder
			if err := in.Report().WriteJSON(&out); err != nil {
				t.Fatal(err)
			}
			return out.String()
		}
		if diff := cmp.Diff(render(), render()); diff != "" {
			t.Errorf("two reports of one stream:\n%s", diff)
		}
	})
}
