package reconcile_test

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
// hide no other, in a key no more than elsewhere.
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
	got = compare(true)
	if got.Verdict != reconcile.Different || got.Counts != (reconcile.Counts{Missing: 102, Extra: 1}) || got.Unfit != 2 || got.Why != "" {
		t.Errorf("in a key: %s %+v, %d unfit: %s", got.Verdict, got.Counts, got.Unfit, got.Why)
	}
	if got.UnfitKeys != 1 {
		t.Errorf("%d unfit keys", got.UnfitKeys)
	}
	for _, f := range got.Findings {
		if unfit := f.Key[0] == "x" || f.Key[0] == "4"; f.Unfit != unfit {
			t.Errorf("in a key: finding %+v", f)
		}
	}
}

// A key that no lake can have is a finding at once: nothing is waited for that
// could bring it, and the source is never asked for it. Others are waited for.
func TestUnfitKeysAreNotWaitedFor(t *testing.T) {
	p := parse(t, `version: 1
database: lake
source: {engine: postgresql, position: postgres}
tables:
  - {source: s.t, mode: mirror, key: [id, day], columns: [{name: id, type: long}, {name: day, type: date}]}
`)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "s.t.csv"), []byte("id,day\n1,infinity\n1,0044-03-15 BC\n2,2026-11-01\n3,2026-11-01\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	source, err := dump.Open(dir, dump.Options{Final: true})
	if err != nil {
		t.Fatal(err)
	}
	lake := []reconciletest.Row{reconciletest.MakeRow("3", "2026-11-01")}
	now := time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)
	for _, since := range []*reconcile.Since{nil, {Column: "day", From: now.AddDate(0, 0, -3)}} {
		o := reconcile.Options{
			Settle: time.Minute, Retries: 3, Since: since, Now: func() time.Time { return now },
			Wait: func(context.Context, time.Duration) error { now = now.Add(time.Second); return nil },
		}
		report, err := reconcile.Run(t.Context(), p, asked{source, t}, memory("s.t", lake, 0), o)
		if err != nil {
			t.Fatal(err)
		}
		got := report.Tables[0]
		if got.Verdict != reconcile.Different || got.Counts != (reconcile.Counts{Missing: 2}) || got.Unfit != 2 || got.Undecided != 1 || len(got.Findings) != 2 ||
			got.Findings[0].Key[1] != "0044-03-15 BC" && got.Findings[0].Key[1] != "infinity" {
			t.Errorf("since %v: %s %+v, %d unfit, %d undecided, %+v: %s", since, got.Verdict, got.Counts, got.Unfit, got.Undecided, got.Findings, got.Why)
		}
	}
}

// asked is a source that cannot be asked for a text that is no day.
type asked struct {
	reconcile.Reader
	t *testing.T
}

func (a asked) Open(ctx context.Context, t *catalog.Table, exact bool) (reconcile.View, error) {
	v, err := a.Reader.Open(ctx, t, exact)
	return askedView{v, a.t}, err
}

type askedView struct {
	reconcile.View
	t *testing.T
}

func (v askedView) Rows(ctx context.Context, part reconcile.Part) iter.Seq2[reconcile.Row, error] {
	for _, key := range part.Keys.Texts() {
		if _, err := time.Parse(time.DateOnly, key[1]); err != nil {
			v.t.Errorf("asked for the key %q", key)
		}
	}
	return v.View.Rows(ctx, part)
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

// A run that continues finds such a key again, where it is still there.
func TestUnfitKeysAreRechecked(t *testing.T) {
	p := parse(t, `version: 1
database: lake
source: {engine: postgresql, position: postgres}
tables:
  - {source: s.t, mode: mirror, key: [id, day], columns: &columns [{name: id, type: long}, {name: day, type: date}]}
  - {source: s.u, mode: mirror, key: [id, day], columns: *columns}
`)
	run := func(store *memoryCheckpoint, rows string, lake reconciletest.Tables) reconcile.TableReport {
		t.Helper()
		dir := t.TempDir()
		for name, text := range map[string]string{"s.t.csv": "id,day\n" + rows, "s.u.csv": "id,day\n"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		source, err := dump.Open(dir, dump.Options{Final: true})
		if err != nil {
			t.Fatal(err)
		}
		report, err := reconcile.Run(t.Context(), p, source, &reconciletest.Memory{Tables: lake}, reconcile.Options{Checkpoint: store, Recheck: true})
		if err != nil {
			t.Fatal(err)
		}
		return report.Tables[0]
	}
	const both = "1,infinity\n2,infinity\n"
	for rows, want := range map[string]uint64{both: 2, "2,infinity\n": 1, "": 0} {
		store := &memoryCheckpoint{}
		if first := run(store, both, reconciletest.Tables{"s.t": nil}); first.UnfitKeys != 2 || store.data == nil {
			t.Fatalf("the first run: %s %+v, %d unfit keys", first.Verdict, first.Counts, first.UnfitKeys)
		}
		got := run(store, rows, reconciletest.Tables{"s.t": nil, "s.u": nil})
		if got.Counts != (reconcile.Counts{Missing: want}) || got.Unfit != want || got.UnfitKeys != want || len(got.Findings) != int(want) {
			t.Errorf("of %q: %s %+v, %d unfit, %d in keys: %s", rows, got.Verdict, got.Counts, got.Unfit, got.UnfitKeys, got.Why)
		}
		for _, f := range got.Findings {
			if len(f.UnfitKey) != 1 || f.UnfitKey[0] != "day" || f.Key[1] != "infinity" {
				t.Errorf("finding %+v", f)
			}
		}
	}
}
