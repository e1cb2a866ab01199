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

// A numbered change has a transaction id and a column v that may order it.
type numbered struct {
	tx, prev uint64
	v        int
	table    string // default t
}

func numberedStream(changes ...numbered) []capture.Record {
	out := make([]capture.Record, len(changes))
	for i, c := range changes {
		if c.table == "" {
			c.table = "t"
		}
		meta := fmt.Sprintf(`"timestamp":"2026-01-01T00:00:%02d.000000Z","record-type":"data","operation":"insert","partition-key-type":"primary-key",`+
			`"partition-key-value":"public.%s.%d","schema-name":"public","table-name":%q,"transaction-id":%d,"transaction-record-id":1`, i, c.table, i, c.table, c.tx)
		if c.prev > 0 {
			meta += fmt.Sprintf(`,"prev-transaction-id":%d,"prev-transaction-record-id":1`, c.prev)
		}
		out[i] = capture.Record{ID: fmt.Sprint("r", i), Data: fmt.Appendf(nil, `{"data":{"id":%d,"v":%d,"w":null},"metadata":{%s}}`, i, c.v, meta)}
	}
	return out
}

// The order of positions along the chain is looked at whatever their kind.
func TestPositionsAlongTheChain(t *testing.T) {
	t.Parallel()
	const file = 1 << 32
	column := cdc.PositionKind{Source: cdc.SourceColumn, Column: "v"}
	declared := func(kind cdc.PositionKind) inspect.Options {
		return inspect.Options{Tables: map[string]inspect.Table{
			"public.t": {Key: []string{"id"}, Position: kind}, "public.u": {Key: []string{"id"}, Position: kind},
		}}
	}
	for _, test := range []struct {
		name    string
		changes []numbered
		options inspect.Options
		want    []string
	}{
		{"mysql", []numbered{{tx: 3 * file}, {tx: 9 * file, prev: 3 * file}}, inspect.Options{}, []string{}},
		{"mysql, from file 9 to file 3", []numbered{{tx: 9 * file}, {tx: 3 * file, prev: 9 * file}}, inspect.Options{}, []string{"problem position_regressed  1"}},
		{"mysql, declared", []numbered{{tx: 9}, {tx: 3, prev: 9}}, declared(cdc.PositionKind{Source: cdc.SourceMySQL}), []string{"problem position_regressed  1"}},
		{"column", []numbered{{tx: 1, v: 5}, {tx: 2, prev: 1, v: 6}}, declared(column), []string{}},
		{"column that falls", []numbered{{tx: 1, v: 5}, {tx: 2, prev: 1, v: 4}}, declared(column), []string{"warning position_regressed public.t 1"}},
		{"columns of two tables", []numbered{{tx: 1, v: 5}, {tx: 2, prev: 1, v: 4, table: "u"}}, declared(column), []string{}},
		{"declared to have none", []numbered{{tx: 2}, {tx: 1, prev: 2}}, declared(cdc.PositionKind{Source: cdc.SourceNone}), []string{}},
	} {
		if diff := cmp.Diff(test.want, ids(report(test.options, numberedStream(test.changes...)))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

// Two tasks whose chains overlap are no gap, though both began before the
// capture; a change that is missing in the middle of either is.
func TestTwoTasks(t *testing.T) {
	t.Parallel()
	both := []rec{
		{op: "insert", id: 1, tx: 11, prevTx: 10},
		{op: "insert", id: 2, tx: 51, prevTx: 50},
		{op: "insert", id: 3, tx: 12, prevTx: 11},
		{op: "insert", id: 4, tx: 52, prevTx: 51},
	}
	gap := append(slices.Clip(both), rec{op: "insert", id: 5, tx: 14, prevTx: 13})
	for _, test := range []struct {
		name    string
		records []rec
		want    []string
	}{
		{"whole", both, []string{"warning chain_head  1"}},
		{"one misses a change", gap, []string{"problem chain_gap  1", "warning chain_head  1"}},
	} {
		r := report(inspect.Options{}, stream(test.records...))
		if diff := cmp.Diff(test.want, ids(r)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
		if last := r.Findings[len(r.Findings)-1]; !strings.Contains(last.Consequence, "another task") {
			t.Errorf("%s: %s", test.name, last.Consequence)
		}
	}
}

// Two changes of one predecessor are a fork, in whichever order the three come;
// only where the predecessor was forgotten does a fork look like a gap, and says so.
func TestForks(t *testing.T) {
	t.Parallel()
	start, one, other := numbered{tx: 1}, numbered{tx: 2, prev: 1}, numbered{tx: 9, prev: 1}
	var far []numbered
	for tx := uint64(2); tx < 40; tx++ {
		far = append(far, numbered{tx: tx, prev: tx - 1})
	}
	for _, test := range []struct {
		name    string
		changes []numbered
		keys    int
		want    []string
	}{
		{"one after the other", []numbered{start, one, other}, 0, []string{"warning chain_fork  1"}},
		{"both before", []numbered{one, other, start}, 0, []string{"warning chain_fork  1"}},
		{"one before", []numbered{one, start, other}, 0, []string{"warning chain_fork  1"}},
		{"three of one", []numbered{start, one, other, {tx: 10, prev: 1}}, 0, []string{"warning chain_fork  2"}},
		{"far behind", slices.Concat([]numbered{start}, far, []numbered{{tx: 90, prev: 1}}), 0, []string{"warning chain_fork  1"}},
		{"forgotten", slices.Concat([]numbered{start}, far, []numbered{{tx: 90, prev: 1}}), 8, []string{"problem chain_gap  1", "warning keys_not_followed  32"}},
	} {
		none := map[string]inspect.Table{"public.t": {Key: []string{"id"}, Position: cdc.PositionKind{Source: cdc.SourceNone}}}
		r := report(inspect.Options{Keys: test.keys, Tables: none}, numberedStream(test.changes...))
		if diff := cmp.Diff(test.want, ids(r)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
			continue
		}
		finding := r.Findings[0]
		if want := "as another change does"; finding.ID == "chain_fork" && (len(finding.Examples) == 0 || !strings.Contains(finding.Examples[0], want)) {
			t.Errorf("%s: examples %q", test.name, finding.Examples)
		}
		if want := "or that another change followed more than 8 changes before"; finding.ID == "chain_gap" && !strings.Contains(finding.What, want) {
			t.Errorf("%s: %s", test.name, finding.What)
		}
	}
}

func TestEndsEarly(t *testing.T) {
	t.Parallel()
	in := inspect.New(inspect.Options{})
	records := stream(calm()...)
	for i := range records {
		in.Add(&records[i])
	}
	in.EndsEarly("shard-0.zst")
	r := in.Report()
	if diff := cmp.Diff([]string{"problem file_ends_early  1"}, ids(r)); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"shard-0.zst"}, r.Findings[0].Examples); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
