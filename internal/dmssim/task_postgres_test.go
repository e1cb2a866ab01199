//go:build postgres

package dmssim_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"icehose/cdc/kinesis"
	"icehose/internal/dmssim"
)

func TestOwnTables(t *testing.T) {
	s := newSource(t, twoTables)
	var records []record
	c := open(t, s, func(o *dmssim.Options) {
		o.Settings.StatusTableEnabled, o.Settings.HistoryTableEnabled, o.Settings.FullLoadExceptionTableEnabled = true, true, true
		emit := o.Emit
		o.Emit = func(r kinesis.Record) error {
			var parsed record
			if err := json.Unmarshal(r.Data, &parsed); err != nil {
				return err
			}
			if parsed.Metadata["schema-name"] == "" {
				records = append(records, parsed)
			}
			return emit(r)
		}
	})
	c.load(t)
	var got []string
	for _, r := range records {
		got = append(got, fmt.Sprint(r.Metadata["operation"], " ", r.Metadata["table-name"], " ", r.Metadata["transaction-id"], " ", r.Metadata["prev-transaction-id"], " ", r.Metadata["stream-position"]))
	}
	want := []string{
		"create-table awsdms_apply_exceptions <nil> <nil> <nil>", "update awsdms_status 1 <nil> <nil>", "insert awsdms_history 2 1 <nil>",
		"create-table awsdms_full_load_exceptions <nil> <nil> <nil>", "create-table awsdms_full_load_exceptions <nil> <nil> <nil>", "update awsdms_status 3 2 <nil>",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

func TestRunUntilLimit(t *testing.T) {
	s := newSource(t, twoTables)
	// Durations are by the task's clock, which moves when it is read.
	for name, limit := range map[string]func() dmssim.Limit{
		"LSN":      func() dmssim.Limit { return dmssim.Limit{LSN: s.now(t)} },
		"idle":     func() dmssim.Limit { return dmssim.Limit{Idle: 60 * time.Millisecond} },
		"duration": func() dmssim.Limit { return dmssim.Limit{Duration: 60 * time.Millisecond} },
	} {
		t.Run(name, func(t *testing.T) {
			for _, overlap := range []bool{false, true} {
				c := open(t, s, func(o *dmssim.Options) { o.Settings.LoadOverlapsChanges = overlap })
				s.exec(t, `UPDATE t SET v = v || 'x' WHERE id = 1`)
				steps := 0
				if err := c.Run(t.Context(), limit(), func() { steps++ }); err != nil {
					t.Fatal(err)
				}
				counts := c.Counts()["public.t"]
				if !c.Loaded() || counts[dmssim.Load] != 3 || counts[dmssim.Update] != 1 || steps == 0 {
					t.Errorf("overlap %v: loaded %v after %d steps, records %v", overlap, c.Loaded(), steps, counts)
				}
				if err := c.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func TestRunStopsWithItsContext(t *testing.T) {
	s := newSource(t, twoTables)
	c := open(t, s, nil)
	ctx, cancel := context.WithCancel(t.Context())
	err := c.Run(ctx, dmssim.Limit{}, func() {
		if c.Loaded() {
			cancel()
		}
	})
	if ctx.Err() == nil || err == nil {
		t.Errorf("Run returned %v", err)
	}
}

func TestCloseCleansUp(t *testing.T) {
	s := newSource(t, twoTables)
	leftovers := func() int {
		return s.count(t, `SELECT (SELECT count(*) FROM pg_replication_slots) + (SELECT count(*) FROM pg_publication)`)
	}
	c := open(t, s, nil)
	if got := leftovers(); got != 3 { // a slot, a publication for each kind of table
		t.Errorf("%d slots and publications while the task runs, want 3", got)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := leftovers(); got != 0 {
		t.Errorf("%d slots and publications after Close", got)
	}
	kept := open(t, s, func(o *dmssim.Options) { o.KeepSlot = true })
	if err := kept.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := leftovers(); got != 3 {
		t.Errorf("%d slots and publications after Close with KeepSlot, want 3", got)
	}
	_, err := dmssim.Open(t.Context(), dmssim.Options{
		DSN: s.dsn, Tables: []string{"public.%"}, Slot: "test", Publication: "other", Shards: 1, Settings: dmssim.Defaults(),
		Clock: func() time.Time { return time.Unix(0, 0) }, Emit: func(kinesis.Record) error { return nil },
	})
	if err == nil || !strings.Contains(err.Error(), "already exists") {
		t.Errorf("a slot of the same name: %v", err)
	}
	if got := leftovers(); got != 3 {
		t.Errorf("%d slots and publications after a failed Open, want 3: only its own are gone", got)
	}
	replaced := open(t, s, func(o *dmssim.Options) { o.Replace = true })
	replaced.load(t)
	if got := replaced.Counts()["public.t"][dmssim.Load]; got != 3 {
		t.Errorf("%d rows loaded, want 3", got)
	}
}

func TestOpenRefuses(t *testing.T) {
	s := newSource(t, twoTables)
	tests := []struct {
		name  string
		apply func(*dmssim.Options)
		want  string
	}{
		{"no such table", func(o *dmssim.Options) { o.Tables = []string{"public.nothing%"} }, "no table matches"},
		{"restart of a table that is not selected", func(o *dmssim.Options) { o.Settings.RestartLoadOf = []string{"public.x"} }, "public.x"},
		{"password in a broken connection string", func(o *dmssim.Options) { o.DSN = "postgres://u:s3cret@:port/x" }, "parse connection string"},
		{"no server", func(o *dmssim.Options) { o.DSN = "postgres://u:s3cret@127.0.0.1:1/x" }, "connect to database x"},
		{"bad setting", func(o *dmssim.Options) { o.Settings.LSNReading = "" }, "LSNReading"},
		{"no shard", func(o *dmssim.Options) { o.Shards = 0 }, "0 shards"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := dmssim.Options{
				DSN: s.dsn, Tables: []string{"public.%"}, Slot: "test", Publication: "test", Shards: 1, Settings: dmssim.Defaults(),
				Clock: func() time.Time { return time.Unix(0, 0) }, Emit: func(kinesis.Record) error { return nil },
			}
			tt.apply(&o)
			_, err := dmssim.Open(t.Context(), o)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want one line with %q", err, tt.want)
			}
			if n := s.count(t, `SELECT (SELECT count(*) FROM pg_replication_slots) + (SELECT count(*) FROM pg_publication)`); n != 0 {
				t.Errorf("%d slots and publications are left", n)
			}
		})
	}
}

func TestSelection(t *testing.T) {
	s := newSource(t, `CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE t_1 (id int PRIMARY KEY); CREATE TABLE tx1 (id int PRIMARY KEY);
		CREATE SCHEMA other; CREATE TABLE other.t (id int PRIMARY KEY); CREATE VIEW v AS SELECT * FROM t;
		CREATE TABLE whole (id int PRIMARY KEY) PARTITION BY RANGE (id); CREATE TABLE part PARTITION OF whole FOR VALUES FROM (0) TO (9)`)
	tests := []struct {
		patterns []string
		want     []string
	}{
		{[]string{"public.t"}, []string{"public.t"}},
		{[]string{"public.t_1"}, []string{"public.t_1", "public.tx1"}},
		{[]string{"%.t"}, []string{"other.t", "public.t"}},
		{[]string{"other.%", "public.%x%"}, []string{"other.t", "public.tx1"}},
		{[]string{"public.%"}, []string{"public.part", "public.t", "public.t_1", "public.tx1"}},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.patterns, " "), func(t *testing.T) {
			c := open(t, s, func(o *dmssim.Options) { o.Tables, o.MapEveryTable = tt.patterns, true })
			var got []string
			for _, table := range c.Tables() {
				got = append(got, table.FullName())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("tables (-want +got):\n%s", diff)
			}
		})
	}
}

// TestMapEveryTable looks at what the mappings are for: one partition key for
// a row's load and its changes.
func TestMapEveryTable(t *testing.T) {
	s := newSource(t, twoTables)
	c := open(t, s, func(o *dmssim.Options) { o.MapEveryTable = true })
	c.load(t)
	s.exec(t, `UPDATE t SET v = 'x'; INSERT INTO keyless VALUES (1)`)
	c.catchUp(t, s)
	keys := map[string]map[string]bool{}
	for _, r := range c.records {
		if r.Data == nil {
			continue
		}
		row := fmt.Sprint(r.Metadata["table-name"], r.Data["id"])
		if keys[row] == nil {
			keys[row] = map[string]bool{}
		}
		keys[row][fmt.Sprint(r.Metadata["partition-key-type"], " ", r.Metadata["partition-key-value"], " ", r.Shard)] = true
	}
	if len(keys) != 4 {
		t.Errorf("rows of %d keys, want 4", len(keys))
	}
	for row, seen := range keys {
		if len(seen) != 1 {
			t.Errorf("%s has more than one partition key: %v", row, seen)
		}
	}
}
