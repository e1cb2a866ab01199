//go:build postgres

package repair_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/internal/pgtest"
	"icehose/reconcile"
	"icehose/reconcile/lake"
	"icehose/reconcile/postgres"
	"icehose/reconcile/repair"
	"icehose/sink"
	"icehose/sink/iceberg"
)

// A busySource is a PostgreSQL in which rows change before each of the first
// readings.
type busySource struct {
	*postgres.Reader
	change func() error
	left   int
}

func (b *busySource) Open(ctx context.Context, t *catalog.Table, exact bool) (reconcile.View, error) {
	if b.left > 0 {
		b.left--
		if err := b.change(); err != nil {
			return nil, err
		}
	}
	return b.Reader.Open(ctx, t, exact)
}

// A repair from a real server, whose rows change in between: the positions are
// those of its log, so that a change of the stream from before loses to them
// and one from after wins.
func TestRunPostgres(t *testing.T) {
	ctx := t.Context()
	server := pgtest.New(t)
	conn := server.Connect(t)
	execute := func(sql string) error { _, err := conn.Exec(ctx, sql); return err }
	if err := execute(`CREATE TABLE public.m (id bigint PRIMARY KEY, v text, d double precision, n numeric(10,2), at timestamptz, raw bytea);
		INSERT INTO public.m SELECT i, 'it''s ' || i, i / 7.0, i / 3.0, timestamptz '2026-01-01' + i * interval '1.000001 s', decode(to_hex(i + 256), 'escape') FROM generate_series(1, 300) i`); err != nil {
		t.Fatal(err)
	}
	p, err := catalog.Parse("pipeline.yaml", []byte(`version: 1
database: lake
source: {engine: postgresql, position: postgres}
tables:
- {source: public.m, mode: mirror, key: [id], columns: [{name: id, type: long}, {name: v, type: string}, {name: d, type: double}, {name: n, type: "decimal(10,2)"}, {name: at, type: timestamptz}, {name: raw, type: binary}]}
`))
	if err != nil {
		t.Fatal(err)
	}
	store, err := iceberg.Open(ctx, t.TempDir(), iceberg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close() //nolint:errcheck // the test is over
	ordinal := uint64(0)
	deliver := func(body cdc.Body, ids ...int) {
		t.Helper()
		s, err := sink.Open(ctx, p, store, sink.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var rows []sink.Delivery
		for _, id := range ids {
			data := fmt.Sprintf(`{"id":%d,"v":"wrong","d":null,"n":null,"at":null,"raw":null,"cdc_position":%q,"cdc_committed_at":null}`, id, cdc.ChangePosition(0, body, 1))
			rows = append(rows, sink.Delivery{Offset: sink.Offset{Shard: "s-0", Ordinal: ordinal}, Row: &sink.Row{Database: "lake", Table: "m", Operation: cdc.Update, Data: []byte(data)}})
			ordinal++
		}
		if err := errors.Join(s.Deliver(ctx, rows), s.Close(ctx)); err != nil {
			t.Fatal(err)
		}
	}
	var ids []int
	for id := 2; id <= 320; id += 2 { // half of the rows are missing, half differ, ten are extra
		ids = append(ids, id)
	}
	deliver(cdc.Body{Hi: 1}, ids...)
	reader, err := postgres.Open(ctx, server.DSN(), postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close() //nolint:errcheck // it only read
	compare := func() *reconcile.TableReport {
		t.Helper()
		report, err := reconcile.Run(ctx, p, reader, lake.Open(store), reconcile.Options{Now: clockNow})
		if err != nil {
			t.Fatal(err)
		}
		return &report.Tables[0]
	}
	before := compare()
	if before.Counts.Missing != 150 || before.Counts.Differs != 150 || before.Counts.Extra != 10 || before.Why != "" {
		t.Fatalf("before: %+v %s", before.Counts, before.Why)
	}
	plan, err := repair.NewPlan(p, &reconcile.Report{Tables: []reconcile.TableReport{*before}})
	if err != nil {
		t.Fatal(err)
	}
	source := &busySource{Reader: reader, left: 4, change: func() error {
		return execute("UPDATE public.m SET v = v || '+' WHERE id <= 10; DELETE FROM public.m WHERE id = (SELECT max(id) FROM public.m WHERE id <= 10)")
	}}
	result, err := repair.Run(ctx, p, source, lake.Open(store), store, plan, repair.Options{Now: clockNow, Wait: func(context.Context, time.Duration) error { return nil }})
	if err != nil || !result.Repaired() || result.Tables[0].Rounds < 2 {
		t.Fatalf("result %+v, %v", result, err)
	}
	deliver(cdc.Body{Hi: 2}, 1, 2, 300, 320) // changes from before, late
	if after := compare(); after.Verdict != reconcile.Equal {
		t.Errorf("after: %s %+v %s", after.Verdict, after.Counts, after.Why)
	}
	var end uint64
	if err := conn.QueryRow(ctx, "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").Scan(&end); err != nil {
		t.Fatal(err)
	}
	deliver(cdc.Body{Hi: end}, 5) // a change from after
	if after := compare(); after.Counts.Differs != 1 || after.Counts.Total() != 1 {
		t.Errorf("a change from after the repair did not win: %+v %s", after.Counts, after.Why)
	}
}
