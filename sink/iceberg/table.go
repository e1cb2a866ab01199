package iceberg

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"strings"
	"sync/atomic"

	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"

	"icehose/catalog"
	lake "icehose/catalog/iceberg"
	"icehose/internal/canon/canonarrow"
	"icehose/sink"
)

// A lakeTable is one Iceberg table.
type lakeTable struct {
	store      *Store
	definition *catalog.Table
	columns    []catalog.Column // lake columns
	// pending says that the table does not have the columns of the definition
	// yet: the next commit of rows evolves it.
	pending atomic.Bool
	written *written                    // of a batch that has not been committed; nil for none
	ahead   aheadOf                     // batches whose commits have not begun
	newest  atomic.Pointer[table.Table] // as it was when last looked at
	meddled bool                        // see Meddled

	dataFiles, deleteFiles int64 // after the last commit, -1 if unknown
	merged                 int64 // sequence number at which manifests were merged last, or nothing was to merge
}

var (
	_ sink.Table       = (*lakeTable)(nil)
	_ sink.FileCounter = (*lakeTable)(nil)
	_ sink.Watcher     = (*lakeTable)(nil)
)

func (t *lakeTable) current(ctx context.Context) (*table.Table, error) {
	current, err := t.store.catalog.LoadTable(ctx, identifier(t.definition))
	if err == nil {
		t.newest.Store(current)
	}
	return current, err
}

// Load implements sink.Table.
func (t *lakeTable) Load(ctx context.Context) (sink.State, error) {
	current, err := t.current(ctx)
	if err != nil {
		return sink.State{}, t.store.lasting(fmt.Errorf("load table: %w", oneLine(err)))
	}
	properties := maps.Clone(current.Properties())
	maps.DeleteFunc(properties, func(name, _ string) bool { return !strings.HasPrefix(name, sink.PropertyPrefix) })
	return sink.State{Properties: properties, Rows: rowCount(current), Own: isOwn(current)}, nil
}

// isOwn reports whether the rows are those of the last commit of a sink: its
// snapshot says so, and one of maintenance if that was so before it, and a
// snapshot that replaces files by others has the rows of the one before.
func isOwn(t *table.Table) bool {
	id := t.Properties()[sink.PropertyCommit]
	s := t.CurrentSnapshot()
	for id != "" && s != nil && s.Summary != nil {
		if s.Summary.Properties[sink.PropertyCommit] == id {
			return true
		}
		if s.Summary.Operation != table.OpReplace || s.ParentSnapshotID == nil {
			return false
		}
		s = t.SnapshotByID(*s.ParentSnapshotID)
	}
	return false
}

// look notes whether somebody else has changed rows before the commit that is
// made on top of current: it hides from isOwn that they did.
func (t *lakeTable) look(current *table.Table) {
	t.meddled = t.meddled || current.CurrentSnapshot() != nil && !isOwn(current)
}

// Meddled implements sink.Watcher.
func (t *lakeTable) Meddled() bool { return t.meddled }

// rowCount reads the number of rows off the newest snapshot's summary, which
// is exact only while no delete file speaks of any of them.
func rowCount(t *table.Table) int64 {
	if summaryCount(t, "total-delete-files") != 0 {
		return -1
	}
	return summaryCount(t, "total-records")
}

// count notes of how many files the table is made.
func (t *lakeTable) count(current *table.Table) {
	t.dataFiles, t.deleteFiles = summaryCount(current, "total-data-files"), summaryCount(current, "total-delete-files")
}

// summaryCount reads a number off the newest snapshot's summary, -1 if it is
// not there.
func summaryCount(t *table.Table, name string) int64 {
	snapshot := t.CurrentSnapshot()
	if snapshot == nil {
		return 0
	}
	if n, ok := lake.SummaryCount(snapshot, name); ok {
		return n
	}
	return -1
}

// Files implements sink.FileCounter.
func (t *lakeTable) Files() (data, deletes int64) { return t.dataFiles, t.deleteFiles }

// Scan implements sink.Table.
func (t *lakeTable) Scan(ctx context.Context, columns []int) iter.Seq2[[][]byte, error] {
	return func(yield func([][]byte, error) bool) {
		read, names := make([]catalog.Column, len(columns)), make([]string, len(columns))
		for n, c := range columns {
			read[n], names[n] = t.columns[c], t.columns[c].Name
		}
		r := canonarrow.NewRowReader(read)
		for batch, err := range t.store.Scan(ctx, t.definition, 0, names) {
			if err != nil {
				yield(nil, err)
				return
			}
			for row, err := range r.RowsInOrder(batch) {
				if !yield(row, err) || err != nil {
					return
				}
			}
		}
	}
}

// ReadFile implements sink.Table.
func (t *lakeTable) ReadFile(ctx context.Context, name string) ([]byte, error) {
	current, err := t.current(ctx)
	if err != nil {
		return nil, t.store.lasting(fmt.Errorf("read file %s: %w", name, oneLine(err)))
	}
	files, location, err := fileAccess(ctx, current, name)
	if err != nil {
		return nil, err
	}
	data, err := files.ReadFile(location)
	if err != nil {
		return nil, t.store.lasting(fmt.Errorf("read file: %w", err))
	}
	return data, nil
}

// fileAccess returns where a file of a commit lies: beside the data files.
func fileAccess(ctx context.Context, t *table.Table, name string) (readWriter, string, error) {
	provider, err := t.LocationProvider()
	if err != nil {
		return nil, "", fmt.Errorf("locate file %s: %w", name, err)
	}
	fs, err := t.FS(ctx)
	if err != nil {
		return nil, "", fmt.Errorf("locate file %s: %w", name, err)
	}
	files, ok := fs.(readWriter)
	if !ok {
		return nil, "", errors.New("locate file " + name + ": storage cannot be written")
	}
	return files, provider.NewDataLocation(name), nil
}

type readWriter interface {
	iceio.ReadFileIO
	iceio.WriteFileIO
}
