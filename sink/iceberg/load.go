package iceberg

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/internal/canon/canonarrow"
	"icehose/sink"
)

// ErrNotEmpty is wrapped by BeginLoad of a mirror that has rows.
var ErrNotEmpty = errors.New("the table has rows already")

// ErrBelow is wrapped by Load.Admit when the table knows of changes that the
// load cannot reflect.
var ErrBelow = errors.New("the floor is below what the table has already: changes from the floor on would be lost, since they are not read again")

// A Load fills a table in one commit, past the sink. It writes data files while
// rows come, side by side, and names them in the table when all are there.
type Load struct {
	table   *lakeTable
	replace bool
	filled  bool   // the table had rows when the load began
	parent  string // commit id of the table then
	target  *table.Table
	shape   *shape

	admitted bool
	rewound  map[string]string // notes to set instead; nil for none

	mu      sync.Mutex
	files   []iceberg.DataFile
	unknown bool // a commit may have happened: the files must stay
}

// BeginLoad begins to load t, which is created if there is none. A mirror that
// has rows is refused (ErrNotEmpty), unless the load is to replace them; a
// changelog gets the rows beside those that it has.
func (s *Store) BeginLoad(ctx context.Context, t *catalog.Table, replace bool) (*Load, error) {
	l, err := s.beginLoad(ctx, t, replace)
	if err != nil {
		return nil, fmt.Errorf("load table %s.%s: %w", t.Database(), t.Name(), oneLine(err))
	}
	return l, nil
}

func (s *Store) beginLoad(ctx context.Context, t *catalog.Table, replace bool) (*Load, error) {
	if s.readOnly {
		return nil, errors.New("lake is open for reading only")
	}
	opened, err := s.openTable(ctx, t)
	if err != nil {
		return nil, err
	}
	l := &Load{table: opened, replace: replace}
	if l.target, err = opened.current(ctx); err != nil {
		return nil, err
	}
	live, err := readLive(ctx, l.target)
	if err != nil {
		return nil, err
	}
	switch l.filled = len(live.data) > 0; {
	case replace && t.Mode != catalog.Mirror:
		return nil, errors.New("only a mirror is replaced: a changelog keeps its history, and gets the rows beside it")
	case l.filled && !replace && t.Mode == catalog.Mirror:
		return nil, ErrNotEmpty
	}
	if opened.pending.Load() {
		if err := l.evolve(ctx); err != nil {
			return nil, err
		}
	}
	l.parent = l.target.Properties()[sink.PropertyCommit]
	l.shape, err = opened.shapeOf(l.target.Schema(), opened.names())
	return l, err
}

// evolve gives the table the columns of its definition before any file is written.
func (l *Load) evolve(ctx context.Context) error {
	tx := l.target.NewTransaction()
	if _, err := l.table.evolved(ctx, tx, l.target); err != nil {
		return err
	}
	target, err := tx.Commit(ctx)
	if err != nil {
		return fmt.Errorf("evolve table: %w", err)
	}
	l.target = target
	l.table.pending.Store(false)
	return nil
}

// Admit refuses a load that would lose changes (ErrBelow): one of a mirror that
// has noted records of its stream, and has a position above upto, that of every
// change which the load reflects at most. With rewind it takes the load, and
// the notes of what was handled go with its commit: the changes from the floor
// on must then be read again. Commit asks it with the position of the load if
// nobody has before. It passes over the positions of all rows.
func (l *Load) Admit(ctx context.Context, upto cdc.Position, rewind bool) error {
	if err := l.admit(ctx, upto, rewind); err != nil {
		return fmt.Errorf("load table %s: %w", l.table.name(), oneLine(err))
	}
	return nil
}

func (l *Load) admit(ctx context.Context, upto cdc.Position, rewind bool) error {
	definition := l.table.definition
	notes := l.target.Properties()
	if definition.Mode == catalog.Mirror && definition.Position.Source != cdc.SourceNone && sink.Handles(notes) {
		highest, err := sink.HighestIn(ctx, definition, l.table)
		if err != nil {
			return err
		}
		switch {
		case highest <= upto:
		case !rewind:
			return fmt.Errorf("%w (the load reflects changes up to %s, the table has one of %s)", ErrBelow, upto, highest)
		default:
			if l.rewound, err = sink.Rewound(notes); err != nil {
				return err
			}
		}
	}
	l.admitted = true
	return nil
}

// Rewinds reports whether the notes of what a sink has handled go with the commit.
func (l *Load) Rewinds() bool { return l.rewound != nil }

// Filled reports whether the table had rows when the load began.
func (l *Load) Filled() bool { return l.filled }

// Write writes rows of all lake columns: canonical texts, nil for null, each
// valid until the next. It may be called by several goroutines.
func (l *Load) Write(ctx context.Context, rows iter.Seq2[[][]byte, error]) error {
	// The library takes an error of the rows for one of its own, and a panic
	// for nothing: the first error is kept aside.
	var failed error
	batches := l.batches(rows, &failed)
	files, err := writeFiles(ctx, l.target, l.shape.schema, batches, table.WithTargetFileSize(loadFileSize))
	l.mu.Lock()
	l.files = append(l.files, files...)
	l.mu.Unlock()
	switch {
	case failed != nil:
		return failed
	case err == nil:
		err = l.table.store.disk.forced(paths(files...)...) // as far as it is known yet: Commit waits for it
	}
	if err != nil {
		return fmt.Errorf("write rows: %w", oneLine(err))
	}
	return nil
}

// loadFileSize is about how many bytes a data file of a load gets.
const loadFileSize = 128 << 20

func (l *Load) batches(rows iter.Seq2[[][]byte, error], failed *error) iter.Seq2[arrow.RecordBatch, error] {
	return func(yield func(arrow.RecordBatch, error) bool) {
		b := array.NewRecordBuilder(memory.DefaultAllocator, l.shape.schema)
		defer b.Release()
		n := 0
		for row, err := range rows {
			if err == nil {
				err = l.shape.append(b, row)
			}
			if err != nil {
				*failed = err
				yield(nil, err)
				return
			}
			if n++; n == batchRows {
				n = 0
				if !yield(b.NewRecordBatch(), nil) {
					return
				}
			}
		}
		if n > 0 {
			yield(b.NewRecordBatch(), nil)
		}
	}
}

// append appends a row of the texts that the shape was made for.
func (s *shape) append(b *array.RecordBuilder, row [][]byte) error {
	for i, source := range s.sources {
		if err := canonarrow.AppendToBuilder(b.Field(i), s.columns[i].Type, row[source]); err != nil {
			return fmt.Errorf("column %s: %w", s.columns[i].Name, err)
		}
	}
	return nil
}

// Commit names the files that were written in the table, and notes the load.
// An error that wraps sink.ErrConflict says that the table was written since
// the load began.
func (l *Load) Commit(ctx context.Context, note sink.LoadNote) error {
	if err := l.commit(ctx, note); err != nil {
		return fmt.Errorf("commit load: %w", oneLine(err))
	}
	return nil
}

func (l *Load) commit(ctx context.Context, note sink.LoadNote) error {
	text, err := note.Text()
	if err != nil {
		return err
	}
	if !l.admitted {
		if err := l.admit(ctx, note.Position, false); err != nil {
			return err
		}
	}
	current, err := l.table.current(ctx)
	if err != nil {
		return err
	}
	if current.Properties()[sink.PropertyCommit] != l.parent {
		return fmt.Errorf("%w while it was loaded: stop the sink, and load again", sink.ErrConflict)
	}
	if err := checkWritten(ctx, current, l.files); err != nil {
		return err
	}
	id := rand.Text()
	properties := iceberg.Properties{sink.PropertyCommit: id, sink.PropertyLoad: text}
	tx := current.NewTransaction()
	if err := tx.AssertRefSnapshotID(table.MainBranch); err != nil {
		return err
	}
	if l.replace {
		// The load is above every change that a tombstone could be of: see Admit.
		properties[sink.PropertyTombstones] = "[]"
	}
	maps.Copy(properties, l.rewound)
	if err := l.stage(ctx, tx, current, iceberg.Properties{sink.PropertyCommit: id}); err != nil {
		return err
	}
	if err := tx.SetProperties(properties); err != nil {
		return err
	}
	if _, err = tx.Commit(ctx); err == nil {
		return nil
	}
	if err = conflict(err); errors.Is(err, sink.ErrConflict) || errors.Is(err, errNotForced) {
		return err // it did not happen
	}
	l.unknown = true
	if current, look := l.table.current(context.WithoutCancel(ctx)); look == nil {
		l.unknown = false
		if current.Properties()[sink.PropertyCommit] == id {
			return nil
		}
	}
	return err
}

// stage adds the files to a transaction, in one snapshot.
func (l *Load) stage(ctx context.Context, tx *table.Transaction, current *table.Table, summary iceberg.Properties) error {
	live, err := readLive(ctx, current)
	if err != nil {
		return err
	}
	switch {
	case l.replace && len(live.data) > 0 && len(l.files) == 0:
		return tx.Delete(ctx, iceberg.AlwaysTrue{}, summary) // whole files, which is safe
	case l.replace && len(live.data) > 0:
		replaced := make([]iceberg.DataFile, len(live.data))
		for i, f := range live.data {
			replaced[i] = f.file
		}
		return tx.ReplaceDataFilesWithDataFiles(ctx, replaced, l.files, summary, table.WithoutAutoNameMapping())
	case len(l.files) > 0:
		return tx.NewRowDelta(summary).AddRows(l.files...).Commit(ctx)
	}
	return snapshotted(ctx, tx, current, summary) // an empty source: the notes are all there is
}

// Discard removes the files that were written. After a commit whose outcome
// nobody knows they stay.
func (l *Load) Discard(ctx context.Context) error {
	l.mu.Lock()
	files := slices.Clone(l.files)
	l.mu.Unlock()
	if l.unknown || len(files) == 0 {
		return nil
	}
	return removeFiles(ctx, l.target, files)
}
