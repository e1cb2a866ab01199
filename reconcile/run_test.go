package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/internal/canon"
	"icehose/reconcile"
	"icehose/reconcile/reconciletest"
)

var errLost = errors.New("connection lost")

// A broken reader fails, or lies, for one table.
type broken struct {
	reconcile.Reader
	table           string
	pin, digests    error
	rows            error // after the first row
	fewerDigests    bool
	foreignBucket   bool
	changesBetween  bool
	addsBetween     bool
	readRows        atomic.Int64
	digestsFinished atomic.Int64
}

func (b *broken) Open(ctx context.Context, t *catalog.Table, exact bool) (reconcile.View, error) {
	if t.Source == b.table && b.pin != nil {
		return nil, b.pin
	}
	v, err := b.Reader.Open(ctx, t, exact)
	if err != nil {
		return nil, err
	}
	return &brokenView{View: v, broken: b, struck: t.Source == b.table}, nil
}

type brokenView struct {
	reconcile.View
	*broken
	struck bool
}

func (v *brokenView) Digests(ctx context.Context, part reconcile.Part) ([]canon.Digest, error) {
	if v.struck && v.digests != nil {
		return nil, v.digests
	}
	digests, err := v.View.Digests(ctx, part)
	v.digestsFinished.Add(1)
	if v.struck && v.fewerDigests {
		return digests[1:], err
	}
	return digests, err
}

func (v *brokenView) Rows(ctx context.Context, part reconcile.Part) iter.Seq2[reconcile.Row, error] {
	return func(yield func(reconcile.Row, error) bool) {
		for row, err := range v.View.Rows(ctx, part) {
			n := v.readRows.Add(1)
			if v.struck {
				switch {
				case v.rows != nil && n > 1:
					yield(reconcile.Row{}, v.rows)
					return
				case v.foreignBucket:
					row.Bucket = part.Buckets
				case v.changesBetween:
					row.Hash.Lo++
				case v.addsBetween:
					for yield(row, err) {
						v.readRows.Add(1) // until the consumer has enough
					}
					return
				}
			}
			if !yield(row, err) {
				return
			}
		}
	}
}

func someTables() (source, lake reconciletest.Tables) {
	var changes []reconciletest.Row
	for key := range 600 {
		changes = append(changes, changesRow(key))
	}
	history := []reconciletest.Row{reconciletest.MakeRow("a", "1.00")}
	source = reconciletest.Tables{
		reconciletest.Typed: nil, reconciletest.Lines: {reconciletest.MakeRow("n", "d", "1")}, reconciletest.History: history, reconciletest.Changes: changes,
	}
	lake = reconciletest.Tables{
		reconciletest.Typed: nil, reconciletest.Lines: {reconciletest.MakeRow("n", "d", "1")}, reconciletest.History: history, reconciletest.Changes: changes[1:],
	}
	return source, lake
}

// What cannot be read makes its table inconclusive, with the reason, whichever
// side and call it is. The other tables are decided.
func TestWhatCannotBeReadIsInconclusive(t *testing.T) {
	tests := []struct {
		name   string
		broken *broken
		want   string
	}{
		{"pin", &broken{pin: errLost}, "connection lost"},
		{"digests", &broken{digests: errLost}, "connection lost"},
		{"rows", &broken{rows: errLost}, "connection lost"},
		{"wrong number of digests", &broken{fewerDigests: true}, "asked for 4 digests, got 3"},
		{"rows that nobody asked for", &broken{foreignBucket: true}, "bucket 4, which was not asked for"},
		{"rows changed since the digest", &broken{changesBetween: true}, "the table changed between two readings"},
		{"rows without end", &broken{addsBetween: true}, "the table changed between two readings"},
	}
	for _, tt := range tests {
		for _, side := range []string{"source", "lake"} {
			t.Run(tt.name+" of "+side, func(t *testing.T) {
				sourceTables, lakeTables := someTables()
				var source, lake reconcile.Reader = &reconciletest.Memory{Tables: sourceTables}, &reconciletest.Memory{Tables: lakeTables}
				b := tt.broken
				b.table = reconciletest.Changes
				b.readRows.Store(0)
				if side == "source" {
					b.Reader, source = source, b
				} else {
					b.Reader, lake = lake, b
				}
				report, err := reconcile.Run(t.Context(), reconciletest.Pipeline(t), source, lake, reconcile.Options{Concurrency: 2})
				if err != nil {
					t.Fatal(err)
				}
				for _, table := range report.Tables {
					if table.Table != reconciletest.Changes {
						if table.Verdict != reconcile.Equal {
							t.Errorf("%s is %s: %s", table.Table, table.Verdict, table.Why)
						}
						continue
					}
					if table.Verdict != reconcile.Inconclusive || !strings.Contains(table.Why, tt.want) || !strings.Contains(table.Why, "read "+side) {
						t.Errorf("%s, why %q; want inconclusive, read %s: %s", table.Verdict, table.Why, side, tt.want)
					}
				}
				if report.ExitStatus() != 2 {
					t.Errorf("exit status %d, want 2", report.ExitStatus())
				}
			})
		}
	}
}

// A moment that is gone is replaced by a new one, a few times: nothing is
// counted twice.
func TestMomentGone(t *testing.T) {
	for gone, want := range map[int64]reconcile.Verdict{1: reconcile.Different, 2: reconcile.Different, 3: reconcile.Inconclusive} {
		for _, o := range []reconcile.Options{{}, {Keys: map[string]*reconcile.Keys{reconciletest.Changes: changesKeys(t, "0", "1")}}} {
			sourceTables, lakeTables := someTables()
			source := &goneSource{Reader: &reconciletest.Memory{Tables: sourceTables}}
			source.left.Store(gone)
			o.Tables = []string{reconciletest.Changes}
			report, err := reconcile.Run(t.Context(), reconciletest.Pipeline(t), source, &reconciletest.Memory{Tables: lakeTables}, o)
			if err != nil {
				t.Fatal(err)
			}
			got := report.Tables[0]
			if got.Verdict != want || (got.Why != "") != (want == reconcile.Inconclusive) {
				t.Errorf("gone %d times: %s, why %q; want %s", gone, got.Verdict, got.Why, want)
			}
			if want == reconcile.Different && (got.Counts != reconcile.Counts{Missing: 1} || *got.Source.Rows != *got.Lake.Rows+1) {
				t.Errorf("gone %d times: %+v, %d rows and %d", gone, got.Counts, *got.Source.Rows, *got.Lake.Rows)
			}
		}
	}
}

func changesKeys(t *testing.T, keys ...string) *reconcile.Keys {
	t.Helper()
	var texts [][]string
	for _, key := range keys {
		texts = append(texts, []string{key})
	}
	k, err := reconcile.NewKeys(reconciletest.Table(t, reconciletest.Pipeline(t), reconciletest.Changes), texts)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// A goneSource loses its first moments after the last row.
type goneSource struct {
	reconcile.Reader
	left atomic.Int64
}

func (g *goneSource) Open(ctx context.Context, t *catalog.Table, exact bool) (reconcile.View, error) {
	v, err := g.Reader.Open(ctx, t, exact)
	return &goneView{View: v, gone: g.left.Add(-1) >= 0}, err
}

type goneView struct {
	reconcile.View
	gone bool
}

func (v *goneView) Rows(ctx context.Context, part reconcile.Part) iter.Seq2[reconcile.Row, error] {
	return func(yield func(reconcile.Row, error) bool) {
		for row, err := range v.View.Rows(ctx, part) {
			if !yield(row, err) {
				return
			}
		}
		if v.gone {
			yield(reconcile.Row{}, fmt.Errorf("read: %w", reconcile.ErrMomentGone))
		}
	}
}

// A difference that was found stays one when the rest cannot be read.
func TestFindingOutlivesError(t *testing.T) {
	sourceTables, lakeTables := someTables()
	lakeTables[reconciletest.Changes] = nil
	b := &broken{Reader: &reconciletest.Memory{Tables: sourceTables}, table: reconciletest.Changes}
	failing := &failsLater{broken: b}
	report, err := reconcile.Run(t.Context(), reconciletest.Pipeline(t), failing, &reconciletest.Memory{Tables: lakeTables},
		reconcile.Options{Tables: []string{reconciletest.Changes}, MaxRows: 1})
	if err != nil {
		t.Fatal(err)
	}
	got := report.Tables[0]
	if got.Verdict != reconcile.Different || !strings.Contains(got.Why, "connection lost") || got.UnreadBuckets == 0 || got.Counts.Missing == 0 {
		t.Errorf("%s, why %q, %d buckets unread, %+v", got.Verdict, got.Why, got.UnreadBuckets, got.Counts)
	}
	if report.ExitStatus() != 1 {
		t.Errorf("exit status %d, want 1", report.ExitStatus())
	}
}

// failsLater answers Rows once.
type failsLater struct {
	*broken
	calls atomic.Int64
}

func (f *failsLater) Open(ctx context.Context, t *catalog.Table, exact bool) (reconcile.View, error) {
	v, err := f.broken.Open(ctx, t, exact)
	return &failsLaterView{View: v, calls: &f.calls}, err
}

type failsLaterView struct {
	reconcile.View
	calls *atomic.Int64
}

func (v *failsLaterView) Rows(ctx context.Context, part reconcile.Part) iter.Seq2[reconcile.Row, error] {
	if v.calls.Add(1) > 1 {
		return func(yield func(reconcile.Row, error) bool) { yield(reconcile.Row{}, errLost) }
	}
	return v.View.Rows(ctx, part)
}

func TestRunChoosesTables(t *testing.T) {
	source, lake := someTables()
	p := reconciletest.Pipeline(t)
	report, err := reconcile.Run(t.Context(), p, &reconciletest.Memory{Tables: source}, &reconciletest.Memory{Tables: lake},
		reconcile.Options{Tables: []string{reconciletest.History, reconciletest.Lines}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, table := range report.Tables {
		got = append(got, table.Table+" "+table.Target)
	}
	if want := []string{"public.lines lake.lines", "public.history lake.history"}; !slices.Equal(got, want) {
		t.Errorf("tables %v, want %v", got, want)
	}
	_, err = reconcile.Run(t.Context(), p, &reconciletest.Memory{Tables: source}, &reconciletest.Memory{Tables: lake},
		reconcile.Options{Tables: []string{"public.histories"}})
	if err == nil || !strings.Contains(err.Error(), `no table "public.histories"`) {
		t.Errorf("a table that the file does not have: %v", err)
	}
}

func TestRunCancelled(t *testing.T) {
	source, lake := someTables()
	ctx, cancel := context.WithCancel(t.Context())
	_, err := reconcile.Run(ctx, reconciletest.Pipeline(t), &reconciletest.Memory{Tables: source}, &reconciletest.Memory{Tables: lake},
		reconcile.Options{Progress: func(reconcile.Progress) { cancel() }})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
}

// Past MaxFindings no more buckets are read; the counts say so.
func TestMaxFindings(t *testing.T) {
	var source []reconciletest.Row
	for key := range 20_000 {
		source = append(source, changesRow(key))
	}
	all := run(t, source, nil, reconcile.Options{MaxFindings: 50_000, MaxRows: 3000}, 0)
	if all.Counts.Missing != 20_000 || len(all.Findings) != 20_000 || all.UnreadBuckets != 0 {
		t.Errorf("all: %+v, %d findings, %d buckets unread", all.Counts, len(all.Findings), all.UnreadBuckets)
	}
	some := run(t, source, nil, reconcile.Options{MaxFindings: 10, MaxRows: 3000}, 0)
	if len(some.Findings) != 10 || some.Counts.Missing < 10 || some.Counts.Missing > 3000 || some.UnreadBuckets == 0 {
		t.Errorf("some: %+v, %d findings, %d buckets unread", some.Counts, len(some.Findings), some.UnreadBuckets)
	}
	if some.Verdict != reconcile.Different || *some.Source.Rows != 20_000 || *some.Lake.Rows != 0 {
		t.Errorf("some: %s, %d and %d rows", some.Verdict, *some.Source.Rows, *some.Lake.Rows)
	}
	one := run(t, source, nil, reconcile.Options{MaxFindings: 10}, 0) // one wave holds them all
	if len(one.Findings) != 10 || one.Counts.Missing != 20_000 || one.UnreadBuckets != 0 {
		t.Errorf("one wave: %+v, %d findings, %d buckets unread", one.Counts, len(one.Findings), one.UnreadBuckets)
	}
}

// A bucket holds at most 256 rows on average, whichever side knows their number.
func TestBuckets(t *testing.T) {
	for _, tt := range []struct {
		source, lake int64
		want         int
	}{{0, 0, 1}, {256, 0, 1}, {257, 0, 2}, {0, 100_000, 512}, {10_000_000, 3, 65536}, {1 << 40, 0, 1 << 20}} {
		source, lake := memory(reconciletest.Changes, nil, tt.source), memory(reconciletest.Changes, nil, tt.lake)
		report, err := reconcile.Run(t.Context(), reconciletest.Pipeline(t), source, lake, reconcile.Options{Tables: []string{reconciletest.Changes}})
		if err != nil {
			t.Fatal(err)
		}
		if got := report.Tables[0].Buckets; got != tt.want {
			t.Errorf("%d and %d rows: %d buckets, want %d", tt.source, tt.lake, got, tt.want)
		}
	}
}

func TestProgressAndTimes(t *testing.T) {
	source, lake := someTables()
	clock := time.Unix(0, 0)
	var got []string
	report, err := reconcile.Run(t.Context(), reconciletest.Pipeline(t), &reconciletest.Memory{Tables: source}, &reconciletest.Memory{Tables: lake}, reconcile.Options{
		Tables: []string{reconciletest.History, reconciletest.Changes},
		Now:    func() time.Time { clock = clock.Add(time.Second); return clock },
		Progress: func(p reconcile.Progress) {
			line := p.Table + " " + string(p.Step)
			if p.Report != nil {
				line += " " + string(p.Report.Verdict)
			}
			got = append(got, line)
			if p.Tables != 2 {
				t.Errorf("%d tables, want 2", p.Tables)
			}
			if wantDone := len(got) / 2; p.Step == reconcile.Decided && p.Done != wantDone {
				t.Errorf("after %q %d tables are done, want %d", line, p.Done, wantDone)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"public.history digesting", "public.history decided equal",
		"public.changes digesting", "public.changes comparing", "public.changes decided different",
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("progress differs (-want +got):\n%s", diff)
	}
	for _, table := range report.Tables {
		if table.Seconds != 1 {
			t.Errorf("%s took %v seconds of the test's clock, want 1", table.Table, table.Seconds)
		}
	}
}
