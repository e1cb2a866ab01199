package iceberg_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	iceberglib "github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/google/go-cmp/cmp"

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

// TestChaosReplays runs a seed twice, which must do the same.
func TestChaosReplays(t *testing.T) {
	t.Parallel()
	var runs [2]*sinktest.Result
	for i := range runs {
		chaos := sinktest.Chaos{Seed: 7, Changes: 500, Lake: chaosLake(t)}
		var err error
		if runs[i], err = chaos.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(runs[0], runs[1]); diff != "" {
		t.Errorf("-first run +second:\n%s", diff)
	}
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
			store, err := iceberg.Open(ctx, dir, iceberg.Options{
				Sync: func(f *os.File) error { return disk.Write(f.Name()) }, Retention: iceberg.Retention{SnapshotAge: -1},
				SyncAtOnce: true, // the same seed must write in the same order
			})
			if err != nil {
				return nil, nil, err
			}
			return store, store.Close, nil
		},
		Observe: h.observe,
		Meddle:  meddle,
		Strikes: []sinktest.Strike{sinktest.Compacted, sinktest.DeletesCarried, sinktest.DeletedRemoved, sinktest.Expired},
		Disk:    disk, FlushRows: [2]int{25, 110},
		Remove: func() error { return os.RemoveAll(dir) },
		Mirrors: []string{
			"", "partition: [\"bucket(3, id)\"]", "readers: [duckdb]", "readers: [spark, snowflake]\n  partition: [\"bucket(4, id)\", part]",
		},
		Changelogs: []string{"", "partition: [day(cdc_committed_at)]"},
	}
}

// A historian finds every state that a table has been in: each metadata file
// is one, maintenance included, and each snapshot that it adds. It holds the last
// state seen, by table.
type historian map[string]seenState

type seenState struct {
	file     string
	snapshot int64 // 0 for none
	schema   int
}

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
	last, files := h[def.Name()], []string{current.MetadataLocation()}
	older := slices.Collect(current.Metadata().PreviousFiles())
	for _, f := range slices.Backward(older) {
		if f.MetadataFile == last.file || last.file == files[0] {
			break
		}
		files = append(files, f.MetadataFile)
	}
	var states []sinktest.Snapshot
	for _, file := range slices.Backward(files) {
		state := current
		if file != files[0] {
			if state, err = table.NewFromLocation(ctx, id, file, current.FS, nil); err != nil {
				return nil, fmt.Errorf("read %s: %w", file, err)
			}
		}
		s := sinktest.Snapshot{Properties: state.Properties()}
		before := last
		if last = (seenState{file: file, schema: state.Schema().ID}); state.CurrentSnapshot() != nil {
			last.snapshot = state.CurrentSnapshot().SnapshotID
		}
		if n := len(states); n > 0 && last.snapshot == before.snapshot && last.schema == before.schema {
			s.Columns, s.Rows = states[n-1].Columns, states[n-1].Rows
			states = append(states, s)
			continue
		}
		for _, snapshot := range newSnapshots(state, before.snapshot) {
			if s.Columns, s.Rows, err = readState(ctx, state, snapshot, def); err != nil {
				return nil, fmt.Errorf("read snapshot %d of %s: %w", snapshot, file, err)
			}
			states = append(states, s)
		}
	}
	h[def.Name()] = last
	return states, nil
}

// newSnapshots returns the snapshots of a state that come behind another, the
// oldest first; only the newest if they do not. A commit may make several, of
// the same rows. 0 is no snapshot.
func newSnapshots(state *table.Table, before int64) []int64 {
	newest := state.CurrentSnapshot()
	if newest == nil {
		return []int64{0}
	}
	var ids []int64
	for s := newest; s != nil && s.SnapshotID != before; {
		if ids = append(ids, s.SnapshotID); s.ParentSnapshotID == nil {
			break
		}
		if *s.ParentSnapshotID == before {
			slices.Reverse(ids)
			return ids
		}
		s = state.SnapshotByID(*s.ParentSnapshotID)
	}
	return []int64{newest.SnapshotID}
}

// readState reads all rows of a snapshot of a state with the library alone; the
// newest as any reader does, who does not name it.
func readState(ctx context.Context, state *table.Table, snapshot int64, def *catalog.Table) (names []string, rows [][]string, err error) {
	lake, _ := def.LakeColumns()
	columns := slices.DeleteFunc(slices.Clone(lake), func(c catalog.Column) bool {
		_, ok := state.Schema().FindFieldByName(c.Name)
		return !ok
	})
	for _, c := range columns {
		names = append(names, c.Name)
	}
	if snapshot == 0 {
		return names, nil, nil
	}
	scan := []table.ScanOption{table.WithSelectedFields(names...)}
	if snapshot != state.CurrentSnapshot().SnapshotID {
		scan = append(scan, table.WithSnapshotID(snapshot))
	}
	_, batches, err := state.Scan(scan...).ToArrowRecords(ctx)
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

// meddle maintains a table as its owner does, or other people's tools.
func meddle(ctx context.Context, store sink.Store, def *catalog.Table, r *rand.Rand) (sinktest.Tally, error) {
	if s, ok := store.(*iceberg.Store); ok && r.IntN(3) > 0 {
		return compact(ctx, s, def, r)
	}
	return meddleAsOthers(ctx, store, def)
}

// compact maintains a table by limits so small that something is due. Files
// that are large by them stay, so that deletes are carried over to them.
func compact(ctx context.Context, store *iceberg.Store, def *catalog.Table, r *rand.Rand) (sinktest.Tally, error) {
	m := iceberg.Maintenance{
		TargetFileSize: 1 << 20, MinFiles: 2 + r.IntN(3), DeleteFiles: 1 + r.IntN(3), DeleteRatio: []float64{0.05, 1, 100}[r.IntN(3)],
		SkipExpire: true, SkipOrphans: true, // what is not looked at yet must not go
	}
	layout, err := store.Layout(ctx, def)
	if err != nil {
		return nil, err
	}
	m.Loosen()
	if mean := layout.Bytes / int64(max(1, layout.DataFiles)); mean > 0 && r.IntN(3) > 0 {
		m.TargetFileSize = mean * 4 / 3 // three quarters of it are not small any more
	}
	m.MaxRewrite = m.TargetFileSize << (1 + r.IntN(4))
	report, err := store.Maintain(ctx, def, m)
	if err != nil {
		return nil, err
	}
	struck := make(sinktest.Tally)
	for _, rewrite := range report.Rewrites {
		if rewrite.DataFiles > 0 {
			struck[sinktest.Compacted]++
		}
		if rewrite.Carried {
			struck[sinktest.DeletesCarried]++
		}
		if rewrite.Why == iceberg.DeletedRows {
			struck[sinktest.DeletedRemoved]++
		}
	}
	return struck, nil
}

// meddleAsOthers rewrites the manifests and lets old snapshots go, past the
// store.
func meddleAsOthers(ctx context.Context, store sink.Store, def *catalog.Table) (sinktest.Tally, error) {
	tables, err := lakeTables(store)
	if err != nil {
		return nil, err
	}
	current, err := tables.LoadTable(ctx, table.Identifier{def.Database(), def.Name()})
	if err != nil || current.CurrentSnapshot() == nil {
		return nil, err
	}
	tx := current.NewTransaction()
	if _, err := tx.RewriteManifests(ctx); err != nil {
		return nil, err
	}
	// From now on each reader's plan cuts files in pieces, as it does large ones.
	if err := tx.SetProperties(pieces()); err != nil {
		return nil, err
	}
	if current, err = tx.Commit(ctx); err != nil {
		return nil, err
	}
	struck := make(sinktest.Tally)
	if len(current.Metadata().Snapshots()) > othersKeep {
		struck[sinktest.Expired]++
	}
	tx = current.NewTransaction()
	if err := tx.ExpireSnapshots(table.WithRetainLast(othersKeep), table.WithOlderThan(0)); err != nil {
		return nil, err
	}
	// The library joins what its clean-up says to a commit that has happened,
	// and removes a file that several old snapshots name once for each.
	if _, err = tx.Commit(ctx); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return struck, nil
}

// pieces are properties by which a plan has several tasks for a file of few rows,
// as it has by default for one of more than 128 MiB.
func pieces() iceberglib.Properties {
	return iceberglib.Properties{table.ReadSplitTargetSizeKey: "1", table.ParquetRowGroupLimitKey: "3"}
}

// othersKeep is how many snapshots other people's tools leave.
const othersKeep = 3
