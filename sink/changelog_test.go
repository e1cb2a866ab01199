package sink_test

import (
	"maps"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"icehose/cdc"
	"icehose/sink"
)

func TestChangelogReader(t *testing.T) {
	t.Parallel()
	p := pipeline(t)
	reader, err := sink.NewChangelogReader(p.ByTarget("lake", "log"))
	if err != nil {
		t.Fatal(err)
	}
	good := map[string]string{"position": string(change(1)), "operation": "update", "old": `["1"]`, "absent": "v"}
	row := func(name, value string) [][]byte {
		m := maps.Clone(good)
		m[name] = value
		return texts("1", "x", m["position"], "2026-01-01T00:00:00.000000Z", m["operation"], m["old"], m["absent"])
	}
	got, err := reader.Row(row("", ""))
	if err != nil {
		t.Fatal(err)
	}
	want := sink.FoldRow{Position: change(1), Operation: cdc.Update, Values: texts("1", "x"), OldKey: texts("1"), Absent: []int{1}}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Fatalf("row (-want +got):\n%s", diff)
	}
	for _, bad := range [][2]string{
		{"position", "NULL"},
		{"position", "7"},
		{"operation", "control"},
		{"operation", "NULL"},
		{"old", `["1","2"]`},
		{"old", `[1]`},
		{"old", `x`},
		{"absent", "v,,w"},
		{"absent", "cdc_position"},
	} {
		if _, err := reader.Row(row(bad[0], bad[1])); err == nil {
			t.Errorf("%s %q is accepted", bad[0], bad[1])
		}
	}
	if _, err := sink.NewChangelogReader(p.ByTarget("lake", "item")); err == nil {
		t.Error("a mirror is taken for a changelog")
	}
}
