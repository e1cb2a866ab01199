package job_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"icehose/catalog"
	"icehose/reconcile"
	"icehose/reconcile/job"
	"icehose/reconcile/reconciletest"
)

// A lag is that of a source that follows another server.
func TestReplicaLag(t *testing.T) {
	for role, want := range map[string]string{"": "", "auto": "", "replica": "", "primary": "--replica-lag", "stream": "--replica-lag"} {
		s := job.SourceFlags{MaxConnections: 1, SourceRole: role, ReplicaLag: time.Hour}
		if err := s.CheckSource(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("role %q: %v", role, err)
		}
	}
	s := job.SourceFlags{MaxConnections: 1, ReplicaLag: -time.Hour}
	if err := s.CheckSource(); err == nil {
		t.Error("a source that is ahead")
	}
}

// Of a folder that only icehose writes no table waits for Firehose's commit.
func TestDefaultIdle(t *testing.T) {
	rows := reconciletest.Tables{reconciletest.Changes: {reconciletest.MakeRow("1", "n", "1.00")}}
	for name, tt := range map[string]struct {
		settings job.Settings
		least    time.Duration
	}{
		"folder": {job.Settings{Local: true}, time.Second}, "catalog": {job.Settings{}, 15 * time.Minute}, "said": {job.Settings{SettleIdle: time.Minute}, time.Minute},
	} {
		now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
		began := now
		s := tt.settings
		s.Settle, s.Retries, s.MaxFindings, s.Concurrency = time.Second, 40, 10, 1
		source := job.Reader{Reader: &reconciletest.Memory{Tables: rows}, Closer: io.NopCloser(nil), Live: true}
		report, err := s.Run(t.Context(), reconciletest.Pipeline(t), source, emptyLake{}, reconcile.Options{
			Tables: []string{reconciletest.Changes}, Now: func() time.Time { return now }, Wait: func(_ context.Context, d time.Duration) error { now = now.Add(d); return nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := report.Tables[0].Verdict; got != reconcile.Different || now.Sub(began) < tt.least || now.Sub(began) > 2*tt.least+time.Second {
			t.Errorf("%s: %s after %s, want %s and more", name, got, now.Sub(began), tt.least)
		}
	}
}

// beating is a live source that is told of the heartbeat table.
type beating struct {
	reconcile.Reader
	table *catalog.Table
}

func (b *beating) Heartbeat(t *catalog.Table) { b.table = t }

// A heartbeat that has not come yet is one that has not passed: nothing counts
// as lost before it does. The source is told where to look for it.
func TestHeartbeatThatNeverCame(t *testing.T) {
	p := reconciletest.Pipeline(t)
	rows := reconciletest.Tables{reconciletest.Changes: {reconciletest.MakeRow("1", "n", "1.00")}}
	for heartbeat, want := range map[string]reconcile.Verdict{"": reconcile.Different, reconciletest.Lines: reconcile.Inconclusive} {
		now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
		source := &beating{Reader: &reconciletest.Memory{Tables: rows}}
		s := job.Settings{Settle: time.Second, SettleIdle: time.Minute, Retries: 30, Heartbeat: heartbeat, MaxFindings: 10, Concurrency: 1}
		report, err := s.Run(t.Context(), p, job.Reader{Reader: source, Closer: io.NopCloser(nil), Live: true}, emptyLake{}, reconcile.Options{
			Tables: []string{reconciletest.Changes}, Now: func() time.Time { return now }, Wait: func(_ context.Context, d time.Duration) error { now = now.Add(d); return nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := report.Tables[0]; got.Verdict != want {
			t.Errorf("heartbeat %q: %s, %s; want %s", heartbeat, got.Verdict, got.Why, want)
		}
		if (source.table != nil) != (heartbeat != "") {
			t.Errorf("heartbeat %q: the source is told of %v", heartbeat, source.table)
		}
		if waited := now.Sub(report.Began); waited < time.Minute {
			t.Errorf("heartbeat %q: decided after %s", heartbeat, waited)
		}
	}
}
