package reconcile_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"icehose/catalog"
	"icehose/internal/canon"
	"icehose/reconcile"
	"icehose/reconcile/reconciletest"
)

// damaged is a lake of some rows in which every hundredth key is missing, differs
// or is there twice, and which has a few that the source does not have.
func damaged(source []reconciletest.Row) (lake []reconciletest.Row) {
	for key, row := range source {
		switch key % 300 {
		case 0:
			continue
		case 100:
			row = noted(key, "damaged")
		case 200:
			lake = append(lake, row)
		}
		lake = append(lake, row)
	}
	for key := range 40 {
		lake = append(lake, changesRow(100_000+key))
	}
	return lake
}

// cutOff runs until half of the slices of a table are read, and returns the
// checkpoint with how many keys are in it as findings.
func cutOff(t *testing.T, source, lake []reconciletest.Row, o reconcile.Options) (store *memoryCheckpoint, found int) {
	t.Helper()
	store = &memoryCheckpoint{}
	o.Checkpoint = store
	ctx, cancel := context.WithCancel(t.Context())
	cut := &cutAfter{Reader: memory(reconciletest.Changes, source, 0), left: 5, cut: cancel}
	if _, err := reconcile.Run(ctx, reconciletest.Pipeline(t), cut, memory(reconciletest.Changes, lake, 0), o); !errors.Is(err, context.Canceled) {
		t.Fatalf("the run that was cut off: %v", err)
	}
	var saved struct {
		Tables map[string]struct {
			Report struct{ Keys [][]string }
		}
	}
	if err := json.Unmarshal(store.data, &saved); err != nil {
		t.Fatal(err)
	}
	if found = len(saved.Tables[reconciletest.Changes].Report.Keys); found < 20 {
		t.Fatalf("%d findings in the checkpoint", found)
	}
	return store, found
}

// What a run before found in its slices is told by the one that continues only if
// it is still so, and no slice is read again for that.
func TestRecheckSlices(t *testing.T) {
	source := manyChanges(4000)
	lake := damaged(source)
	partly := slices.Clone(source[1:])
	partly[99] = noted(100, "damaged") // as it was
	partly[299] = noted(300, "another")
	for name, tt := range map[string]struct {
		lake    []reconciletest.Row
		recheck bool
		want    reconcile.Counts
	}{
		"all was repaired":  {source, true, reconcile.Counts{}},
		"some was repaired": {partly, true, reconcile.Counts{Missing: 1, Differs: 2}},
		"nothing was":       {lake, true, reconcile.Counts{Missing: 14, Differs: 13, Duplicate: 13, Extra: 40}},
	} {
		t.Run(name, func(t *testing.T) {
			o := reconcile.Options{SliceRows: 600, Tables: []string{reconciletest.Changes}, Recheck: tt.recheck}
			store, found := cutOff(t, source, lake, o)
			o.Checkpoint = store
			counted := &cutAfter{Reader: memory(reconciletest.Changes, source, 0), left: 1 << 30}
			report, err := reconcile.Run(t.Context(), reconciletest.Pipeline(t), counted, memory(reconciletest.Changes, tt.lake, 0), o)
			if err != nil {
				t.Fatal(err)
			}
			got := report.Tables[0]
			if got.Counts != tt.want || (got.Verdict == reconcile.Equal) != (tt.want == reconcile.Counts{}) || got.Why != "" {
				t.Errorf("%s %+v, want %+v: %s", got.Verdict, got.Counts, tt.want, got.Why)
			}
			if *got.Source.Rows != 4000 || *got.Lake.Rows != uint64(len(tt.lake)) {
				t.Errorf("%d and %d rows, want 4000 and %d", *got.Source.Rows, *got.Lake.Rows, len(tt.lake))
			}
			var named uint64
			for _, f := range got.Findings {
				named += f.Rows
			}
			if named != tt.want.Total() {
				t.Errorf("%d rows are named, want %d", named, tt.want.Total())
			}
			if name == "all was repaired" && got.InFlight != found {
				t.Errorf("%d keys agree now, want %d", got.InFlight, found)
			}
			if opened := 1<<30 - counted.left; opened > 6 {
				t.Errorf("the second run opened the source %d times", opened)
			}
		})
	}
	// Where somebody has to tell what the run before found, it stays.
	o := reconcile.Options{SliceRows: 600, Tables: []string{reconciletest.Changes}}
	store, found := cutOff(t, source, lake, o)
	o.Checkpoint = store
	got := runTable(t, reconciletest.Changes, source, source, o, 0)
	if got.Verdict != reconcile.Different || len(got.Findings) != found {
		t.Errorf("without Recheck: %s, %d findings of %d", got.Verdict, len(got.Findings), found)
	}
}

// digested counts the readings of a whole table.
type digested struct {
	reconcile.Reader
	tables []string
}

func (d *digested) Open(ctx context.Context, t *catalog.Table, exact bool) (reconcile.View, error) {
	v, err := d.Reader.Open(ctx, t, exact)
	return digestedView{v, d, t.Source}, err
}

type digestedView struct {
	reconcile.View
	reader *digested
	table  string
}

func (v digestedView) Digests(ctx context.Context, part reconcile.Part) ([]canon.Digest, error) {
	v.reader.tables = append(v.reader.tables, v.table)
	return v.View.Digests(ctx, part)
}

// A table that a run before found different is looked at by its findings, and
// only where they are not all that differed it is read anew.
func TestRecheckDecided(t *testing.T) {
	changes := manyChanges(600)
	history := []reconciletest.Row{reconciletest.MakeRow("a", "1.00"), reconciletest.MakeRow("b", "2.00"), reconciletest.MakeRow("b", "2.00")}
	source := reconciletest.Tables{reconciletest.Changes: changes, reconciletest.History: history, reconciletest.Lines: nil, reconciletest.Typed: nil}
	was := reconciletest.Tables{reconciletest.Changes: changes[3:], reconciletest.History: history[:2], reconciletest.Lines: nil, reconciletest.Typed: nil}
	one := reconciletest.Tables{reconciletest.Changes: changes[1:], reconciletest.History: history, reconciletest.Lines: nil, reconciletest.Typed: nil}
	p := reconciletest.Pipeline(t)
	for name, tt := range map[string]struct {
		lake     reconciletest.Tables
		max      int
		failing  bool
		missing  uint64
		history  reconcile.Verdict
		anew     bool
		whyOfOne string
	}{
		"all was repaired":      {lake: source, history: reconcile.Equal},
		"some was repaired":     {lake: one, missing: 1, history: reconcile.Equal},
		"nothing was":           {lake: was, missing: 3, history: reconcile.Different},
		"not all keys are kept": {lake: one, max: 2, missing: 1, history: reconcile.Equal, anew: true},
		"it cannot be looked at": {
			lake: source, failing: true, missing: 3, history: reconcile.Different, whyOfOne: "could not be looked at again: read source: ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			store := &memoryCheckpoint{}
			o := reconcile.Options{Checkpoint: store, Recheck: true, MaxFindings: tt.max, Tables: []string{reconciletest.History, reconciletest.Changes, reconciletest.Typed}}
			gone := &broken{Reader: &reconciletest.Memory{Tables: source}, table: reconciletest.Typed, pin: errLost}
			if _, err := reconcile.Run(t.Context(), p, gone, &reconciletest.Memory{Tables: was}, o); err != nil || store.data == nil {
				t.Fatalf("the first run: %v", err)
			}
			reader := &digested{Reader: &reconciletest.Memory{Tables: source}}
			var from reconcile.Reader = reader
			if tt.failing {
				from = failingReader{reader}
			}
			report, err := reconcile.Run(t.Context(), p, from, &reconciletest.Memory{Tables: tt.lake}, o)
			if err != nil {
				t.Fatal(err)
			}
			for _, got := range report.Tables {
				switch got.Table {
				case reconciletest.Changes:
					want := reconcile.Equal
					if tt.missing > 0 {
						want = reconcile.Different
					}
					if got.Verdict != want || got.Counts != (reconcile.Counts{Missing: tt.missing}) || *got.Lake.Rows != 600-tt.missing || !strings.Contains(got.Why, tt.whyOfOne) || (got.Why == "") != (tt.whyOfOne == "") {
						t.Errorf("%s %+v, %d rows: %s", got.Verdict, got.Counts, *got.Lake.Rows, got.Why)
					}
				case reconciletest.History:
					if got.Verdict != tt.history {
						t.Errorf("without a key: %s %+v: %s", got.Verdict, got.Counts, got.Why)
					}
				}
			}
			if anew := slices.Contains(reader.tables, reconciletest.Changes); anew != tt.anew {
				t.Errorf("read: %v", reader.tables)
			}
		})
	}
}

// failingReader opens no table but the one that was not decided.
type failingReader struct{ reconcile.Reader }

func (r failingReader) Open(ctx context.Context, t *catalog.Table, exact bool) (reconcile.View, error) {
	if t.Source != reconciletest.Typed {
		return nil, errLost
	}
	return r.Reader.Open(ctx, t, exact)
}

// A key that was repaired and has changed since, while the lake lags, is on its
// way: nothing that is only late is told of it.
func TestRecheckSettles(t *testing.T) {
	for name, arrives := range map[string]bool{"it arrives": true, "it is lost again": false} {
		w := newWorld()
		w.setSource(7, "lost")
		w.setSource(8, "lost too")
		store := &memoryCheckpoint{}
		o := reconcile.Options{Checkpoint: store, Recheck: true, Settle: 10 * time.Second, Tables: []string{reconciletest.Changes, reconciletest.History}, Now: w.clock, Wait: w.wait}
		gone := &broken{Reader: side{w, false}, table: reconciletest.History, pin: errLost}
		report, err := reconcile.Run(t.Context(), reconciletest.Pipeline(t), gone, side{w, true}, o)
		if err != nil || store.data == nil || report.Verdict() != reconcile.Different {
			t.Fatalf("%s: the first run: %v", name, err)
		}
		w.now = w.now.Add(time.Hour)
		w.setLake(7, "lost", w.now)
		w.setSource(7, "new")
		if arrives {
			w.after(3*time.Second, func(w *world) { w.setLake(7, "new", w.now) })
		}
		got := w.run(t, o)
		want := reconcile.Counts{Differs: 2}
		if arrives {
			want.Differs = 1
		}
		if got.Verdict != reconcile.Different || got.Counts != want || got.Undecided+got.Unsettled != 0 {
			t.Errorf("%s: %s %+v, %d undecided: %s", name, got.Verdict, got.Counts, got.Undecided, got.Why)
		}
	}
}

// lostAfter loses its connection when the table was opened so many times.
type lostAfter struct {
	reconcile.Reader
	left int
}

func (l *lostAfter) Open(ctx context.Context, t *catalog.Table, exact bool) (reconcile.View, error) {
	if l.left--; l.left < 0 {
		return nil, errLost
	}
	return l.Reader.Open(ctx, t, exact)
}

// A table that is different, and of which a later slice could not be read, is not
// decided: the run that continues reads the rest.
func TestUnreadSlicesStay(t *testing.T) {
	source := manyChanges(4000)
	lake := slices.Delete(slices.Clone(source), 3990, 4000)
	lake = slices.Delete(lake, 0, 10)
	store := &memoryCheckpoint{}
	o := reconcile.Options{Checkpoint: store, Recheck: true, SliceRows: 600, Tables: []string{reconciletest.Changes}}
	lost := &lostAfter{memory(reconciletest.Changes, source, 0), 5}
	report, err := reconcile.Run(t.Context(), reconciletest.Pipeline(t), lost, memory(reconciletest.Changes, lake, 0), o)
	if err != nil {
		t.Fatal(err)
	}
	first := report.Tables[0]
	if first.Verdict != reconcile.Different || !strings.Contains(first.Why, errLost.Error()) || first.Counts.Missing == 0 || first.Counts.Missing == 20 || store.data == nil {
		t.Fatalf("%s %+v: %s", first.Verdict, first.Counts, first.Why)
	}
	counted := &cutAfter{Reader: memory(reconciletest.Changes, source, 0), left: 1 << 30}
	report, err = reconcile.Run(t.Context(), reconciletest.Pipeline(t), counted, memory(reconciletest.Changes, lake, 0), o)
	if err != nil {
		t.Fatal(err)
	}
	got := report.Tables[0]
	if opened := 1<<30 - counted.left; got.Verdict != reconcile.Different || got.Why != "" || got.Counts != (reconcile.Counts{Missing: 20}) || *got.Source.Rows != 4000 || opened > 6 || store.data != nil {
		t.Errorf("%s %+v, %d rows, opened %d times: %s", got.Verdict, got.Counts, *got.Source.Rows, opened, got.Why)
	}
}
