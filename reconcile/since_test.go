package reconcile_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"icehose/catalog"
	"icehose/reconcile"
	"icehose/reconcile/reconciletest"
)

// Rows of the last hours are those of any clock where a column has no zone, which
// the report says, as it does when there are none.
func TestSinceByAnyClock(t *testing.T) {
	const asked = "rows of the source with at from 2026-11-02T00:00:00Z on"
	const early = "rows of the source with at from 2026-11-01T10:00:00Z on, 14 h earlier than asked: its times have no zone"
	const none = early + ": no row was compared"
	for _, tt := range []struct {
		name, typ, text string
		values          [3]string // long ago, behind the zone of the asker, now
		want            uint64
		scope           string
	}{
		{"a time without a zone", "timestamp", "4h", [3]string{"2026-11-01T00:00:00.000000", "2026-11-01T11:00:00.000000", "2026-11-02T00:00:00.000000"}, 2, early},
		{"a date", "date", "4h", [3]string{"2026-10-31", "2026-11-01", "2026-11-02"}, 2, early},
		{"a time of a zone", "timestamptz", "4h", [3]string{"2026-11-01T00:00:00.000000Z", "2026-11-01T11:00:00.000000Z", "2026-11-02T00:00:00.000000Z"}, 1, asked},
		{"a point in time", "timestamp", "", [3]string{"2026-11-01T00:00:00.000000", "2026-11-01T11:00:00.000000", "2026-11-02T00:00:00.000000"}, 1, asked},
		{"no row", "timestamp", "4h", [3]string{"2026-10-01T00:00:00.000000", "2026-10-02T00:00:00.000000", "2026-10-03T00:00:00.000000"}, 0, none},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := parse(t, `version: 1
database: lake
source: {engine: postgresql, position: postgres}
tables:
  - {source: s.t, mode: mirror, key: [id], columns: [{name: id, type: long}, {name: at, type: `+tt.typ+`}]}
`)
			var source []reconciletest.Row
			for i, value := range tt.values {
				source = append(source, reconciletest.MakeRow(string(rune('0'+i)), value))
			}
			o := reconcile.Options{Since: &reconcile.Since{Column: "at", From: time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC), Text: tt.text}}
			report, err := reconcile.Run(t.Context(), p, memory("s.t", source, 0), memory("s.t", nil, 0), o)
			if err != nil {
				t.Fatal(err)
			}
			if got := report.Tables[0]; got.Counts != (reconcile.Counts{Missing: tt.want}) || got.Scope != tt.scope {
				t.Errorf("%s %+v of %s: %s", got.Verdict, got.Counts, got.Scope, got.Why)
			}
			var text bytes.Buffer
			if err := report.WriteText(&text); err != nil || !strings.Contains(text.String(), " ("+tt.scope+")\n") {
				t.Errorf("text %s, %v", &text, err)
			}
		})
	}
}

// grown is a source whose table has columns that the pipeline file does not have.
type grown struct {
	reconcile.Reader
	names []string
}

func (g grown) Open(ctx context.Context, t *catalog.Table, exact bool) (reconcile.View, error) {
	v, err := g.Reader.Open(ctx, t, exact)
	return grownView{v, reconcile.UnknownColumns(t, g.names)}, err
}

type grownView struct {
	reconcile.View
	unknown []string
}

func (v grownView) Pinned() reconcile.Pinned {
	p := v.View.Pinned()
	p.Unknown = v.unknown
	return p
}

// A column that the pipeline file does not have is named, and changes no verdict.
// One that it excludes, masks or has by another name is not.
func TestUnknownColumns(t *testing.T) {
	p := parse(t, `version: 1
database: lake
source: {engine: postgresql, position: postgres}
tables:
  - source: s.t
    mode: mirror
    key: [id]
    columns: [{name: id, type: long}, {name: secret, type: string, mask: sha256}, {name: left, type: string, exclude: true},
      {name: other, type: string, source: Spelled}]
`)
	rows := []reconciletest.Row{reconciletest.MakeRow("1", "x", "y")}
	for _, tt := range []struct {
		names, want []string
	}{
		{[]string{"ID", "secret", "left", "Spelled"}, nil},
		{[]string{"newc", "id", "secret", "left", "Spelled", "Also New"}, []string{"Also New", "newc"}},
	} {
		report, err := reconcile.Run(t.Context(), p, grown{memory("s.t", rows, 0), tt.names}, memory("s.t", rows, 0), reconcile.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		if err := report.WriteText(&text); err != nil {
			t.Fatal(err)
		}
		out, err := json.Marshal(report)
		if err != nil {
			t.Fatal(err)
		}
		note := "\ns.t: not compared, since the pipeline file does not have them: columns of the source: Also New, newc\n"
		if got := report.Tables[0]; got.Verdict != reconcile.Equal || strings.Join(got.Unknown, "|") != strings.Join(tt.want, "|") ||
			strings.Contains(text.String(), note) != (tt.want != nil) || strings.Contains(string(out), `"unknown_columns":["Also New","newc"]`) != (tt.want != nil) {
			t.Errorf("%s, unknown %q; %s\n%s", got.Verdict, got.Unknown, &text, out)
		}
	}
}
