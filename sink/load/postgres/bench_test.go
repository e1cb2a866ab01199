//go:build postgres

package postgres_test

import (
	"fmt"
	"io"
	"testing"

	"icehose/bench/sink/stream"
	"icehose/catalog"
	"icehose/internal/pgtest"
	"icehose/sink/iceberg"
	"icehose/sink/load"
	"icehose/sink/load/postgres"
)

const benchTable = `
version: 1
database: lake
source: {engine: postgresql, position: postgres}
tables:
- source: public.bench
  mode: mirror` + stream.Columns

const benchRows = 1_000_000

// BenchmarkLoad loads a table of a million rows of ten columns, beside a COPY
// of it to nowhere, which any reader of texts pays.
func BenchmarkLoad(b *testing.B) {
	server := pgtest.New(b)
	conn := server.Connect(b)
	_, err := conn.Exec(b.Context(), fmt.Sprintf(`CREATE TABLE bench AS SELECT g::bigint AS id, 'name-' || g AS name, (ARRAY['DE','FR','US','CN'])[1 + g %% 4] AS country,
		g %% 1000 AS qty, g / 7.0::double precision AS ratio, (g %% 100000 / 100.0)::numeric(18,2) AS amount, g %% 2 = 0 AS active, '2026-01-01'::date + g %% 28 AS day,
		'2026-01-01'::timestamptz + g * interval '1 second' AS at, md5(g::text) AS note FROM generate_series(1, %d) g; ANALYZE bench`, benchRows))
	if err != nil {
		b.Fatal(err)
	}
	p, err := catalog.Parse("pipeline.yaml", []byte(benchTable))
	if err != nil {
		b.Fatal(err)
	}
	b.Run("copy alone", func(b *testing.B) {
		for range b.N {
			if _, err := conn.PgConn().CopyTo(b.Context(), io.Discard, "COPY bench TO STDOUT"); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(benchRows*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
	})
	for _, parallel := range []int{1, 2, 4} {
		b.Run(fmt.Sprintf("load, parallel %d", parallel), func(b *testing.B) {
			for range b.N {
				loadOnce(b, server.DSN(), p.Tables[0], parallel)
			}
			b.ReportMetric(benchRows*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

func loadOnce(b *testing.B, dsn string, t *catalog.Table, parallel int) {
	b.Helper()
	store, err := iceberg.Open(b.Context(), b.TempDir(), iceberg.Options{})
	if err != nil {
		b.Fatal(err)
	}
	target, err := store.BeginLoad(b.Context(), t, false)
	if err != nil {
		b.Fatal(err)
	}
	s, err := postgres.Open(b.Context(), dsn, t, postgres.Options{Parallel: parallel})
	if err != nil {
		b.Fatal(err)
	}
	note, err := load.Run(b.Context(), t, 0, s, target, load.Options{Parallel: parallel})
	if err != nil || note.Rows != benchRows {
		b.Fatalf("%d rows, %v", note.Rows, err)
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	if err := store.Close(); err != nil {
		b.Fatal(err)
	}
}
