//go:build interop

package interop_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/apache/iceberg-go/table"

	"icehose/catalog"
	"icehose/internal/canon"
	"icehose/sink"
	"icehose/sink/iceberg"
	"icehose/sink/sinktest"
)

// chaosReads is how many seeds of the sink's chaos each reader reads.
const chaosReads = 2

// TestReadersChaos lets other readers take the place of ours in the sink's chaos:
// what it compares with the model, at every state of every table that it looks
// at, is what they read.
func TestReadersChaos(t *testing.T) {
	for _, name := range []string{"spark", "duckdb", "pyiceberg"} {
		t.Run(name, func(t *testing.T) { readChaos(t, name) })
	}
}

func TestTrinoReadersChaos(t *testing.T) { readChaos(t, "trino") }

func readChaos(t *testing.T, name string) {
	t.Helper()
	// What the pipeline file says of mirrors, by seed: both delete formats, as far
	// as the engine reads them, and with partitions. A run draws one of its two.
	layouts := [][]string{{fmt.Sprintf("readers: [%s, snowflake]", name), fmt.Sprintf("readers: [%s, databricks]\n  partition: [\"bucket(3, id)\", part]", name)}}
	if catalog.Reader(name).ReadsEqualityDeletes() {
		layouts = append(layouts, []string{fmt.Sprintf("readers: [%s]", name), fmt.Sprintf("readers: [icehose, %s]\n  partition: [\"bucket(4, id)\", part]", name)})
	}
	total, states := make(sinktest.Tally), 0
	for seed := range uint64(chaosReads) {
		w := &witness{engine: sharedLake(t).engine(t, name), prefix: fmt.Sprintf("%s_%d", name, seed), dir: t.TempDir()}
		var err error
		if w.names, err = sql.Open("sqlite", filepath.Join(sharedLake(t).dir, "catalog.db")+"?_pragma=busy_timeout(10000)"); err != nil {
			t.Fatal(err)
		}
		disk := new(sinktest.Disk)
		chaos := sinktest.Chaos{Seed: 31_001 + seed, Changes: 500, Lake: sinktest.ChaosLake{
			Open: func(ctx context.Context) (sink.Store, func() error, error) {
				store, err := iceberg.Open(ctx, w.dir, iceberg.Options{
					Sync: func(f *os.File) error { return disk.Write(f.Name()) }, Retention: iceberg.Retention{SnapshotAge: -1},
					SyncAtOnce: true, // a rival that commits in the middle would wait for what is being forced
				})
				if err != nil {
					return nil, nil, err
				}
				return store, store.Close, nil
			},
			Observe: w.observe, Meddle: w.maintain, Disk: disk, FlushRows: [2]int{25, 110},
			Mirrors: layouts[int(seed)%len(layouts)], Changelogs: []string{"", "partition: [day(cdc_committed_at)]"},
		}}
		result, err := chaos.Run(t.Context())
		if err := errors.Join(err, w.names.Close()); err != nil {
			t.Fatal(err)
		}
		total.Add(result.Tally)
		states += result.States
		if w.rows == 0 || result.States < 50 {
			t.Errorf("seed %d: %d states of %d rows were read: too few", seed, result.States, w.rows)
		}
	}
	if total[sinktest.Compacted] == 0 {
		t.Error("nothing was compacted")
	}
	t.Logf("%s read %d states", name, states)
}

// A witness reads the lake of a chaos with an engine.
type witness struct {
	engine *engine
	names  *sql.DB // of the catalog that the engine reads
	prefix string  // of the tables there
	dir    string  // of the lake
	rows   int     // that were read
}

// observe returns the present state of a table as the engine reads it, under a
// name in the catalog of all tests.
func (w *witness) observe(ctx context.Context, store sink.Store, def *catalog.Table) ([]sinktest.Snapshot, error) {
	s, ok := store.(*iceberg.Store)
	if !ok {
		return nil, fmt.Errorf("%T is no lake of files", store)
	}
	current, err := s.Tables().Tables.LoadTable(ctx, table.Identifier{def.Database(), def.Name()})
	if err != nil {
		return nil, err
	}
	state := sinktest.Snapshot{Properties: current.Properties()}
	columns, _ := def.LakeColumns()
	columns = slices.DeleteFunc(slices.Clone(columns), func(c catalog.Column) bool {
		_, ok := current.Schema().FindFieldByName(c.Name)
		return !ok
	})
	for _, c := range columns {
		state.Columns = append(state.Columns, c.Name)
	}
	name := w.prefix + "_" + def.Name()
	if err := w.register(ctx, name, current.MetadataLocation()); err != nil {
		return nil, err
	}
	rows, err := w.engine.scan("chaos."+name, state.Columns, 0)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		texts := make([]string, len(row))
		for i, v := range row {
			if texts[i] = "NULL"; v == nil {
				continue
			}
			text, err := canon.Append(nil, &columns[i], canon.Postgres, []byte(*v))
			if err != nil {
				return nil, fmt.Errorf("column %s: %w", columns[i].Name, err)
			}
			texts[i] = string(text)
		}
		state.Rows = append(state.Rows, texts)
	}
	w.rows += len(rows)
	return []sinktest.Snapshot{state}, nil
}

// register lets a name of the catalog stand for a state of a table.
func (w *witness) register(ctx context.Context, name, location string) error {
	const namespace = `INSERT OR IGNORE INTO iceberg_namespace_properties VALUES ('icehose', 'chaos', 'exists', 'true')`
	if _, err := w.names.ExecContext(ctx, namespace); err != nil {
		return err
	}
	const entry = `INSERT OR REPLACE INTO iceberg_tables (catalog_name, table_namespace, table_name, iceberg_type, metadata_location) VALUES ('icehose', 'chaos', ?, 'TABLE', ?)`
	_, err := w.names.ExecContext(ctx, entry, name, location)
	return err
}

// maintain compacts a table and rewrites its manifests, by limits so small that
// something is due.
func (w *witness) maintain(ctx context.Context, store sink.Store, def *catalog.Table, r *rand.Rand) (sinktest.Tally, error) {
	s, ok := store.(*iceberg.Store)
	if !ok {
		return nil, fmt.Errorf("%T is no lake of files", store)
	}
	report, err := s.Maintain(ctx, def, iceberg.Maintenance{
		TargetFileSize: 1 << 20, MinFiles: 2 + r.IntN(20), DeleteFiles: 1 + r.IntN(20), DeleteRatio: 1,
		SkipExpire: true, SkipOrphans: true,
	})
	if err != nil {
		return nil, err
	}
	return sinktest.Tally{sinktest.Compacted: len(report.Rewrites)}, nil
}
