package reconcile_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/reconcile"
	"icehose/reconcile/reconciletest"
)

// memoryCheckpoint is a checkpoint in memory; it fails when told to.
type memoryCheckpoint struct {
	data  []byte
	saves int
	fail  error
}

func (m *memoryCheckpoint) Load(context.Context) ([]byte, error) { return m.data, nil }

func (m *memoryCheckpoint) Save(_ context.Context, data []byte) error {
	m.saves++
	m.data = data
	return m.fail
}

// A run that is cut off in the middle of a table goes on with the slice it was
// at, at a new moment, and ends as if nothing had happened.
func TestCheckpoint(t *testing.T) {
	var source []reconciletest.Row
	for key := range 4000 {
		source = append(source, changesRow(key))
	}
	lake := slices.Delete(slices.Clone(source), 100, 110)
	whole := run(t, source, lake, reconcile.Options{}, 0)
	store := &memoryCheckpoint{}
	options := reconcile.Options{Checkpoint: store, SliceRows: 500, Tables: []string{reconciletest.Changes}}
	p := reconciletest.Pipeline(t)
	ctx, cancel := context.WithCancel(t.Context())
	cut := &cutAfter{Reader: memory(reconciletest.Changes, source, 0), left: 5, cut: cancel}
	if _, err := reconcile.Run(ctx, p, cut, memory(reconciletest.Changes, lake, 0), options); !errors.Is(err, context.Canceled) {
		t.Fatalf("the run that was cut off: %v", err)
	}
	if store.data == nil || store.saves < 3 {
		t.Fatalf("%d saves", store.saves)
	}
	counted := &cutAfter{Reader: memory(reconciletest.Changes, source, 0), left: 1 << 30}
	report, err := reconcile.Run(t.Context(), p, counted, memory(reconciletest.Changes, lake, 0), options)
	if err != nil {
		t.Fatal(err)
	}
	got := report.Tables[0]
	slices.SortFunc(got.Findings, byKey)
	slices.SortFunc(whole.Findings, byKey)
	if diff := gocmp.Diff(whole.Findings, got.Findings); diff != "" || got.Counts != whole.Counts || *got.Source.Rows != 4000 || *got.Lake.Rows != 3990 || got.Verdict != reconcile.Different {
		t.Errorf("%s %+v, %d and %d rows (-want +got):\n%s", got.Verdict, got.Counts, *got.Source.Rows, *got.Lake.Rows, diff)
	}
	if opened := 1<<30 - counted.left; opened > 5 {
		t.Errorf("the second run opened %d slices of 8", opened)
	}
	if store.data != nil {
		t.Error("the checkpoint of a finished run stays")
	}
	store.fail = errLost
	if _, err := reconcile.Run(t.Context(), p, counted, memory(reconciletest.Changes, lake, 0), options); !errors.Is(err, errLost) {
		t.Errorf("a checkpoint that cannot be saved: %v", err)
	}
	store.data, store.fail = []byte(`{"version":1,"run":"other"}`), nil
	if _, err := reconcile.Run(t.Context(), p, counted, memory(reconciletest.Changes, lake, 0), options); !errors.Is(err, reconcile.ErrOtherRun) {
		t.Errorf("a checkpoint of another run: %v", err)
	}
}

// A checkpoint is of its choice of tables, source, lake and options, and no
// verdict of it is told after a week.
func TestCheckpointOfAnotherRun(t *testing.T) {
	source, lake := someTables()
	p := reconciletest.Pipeline(t)
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	store := &memoryCheckpoint{}
	options := func() reconcile.Options {
		return reconcile.Options{Checkpoint: store, Identity: "a lake", Now: func() time.Time { return now }}
	}
	opened := func(o reconcile.Options) (int, error) {
		counted := &cutAfter{Reader: &reconciletest.Memory{Tables: source}, left: 1 << 30}
		_, err := reconcile.Run(t.Context(), p, counted, &reconciletest.Memory{Tables: lake}, o)
		return 1<<30 - counted.left, err
	}
	ctx, cancel := context.WithCancel(t.Context())
	cut := &cutAfter{Reader: &reconciletest.Memory{Tables: source}, left: 2, cut: cancel}
	if _, err := reconcile.Run(ctx, p, cut, &reconciletest.Memory{Tables: lake}, options()); !errors.Is(err, context.Canceled) || store.data == nil {
		t.Fatalf("the run that was cut off: %v", err)
	}
	saved := store.data
	for name, change := range map[string]func(*reconcile.Options){
		"tables": func(o *reconcile.Options) { o.Tables = []string{p.Tables[0].Source} },
		"lake":   func(o *reconcile.Options) { o.Identity = "another lake" },
		"settle": func(o *reconcile.Options) { o.Settle = time.Second },
	} {
		o := options()
		change(&o)
		if _, err := opened(o); !errors.Is(err, reconcile.ErrOtherRun) || !slices.Equal(store.data, saved) {
			t.Errorf("other %s: %v", name, err)
		}
	}
	began := now
	for _, tt := range []struct {
		age  time.Duration
		want int
	}{{6 * 24 * time.Hour, len(p.Tables) - 2}, {8 * 24 * time.Hour, len(p.Tables)}} {
		now, store.data = began.Add(tt.age), saved
		if n, err := opened(options()); n != tt.want || err != nil {
			t.Errorf("after %s it opened %d tables, want %d: %v", tt.age, n, tt.want, err)
		}
	}
}

// cutAfter ends the run when a table was opened so many times.
type cutAfter struct {
	reconcile.Reader
	left int
	cut  func()
}

func (c *cutAfter) Open(ctx context.Context, t *catalog.Table, exact bool) (reconcile.View, error) {
	if c.left--; c.left < 0 {
		c.cut()
		return nil, ctx.Err()
	}
	return c.Reader.Open(ctx, t, exact)
}

// Options that can prove nothing are refused.
func TestOptionsRefused(t *testing.T) {
	source, lake := someTables()
	for want, o := range map[string]reconcile.Options{
		"Settle needs Now":         {Settle: time.Second},
		"want 2 Retries or more":   {Settle: time.Second, Now: func() time.Time { return begin }, Retries: 1},
		"Settle needs two looks":   {Settle: time.Second, Now: func() time.Time { return begin }, Retries: -1},
		"a sample of 2 is no frac": {Sample: 2},
	} {
		if _, err := reconcile.Run(t.Context(), reconciletest.Pipeline(t), &reconciletest.Memory{Tables: source}, &reconciletest.Memory{Tables: lake}, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", o, err, want)
		}
	}
}

// A run that takes too long says so, and is no error.
func TestTimeout(t *testing.T) {
	source, lake := someTables()
	slow := &slowReader{Reader: &reconciletest.Memory{Tables: source}}
	for want, store := range map[string]reconcile.Checkpoint{
		"not finished in time: without a checkpoint another run begins anew":                        nil,
		"not finished in time: it continues where it was if it runs again with the same checkpoint": &memoryCheckpoint{},
	} {
		o := reconcile.Options{Timeout: time.Millisecond, Checkpoint: store}
		report, err := reconcile.Run(t.Context(), reconciletest.Pipeline(t), slow, &reconciletest.Memory{Tables: lake}, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, table := range report.Tables {
			if table.Verdict != reconcile.Inconclusive || table.Why != want {
				t.Errorf("%s is %s: %s", table.Table, table.Verdict, table.Why)
			}
		}
		if report.ExitStatus() != 2 {
			t.Errorf("exit status %d", report.ExitStatus())
		}
	}
}

// slowReader answers when its context ends.
type slowReader struct{ reconcile.Reader }

func (*slowReader) Open(ctx context.Context, _ *catalog.Table, _ bool) (reconcile.View, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A sample has about the fraction asked for, of both sides the same keys.
func TestSample(t *testing.T) {
	var source []reconciletest.Row
	for key := range 3000 {
		source = append(source, changesRow(key))
	}
	got := run(t, source, source, reconcile.Options{Sample: 0.1}, 0)
	if got.Verdict != reconcile.Equal || got.Sampled < 0.1 || got.Sampled > 0.12 || *got.Source.Rows != *got.Lake.Rows || *got.Source.Rows < 200 || *got.Source.Rows > 450 {
		t.Errorf("%s, sampled %v, %d and %d rows", got.Verdict, got.Sampled, *got.Source.Rows, *got.Lake.Rows)
	}
	if got := run(t, source, nil, reconcile.Options{Sample: 0.1}, 0); got.Verdict != reconcile.Different || got.Counts.Missing < 200 || got.Counts.Missing > 450 {
		t.Errorf("%s %+v", got.Verdict, got.Counts)
	}
}

// Only chosen keys are compared, and a table without any is left out.
func TestKeys(t *testing.T) {
	source, lake := someTables()
	lake[reconciletest.Changes] = append(slices.Clone(lake[reconciletest.Changes][1:]), changesRow(9000), changesRow(9001))
	p := reconciletest.Pipeline(t)
	keys, err := reconcile.NewKeys(reconciletest.Table(t, p, reconciletest.Changes), [][]string{{"0"}, {"5"}, {"9000"}, {"777777"}})
	if err != nil {
		t.Fatal(err)
	}
	report, err := reconcile.Run(t.Context(), p, &reconciletest.Memory{Tables: source}, &reconciletest.Memory{Tables: lake},
		reconcile.Options{Keys: map[string]*reconcile.Keys{reconciletest.Changes: keys, reconciletest.Lines: nil}})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Tables) != 2 || report.Tables[0].Verdict != reconcile.Equal || report.Tables[0].Scope != "" {
		t.Fatalf("%+v", report.Tables)
	}
	got := report.Tables[1]
	want := []reconcile.Finding{finding(reconcile.Missing, 0, 1), finding(reconcile.Extra, 9000, 1)}
	slices.SortFunc(got.Findings, byKey)
	if diff := gocmp.Diff(want, got.Findings); diff != "" || got.Scope != "4 keys" {
		t.Errorf("scope %q (-want +got):\n%s", got.Scope, diff)
	}
}
