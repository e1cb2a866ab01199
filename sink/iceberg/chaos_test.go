package iceberg_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"testing"

	"github.com/apache/iceberg-go/table"

	"icehose/catalog"
	"icehose/internal/canon/canonarrow"
	"icehose/sink"
	"icehose/sink/iceberg"
	"icehose/sink/sinktest"
)

// TestChaos runs seeds on real tables and files. CI runs more of them, see make
// chaos.
func TestChaos(t *testing.T) {
	t.Parallel()
	sinktest.RunChaos(t, "./sink/iceberg", 4, func() sinktest.ChaosLake { return chaosLake(t) })
}

// chaosLake is a lake in a folder of its own, whose files nobody forces to the
// disk: a killed process leaves them as they are.
func chaosLake(t *testing.T) sinktest.ChaosLake {
	t.Helper()
	dir := t.TempDir()
	disk := new(sinktest.Disk)
	h := make(historian)
	return sinktest.ChaosLake{
		Open: func(ctx context.Context) (sink.Store, func() error, error) {
			store, err := iceberg.Open(ctx, dir, iceberg.Options{Sync: func(f *os.File) error { return disk.Write(f.Name()) }})
			if err != nil {
				return nil, nil, err
			}
			return store, store.Close, nil
		},
		Observe: h.observe,
		Meddle:  meddle,
		Disk:    disk, FlushRows: [2]int{12, 70},
		Remove: func() error { return os.RemoveAll(dir) },
		Mirrors: []string{
			"", "partition: [\"bucket(3, id)\"]", "readers: [duckdb]", "readers: [spark, snowflake]\n  partition: [\"bucket(4, id)\", part]",
		},
		Changelogs: []string{"", "partition: [day(cdc_committed_at)]"},
	}
}

// A historian finds every state that a table has been in: each metadata file
// is one, maintenance included. It holds that of the last state seen, by table.
type historian map[string]string

func lakeTables(store sink.Store) (interface {
	LoadTable(ctx context.Context, id table.Identifier) (*table.Table, error)
}, error,
) {
	s, ok := store.(*iceberg.Store)
	if !ok {
		return nil, fmt.Errorf("%T is no lake of files", store)
	}
	return s.Tables().Tables, nil
}

func (h historian) observe(ctx context.Context, store sink.Store, def *catalog.Table) ([]sinktest.Snapshot, error) {
	tables, err := lakeTables(store)
	if err != nil {
		return nil, err
	}
	id := table.Identifier{def.Database(), def.Name()}
	current, err := tables.LoadTable(ctx, id)
	if err != nil {
		return nil, err
	}
	// The files since the last state seen, the newest first.
	files := []string{current.MetadataLocation()}
	older := slices.Collect(current.Metadata().PreviousFiles())
	for _, f := range slices.Backward(older) {
		if f.MetadataFile == h[def.Name()] || h[def.Name()] == files[0] {
			break
		}
		files = append(files, f.MetadataFile)
	}
	h[def.Name()] = files[0]
	var states []sinktest.Snapshot
	var before *table.Table
	for _, file := range slices.Backward(files) {
		state := current
		if file != files[0] {
			if state, err = table.NewFromLocation(ctx, id, file, current.FS, nil); err != nil {
				return nil, fmt.Errorf("read %s: %w", file, err)
			}
		}
		s := sinktest.Snapshot{Properties: state.Properties()}
		if n := len(states); n > 0 && sameRows(before, state) {
			s.Columns, s.Rows = states[n-1].Columns, states[n-1].Rows
		} else if s.Columns, s.Rows, err = readState(ctx, state, def); err != nil {
			return nil, fmt.Errorf("read table of %s: %w", file, err)
		}
		before, states = state, append(states, s)
	}
	return states, nil
}

// sameRows reports whether two states have the same snapshot and columns.
func sameRows(a, b *table.Table) bool {
	one, other := a.CurrentSnapshot(), b.CurrentSnapshot()
	return one != nil && other != nil && one.SnapshotID == other.SnapshotID && a.Schema().ID == b.Schema().ID
}

// readState reads all rows of the current snapshot of a state with the library
// alone.
func readState(ctx context.Context, state *table.Table, def *catalog.Table) (names []string, rows [][]string, err error) {
	lake, _ := def.LakeColumns()
	columns := slices.DeleteFunc(slices.Clone(lake), func(c catalog.Column) bool {
		_, ok := state.Schema().FindFieldByName(c.Name)
		return !ok
	})
	for _, c := range columns {
		names = append(names, c.Name)
	}
	if state.CurrentSnapshot() == nil {
		return names, nil, nil
	}
	_, batches, err := state.Scan(table.WithSelectedFields(names...)).ToArrowRecords(ctx)
	if err != nil {
		return nil, nil, err
	}
	var text []byte
	for batch, err := range batches {
		if err != nil {
			return nil, nil, err
		}
		for i := range int(batch.NumRows()) {
			row := make([]string, len(columns))
			for n, c := range columns {
				column := batch.Column(batch.Schema().FieldIndices(c.Name)[0])
				if column.IsNull(i) {
					row[n] = "NULL"
					continue
				}
				if text, err = canonarrow.Append(text[:0], column, i, c.Type); err != nil {
					return nil, nil, err
				}
				row[n] = string(text)
			}
			rows = append(rows, row)
		}
		batch.Release()
	}
	return names, rows, nil
}

// meddle maintains a table as other people's tools do: it rewrites the manifests
// and lets old snapshots go.
func meddle(ctx context.Context, store sink.Store, def *catalog.Table) error {
	tables, err := lakeTables(store)
	if err != nil {
		return err
	}
	current, err := tables.LoadTable(ctx, table.Identifier{def.Database(), def.Name()})
	if err != nil || current.CurrentSnapshot() == nil {
		return err
	}
	tx := current.NewTransaction()
	if _, err := tx.RewriteManifests(ctx); err != nil {
		return err
	}
	if current, err = tx.Commit(ctx); err != nil {
		return err
	}
	tx = current.NewTransaction()
	if err := tx.ExpireSnapshots(table.WithRetainLast(3), table.WithOlderThan(0)); err != nil {
		return err
	}
	// The library joins what its clean-up says to a commit that has happened,
	// and removes a file that several old snapshots name once for each.
	if _, err = tx.Commit(ctx); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
