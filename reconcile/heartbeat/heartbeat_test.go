package heartbeat_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/reconcile/heartbeat"
)

func find(t *testing.T, dsn, table string) *heartbeat.Source {
	t.Helper()
	s, err := heartbeat.Find(dsn, table)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestFind(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		dsn, table string
		engine     catalog.Engine
		want       string
	}{
		{"postgres://u:p@h/shop", "heartbeat", catalog.PostgreSQL, "public.heartbeat"},
		{"POSTGRESQL://u:p@h/shop", "ops.beat", catalog.PostgreSQL, "ops.beat"},
		{"mysql://u:p@h/shop?tls=true", "heartbeat", catalog.MySQL, "shop.heartbeat"},
		{"mariadb://u:p@h", "ops.beat", catalog.MariaDB, "ops.beat"},
	} {
		if s := find(t, c.dsn, c.table); s.Engine != c.engine || s.Name() != c.want {
			t.Errorf("%s, %s: %s %s, want %s %s", c.dsn, c.table, s.Engine, s.Name(), c.engine, c.want)
		}
	}
	for dsn, table := range map[string]string{
		"mysql://u:secret@h": "heartbeat", "postgres://u:secret@h/shop": "ops.", "oracle://u:secret@h/shop": "heartbeat",
		"password=secret host=h": "heartbeat", "postgres://u:se%zzcret@h/shop": "heartbeat", "secret://": "heartbeat", "mysql://u:secret@h:x/shop": "heartbeat",
	} {
		if s, err := heartbeat.Find(dsn, table); err == nil || strings.Contains(err.Error(), "cret") {
			t.Errorf("%s of %s: %v, %v", table, dsn, s, err)
		}
	}
}

// The number of rows is the least whose chance to miss a shard is below one in a
// million, for the bound S*(1-1/S)^N.
func TestRowsFor(t *testing.T) {
	t.Parallel()
	for shards, want := range map[int]int{1: 1, 2: 21, 4: 53, 8: 120, 16: 258} {
		if got := heartbeat.RowsFor(shards); got != want {
			t.Errorf("%d shards: %d rows, want %d", shards, got, want)
		}
	}
	for shards := 1; shards <= heartbeat.MaxShards; shards++ {
		rows := heartbeat.RowsFor(shards)
		if rows > heartbeat.MaxRows || heartbeat.Unreached(shards, rows) >= heartbeat.Enough || rows > 1 && heartbeat.Unreached(shards, rows-1) < heartbeat.Enough {
			t.Fatalf("%d shards: %d rows miss one with %g, one less with %g", shards, rows, heartbeat.Unreached(shards, rows), heartbeat.Unreached(shards, rows-1))
		}
	}
	if got := heartbeat.Unreached(4, 0); got != 1 {
		t.Errorf("no rows miss a shard with %g", got)
	}
}

func TestCover(t *testing.T) {
	t.Parallel()
	s := find(t, "postgres://h/shop", "heartbeat")
	if c := s.Cover(4, 53); c.Reached != 4 || !c.Enough() || !strings.Contains(c.String(), "public.heartbeat.1 to public.heartbeat.53") || !strings.Contains(c.String(), "4 of 4") {
		t.Errorf("53 rows, 4 shards: %+v\n%s", c, c)
	}
	if c := s.Cover(4, 2); c.Reached > 2 || c.Enough() || c.Unreached < 0.5 {
		t.Errorf("2 rows, 4 shards: %+v", c)
	}
	if c := s.Cover(4, 40); c.Enough() || c.Reached != 4 {
		t.Errorf("ten rows for each of 4 shards: %+v", c)
	}
}

func TestDefine(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		dsn, table, sql, position string
	}{
		"postgresql": {"postgres://keeper:secret@h/shop", "heartbeat", `-- the table
CREATE TABLE "public"."heartbeat" ("id" integer PRIMARY KEY, "at" timestamptz NOT NULL);
-- for the account that writes it; the accounts of DMS and of icehose reconcile need SELECT
GRANT USAGE ON SCHEMA "public" TO "keeper";
GRANT SELECT, INSERT, UPDATE ("at") ON "public"."heartbeat" TO "keeper";
`, "postgres"},
		"mysql": {"mysql://h/shop", "ops.Beat", "-- the table\n" +
			"CREATE TABLE `ops`.`Beat` (`id` INT NOT NULL PRIMARY KEY, `at` TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)) ENGINE=InnoDB;\n" +
			"-- for the account that writes it; the accounts of DMS and of icehose reconcile need SELECT\n" +
			"GRANT SELECT, INSERT, UPDATE ON `ops`.`Beat` TO `icehose_heartbeat`@'%';\n", "mysql"},
		"a strange name": {"postgres://h/shop", "public.a\"b -- \nc", "-- the table\nCREATE TABLE \"public\".\"a\"\"b -- \nc\" (", "postgres"},
	} {
		s := find(t, c.dsn, c.table)
		d := s.Define()
		if !strings.HasPrefix(d.String(), c.sql) || strings.Contains(d.String(), "secret") {
			t.Errorf("%s:\n%s", name, cmp.Diff(c.sql, d.String()))
		}
		file := "version: 1\ndatabase: lake\nsource: {engine: " + string(s.Engine) + ", position: " + c.position + "}\ntables:\n" + d.Pipeline
		if name == "a strange name" {
			file = strings.Replace(file, "  mode:", "  target: beat\n  mode:", 1)
		}
		p, err := catalog.Parse("pipeline.yaml", []byte(file))
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, file)
			continue
		}
		if got := p.Tables[0]; got.Source != s.Name() || got.Mode != catalog.Mirror || !slices.Equal(got.Key, []string{"id"}) || len(got.Columns) != 2 || got.Columns[1].Type.Kind != catalog.TimestampTZ {
			t.Errorf("%s: the pipeline file has %+v", name, got)
		}
	}
}

func TestStatements(t *testing.T) {
	t.Parallel()
	pg, my := find(t, "postgres://h/shop", "heartbeat"), find(t, "mysql://h/shop", "heartbeat")
	o := &heartbeat.Options{StatementTimeout: 5 * time.Second, LockTimeout: 1200 * time.Millisecond}
	for got, want := range map[string]string{
		heartbeat.PostgresUpsert(pg, "id", "at", 3): `INSERT INTO "public"."heartbeat" ("id", "at") SELECT g, statement_timestamp() FROM generate_series(1, 3) g ON CONFLICT ("id") DO UPDATE SET "at" = excluded."at"`,
		heartbeat.MySQLUpsert(my, "id", "at", 3):    "INSERT INTO `shop`.`heartbeat` (`id`, `at`) VALUES (1, NOW(6)), (2, NOW(6)), (3, NOW(6)) ON DUPLICATE KEY UPDATE `at` = NOW(6)",
		heartbeat.PostgresStrangers(pg, "id", 3):    `SELECT coalesce(min("id") < 1 OR max("id") > 3, false) FROM "public"."heartbeat"`,
		heartbeat.MySQLStrangers(my, "id", 3):       "SELECT COALESCE(MIN(`id`) < 1 OR MAX(`id`) > 3, 0) FROM `shop`.`heartbeat`",
	} {
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	for _, want := range []string{"SET statement_timeout = 5000", "SET lock_timeout = 1200", "SET row_security = off"} {
		if got := heartbeat.PostgresSession(o); !slices.Contains(got, want) {
			t.Errorf("PostgreSQL's session lacks %s: %q", want, got)
		}
	}
	for want, mariadb := range map[string]bool{
		"SET SESSION max_statement_time = 5.000000": true, "SET SESSION innodb_lock_wait_timeout = 1": true, "SET SESSION lock_wait_timeout = 1": false, "SET SESSION max_execution_time = 5000": false,
	} {
		if got := heartbeat.MySQLSession(o, mariadb); !slices.Contains(got, want) {
			t.Errorf("MySQL's session lacks %s: %q", want, got)
		}
	}
}

// steps are answers, one after the other, then success.
func steps(answers ...error) func() error {
	return func() error {
		if len(answers) == 0 {
			return nil
		}
		err := answers[0]
		answers = answers[1:]
		return err
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	broken, final := errors.New("broken"), errors.New("final")
	source := find(t, "postgres://h/shop", "heartbeat")
	refused := source.Refuse("it is gone")
	s := time.Second
	for _, c := range []struct {
		name                string
		dial, check, beat   []error
		once                bool
		want                error
		waits               []time.Duration // the last is cut off
		beats, failed, more int64
		closed              int
	}{
		{name: "once", once: true, beats: 1, closed: 1},
		{name: "goes on", waits: []time.Duration{5 * s, 5 * s, 5 * s}, beats: 3, closed: 1},
		{name: "does not answer", dial: []error{broken}, want: broken},
		{name: "refused", check: []error{refused}, want: refused, closed: 1},
		{name: "the first beat fails", beat: []error{broken}, want: broken, closed: 1},
		{name: "a lost connection", beat: []error{nil, broken}, waits: []time.Duration{5 * s, s, 5 * s}, beats: 2, failed: 1, more: 1, closed: 2},
		{
			name: "lost for long", dial: []error{nil, broken, broken, broken, broken, broken, broken}, beat: []error{nil, broken},
			waits: []time.Duration{5 * s, s, 2 * s, 4 * s, 8 * s, 16 * s, 30 * s, 30 * s, 5 * s}, beats: 2, failed: 7, more: 1, closed: 2,
		},
		{name: "waits anew", beat: []error{nil, broken, nil, broken}, waits: []time.Duration{5 * s, s, 5 * s, s, 5 * s}, beats: 3, failed: 2, more: 2, closed: 3},
		{name: "stopped while it fails", beat: []error{nil, broken}, waits: []time.Duration{5 * s, s}, want: broken, beats: 1, failed: 1, closed: 1},
		{name: "a right is taken away", beat: []error{nil, final}, waits: []time.Duration{5 * s}, want: final, beats: 1, failed: 1, closed: 1},
		{name: "the table goes", beat: []error{nil, broken}, check: []error{nil, refused}, waits: []time.Duration{5 * s, s}, want: refused, beats: 1, failed: 2, closed: 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var waits []time.Duration
			var log bytes.Buffer
			shown := int64(0)
			fake := &heartbeat.Fake{Dial: steps(c.dial...), Check: steps(c.check...), Beat: steps(c.beat...), Final: func(err error) bool { return errors.Is(err, final) }}
			got, err := heartbeat.RunWith(t.Context(), source, heartbeat.Options{
				Rows: 9, Every: 5 * s, Once: c.once, Log: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})), Beat: func() { shown++ },
				Wait: func(_ context.Context, d time.Duration) error {
					if waits = append(waits, d); len(waits) == len(c.waits) && !errors.Is(c.want, final) && !errors.Is(c.want, refused) {
						return context.Canceled
					}
					return nil
				},
			}, fake)
			if !errors.Is(err, c.want) || c.want == nil && err != nil {
				t.Errorf("ended with %v, want %v", err, c.want)
			}
			want := heartbeat.Result{Table: "public.heartbeat", Rows: 9, Beats: c.beats, Failed: c.failed, Reconnects: c.more}
			if diff := cmp.Diff(want, got); diff != "" || shown != c.beats || fake.Closed != c.closed {
				t.Errorf("%d shown, %d closed: %s", shown, fake.Closed, diff)
			}
			if !slices.Equal(waits, c.waits) {
				t.Errorf("waited %v, want %v", waits, c.waits)
			}
			warned := c.failed
			if errors.Is(c.want, final) || errors.Is(c.want, refused) && c.failed > 0 {
				warned-- // that is told by the error
			}
			if got := strings.Count(log.String(), `"level":"WARN"`); int64(got) != warned {
				t.Errorf("%d warnings, want %d:\n%s", got, warned, &log)
			}
		})
	}
}

// A writer that is told to stop before it has begun says so; one whose beat has
// begun ends it first.
func TestStop(t *testing.T) {
	t.Parallel()
	source := find(t, "postgres://h/shop", "heartbeat")
	none := func(error) bool { return false }
	ctx, stop := context.WithCancel(t.Context())
	o := heartbeat.Options{Rows: 9, Every: time.Second, Log: slog.New(slog.DiscardHandler), Wait: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }}
	got, err := heartbeat.RunWith(ctx, source, o, &heartbeat.Fake{Dial: steps(), Check: steps(), Final: none, Beat: func() error {
		stop()
		return nil
	}})
	if err != nil || got.Beats != 1 {
		t.Errorf("stopped while a beat was written: %v, %v", got, err)
	}
	got, err = heartbeat.RunWith(ctx, source, o, &heartbeat.Fake{Dial: func() error { return ctx.Err() }, Check: steps(), Beat: steps(), Final: none})
	if !errors.Is(err, context.Canceled) || got.Beats != 0 {
		t.Errorf("stopped before the first beat: %v, %v", got, err)
	}
	o.For = time.Nanosecond
	o.Wait = func(ctx context.Context, _ time.Duration) error {
		<-ctx.Done()
		return ctx.Err()
	}
	if got, err = heartbeat.RunWith(t.Context(), source, o, &heartbeat.Fake{Dial: steps(), Check: steps(), Beat: steps(), Final: none}); err != nil || got.Beats != 1 {
		t.Errorf("stopped by its time: %v, %v", got, err)
	}
}
