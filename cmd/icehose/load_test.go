package main

import (
	"strings"
	"testing"
	"time"

	"icehose/catalog"
	"icehose/cdc"
)

// Changes begin at the lowest floor of all tables, whichever came last, and
// every table that is not finished is named.
func TestLoadSteps(t *testing.T) {
	t.Parallel()
	at := func(second int) time.Time { return time.Date(2026, 1, 1, 0, 0, second, 0, time.UTC) }
	table := func(name string, source cdc.PositionSource) *catalog.Table {
		return &catalog.Table{Source: name, Position: cdc.PositionKind{Source: source}}
	}
	const first, second, none = "00000000000000200000000000000000", "00000000000000300000000000000000", "00000000000000000000000000000000"
	for name, c := range map[string]struct {
		tables []*catalog.Table
		loaded []loadedTable
		want   []string
		not    string
	}{
		"the first is the lowest": {
			[]*catalog.Table{table("s.a", cdc.SourcePostgres), table("s.b", cdc.SourcePostgres)},
			[]loadedTable{{Floor: first, Start: "0/20", Since: at(1)}, {Floor: second, Start: "0/30", Since: at(2), Finished: true}},
			[]string{"start the changes at 0/20, the lowest floor,", "--cdc-start-position 0/20,", "resync finish s.a:"},
			"0/30",
		},
		"the last is the lowest": {
			[]*catalog.Table{table("s.a", cdc.SourceMySQL), table("s.b", cdc.SourceMySQL)},
			[]loadedTable{{Floor: second, Start: "bin.000002:4", Since: at(1)}, {Floor: first, Start: "bin.000001:4", Since: at(2)}},
			[]string{"--cdc-start-position bin.000001:4;", "resync finish s.a:", "resync finish s.b:"},
			"bin.000002",
		},
		"one has no order": {
			[]*catalog.Table{table("s.a", cdc.SourcePostgres), table("s.b", cdc.SourceNone)},
			[]loadedTable{{Floor: first, Start: "0/20", Since: at(1), Finished: true}, {Floor: none, Start: "0/40", Since: at(2), Finished: true}},
			[]string{"--cdc-start-position 0/20,"},
			"resync finish",
		},
		"one has no order and comes first": {
			[]*catalog.Table{table("s.a", cdc.SourceNone), table("s.b", cdc.SourcePostgres)},
			[]loadedTable{{Floor: none, Start: "0/10", Since: at(1), Finished: true}, {Floor: first, Start: "0/20", Since: at(2), Finished: true}},
			[]string{"--cdc-start-position 0/10,"},
			"0/20",
		},
		"in hex digits only": {
			[]*catalog.Table{table("s.a", cdc.SourceColumn)},
			[]loadedTable{{Floor: first, Since: at(1), Finished: true}},
			[]string{"start the changes at " + first},
			"aws dms",
		},
	} {
		text := strings.Join(loadSteps(c.tables, c.loaded), "\n")
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in\n%s", name, want, text)
			}
		}
		if strings.Contains(text, c.not) {
			t.Errorf("%s: %q in\n%s", name, c.not, text)
		}
	}
}
