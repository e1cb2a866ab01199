package reconcile_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"icehose/catalog"
	"icehose/internal/canon"
	"icehose/reconcile"
	"icehose/reconcile/dump"
	"icehose/reconcile/reconciletest"
)

// serverDigests is a source whose server renders a value that the lake's type
// cannot hold in its own way.
type serverDigests struct{ reconcile.Reader }

func (s serverDigests) Open(ctx context.Context, t *catalog.Table, exact bool) (reconcile.View, error) {
	v, err := s.Reader.Open(ctx, t, exact)
	return serverView{v}, err
}

type serverView struct{ reconcile.View }

func (v serverView) Digests(ctx context.Context, part reconcile.Part) ([]canon.Digest, error) {
	digests, err := v.View.Digests(ctx, part)
	for row, rowErr := range v.Rows(ctx, part) {
		if rowErr != nil {
			return nil, rowErr
		}
		if row.Unfit {
			digests[row.Bucket].Sum[0]++
		}
	}
	return digests, err
}

// Values that the lake's type cannot hold are differences, counted apart, and
// hide no other; only in a key they keep the table from being read.
func TestUnfitValues(t *testing.T) {
	const text = `version: 1
database: lake
source: {engine: postgresql, position: postgres}
tables:
  - {source: s.t, mode: mirror, key: [id], columns: [{name: id, type: long}, {name: day, type: date}, {name: note, type: string}]}
`
	p := parse(t, text)
	compare := func(badKey bool) reconcile.TableReport {
		t.Helper()
		var source bytes.Buffer
		var lake []reconciletest.Row
		for id := range 600 {
			key, day := fmt.Sprint(id), "2026-11-01"
			switch id {
			case 3:
				day = "infinity" // and the lake has another day
			case 4:
				day = "no day" // and the lake does not have the row
			}
			if badKey && id == 3 {
				key = "x"
			}
			fmt.Fprintf(&source, "{\"id\":%q,\"day\":%q,\"note\":\"n\"}\n", key, day)
			if id < 500 && id != 4 {
				lake = append(lake, reconciletest.MakeRow(fmt.Sprint(id), "2026-11-01", "n"))
			}
		}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "s.t.ndjson"), source.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		reader, err := dump.Open(dir, dump.Options{Final: true})
		if err != nil {
			t.Fatal(err)
		}
		report, err := reconcile.Run(t.Context(), p, serverDigests{reader}, memory("s.t", lake, 0), reconcile.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return report.Tables[0]
	}
	got := compare(false)
	if got.Verdict != reconcile.Different || got.Counts != (reconcile.Counts{Missing: 101, Differs: 1}) || got.Unfit != 2 || got.Why != "" {
		t.Errorf("%s %+v, %d unfit: %s", got.Verdict, got.Counts, got.Unfit, got.Why)
	}
	for _, f := range got.Findings {
		if unfit := f.Key[0] == "3" || f.Key[0] == "4"; f.Unfit != unfit {
			t.Errorf("finding %+v", f)
		}
	}
	var out bytes.Buffer
	if err := (reconcile.Report{Tables: []reconcile.TableReport{got}}).WriteText(&out); err != nil || !strings.Contains(out.String(), "s.t: rows of the source with values that the lake's type cannot hold: 2") {
		t.Errorf("text %s: %v", &out, err)
	}
	if got := compare(true); got.Verdict != reconcile.Inconclusive || !strings.Contains(got.Why, "coerce id to long: invalid_value") {
		t.Errorf("in a key: %s, %s", got.Verdict, got.Why)
	}
}

// No row of a lake is one that holds what its type cannot.
func TestUnfitIsNoLakeRow(t *testing.T) {
	e := encoderOf(t, "      - {name: id, type: long}\n      - {name: note, type: string}\n      - {name: amount, type: \"decimal(4,1)\"}\n")
	unfit, err := digestOf(e, func(e *reconcile.Encoder) {
		e.Value(canon.Postgres, []byte("1"))
		e.Value(canon.Postgres, []byte("n"))
		e.Value(canon.Postgres, []byte("1.25"))
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "!", "!:", "1.2", "1.3"} {
		lake, err := digestOf(e, func(e *reconcile.Encoder) {
			e.Canonical([]byte("1"))
			e.Canonical([]byte("n"))
			e.Canonical([]byte(text))
		})
		if err != nil || lake == unfit {
			t.Errorf("amount %q: %v, equal %v", text, err, lake == unfit)
		}
	}
}
