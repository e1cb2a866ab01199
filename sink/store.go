package sink

import (
	"context"
	"encoding/binary"
	"errors"
	"iter"
	"math/rand/v2"

	"icehose/catalog"
)

// A Store opens the tables of a lake. It is a small interface so that a test
// can stand in for a lake; package sink/iceberg implements it.
type Store interface {
	// OpenTable opens the lake table of t and creates it if there is none. A
	// table that has not the columns of t yet, and can safely get them, gets
	// them in the first commit of rows; until then it is read as if it had
	// them. One that differs otherwise is an error that wraps ErrRefused.
	OpenTable(ctx context.Context, t *catalog.Table) (Table, error)
}

// A Table is one lake table. Its methods are never called at the same time.
type Table interface {
	// Load reads what the last commit left, whoever made it.
	Load(ctx context.Context) (State, error)
	// Commit makes all of b visible at once, or nothing. It returns nil only
	// if it did; an error that wraps ErrConflict only if it did not because
	// the table was no longer at b.Parent. After any other error the commit
	// may or may not have happened.
	Commit(ctx context.Context, b *Batch) error
	// Scan yields the rows of the table: the canonical texts of the lake
	// columns with the given indexes, nil for null, valid until the next row.
	Scan(ctx context.Context, columns []int) iter.Seq2[[][]byte, error]
	// ReadFile reads a file that a commit wrote (Batch.Files).
	ReadFile(ctx context.Context, name string) ([]byte, error)
}

// A Checkpointer is a Store that keeps small files of its tables together. Such
// a file is replaced as a whole.
type Checkpointer interface {
	WriteCheckpoint(ctx context.Context, name string, data []byte) error
	// ReadCheckpoint returns nil if there is none.
	ReadCheckpoint(ctx context.Context, name string) ([]byte, error)
}

// A Stager is a Table that can write the files of a batch before it is committed.
type Stager interface {
	// Stage writes files of the rows of b, of which nothing but they and the ID is
	// known, so that Commit of a batch with that ID, which has the same rows, need
	// not. It makes nothing visible, and if it fails Commit does all of it. It may
	// be called while the methods of Table, or itself, run for another batch.
	Stage(ctx context.Context, b *Batch) error
}

// A FileCounter is a Table that knows, after a commit, of how many files it is
// made; -1 for what it cannot tell.
type FileCounter interface {
	Files() (data, deletes int64)
}

// A Watcher is a Table that knows whether somebody else had changed rows before
// any of the commits that were made through it, which State.Own of later does
// not tell.
type Watcher interface {
	Meddled() bool
}

// ErrConflict is wrapped by a Commit that certainly did not happen, because
// somebody else had changed the table.
var ErrConflict = errors.New("table changed by another writer")

// ErrFenced is wrapped by every error that says that another sink has written
// the table since this one opened it. This sink must not go on.
var ErrFenced = errors.New("another sink writes this table")

// ErrRefused is wrapped by OpenTable when the lake table differs from its
// definition in a way that cannot be put right without loss.
var ErrRefused = errors.New("table cannot take rows of the pipeline file")

// A State is what the last commit left of the sink's own notes in a table.
type State struct {
	// Properties holds the table properties whose names start with PropertyPrefix.
	Properties map[string]string
	Rows       int64 // rows in the table, -1 if the store cannot tell without reading it
	// Own says that nobody has changed rows since the commit that Properties
	// names, other than by rewriting them as they are.
	Own bool
}

// PropertyPrefix starts the name of every table property that the sink owns.
const PropertyPrefix = "icehose."

// The table properties of the sink. They change only in the transaction that
// changes the rows they speak of.
const (
	PropertyCommit     = PropertyPrefix + "commit-id"  // of the last commit by a sink
	PropertyOffsets    = PropertyPrefix + "offsets"    // records handled, by shard
	PropertyHorizon    = PropertyPrefix + "horizon"    // how far back tombstones reach
	PropertyTombstones = PropertyPrefix + "tombstones" // the files that hold them
	PropertyStarts     = PropertyPrefix + "starts"     // where in its shards a table began that joined others (Options.Continue)
	PropertyHighest    = PropertyPrefix + "highest"    // the greatest position seen, and when it was committed
)

// A Batch is one atomic commit.
type Batch struct {
	Parent string // the commit id that the table must still have; empty for none
	// Snapshot is the newest snapshot that the table must still have, 0 for none;
	// nil does not ask. Others than sinks change it, and not the commit id.
	Snapshot   *int64
	ID         string            // the commit id that it gets, unique
	Properties map[string]string // to set, PropertyCommit among them
	Files      []File            // to write beside the data
	Drop       []string          // names of Files of earlier commits that this one makes useless
	// Deletes are key values: rows with these keys that earlier commits wrote
	// go. Rows of Inserts are never touched by it. Keys are distinct.
	Deletes Rows
	Inserts Rows // values of all lake columns
}

// A File is a small file that belongs to a commit.
type File struct {
	Name string // without a folder
	Data []byte
}

// Rows is a set of rows of canonical texts. The zero Rows is empty.
type Rows struct {
	data   []byte // encoded rows, see appendRow
	starts []int  // where in data each row begins
	width  int    // values in an encoded row
	pick   []int  // which of them; nil for all
}

// NewRows returns the rows given, each a slice of canonical texts with nil for
// null. All must have the same length.
func NewRows(rows ...[][]byte) Rows {
	var r Rows
	for _, row := range rows {
		r.width = len(row)
		r.starts = append(r.starts, len(r.data))
		r.data = appendRow(r.data, row)
	}
	return r
}

// Len returns the number of rows.
func (r Rows) Len() int { return len(r.starts) }

// All yields the rows. A yielded slice is good until the next one; the texts
// in it are good as long as the Batch is.
func (r Rows) All() iter.Seq[[][]byte] {
	return func(yield func([][]byte) bool) {
		row := make([][]byte, r.width)
		picked := row
		if r.pick != nil {
			picked = make([][]byte, len(r.pick))
		}
		for _, start := range r.starts {
			readRow(r.data[start:], row)
			for i, j := range r.pick {
				picked[i] = row[j]
			}
			if !yield(picked) {
				return
			}
		}
	}
}

// Sample yields n rows as All does, each drawn from all of them, the same in
// every run.
func (r Rows) Sample(n int) iter.Seq[[][]byte] {
	picked := make([]int, 0, n)
	draw := rand.New(rand.NewPCG(uint64(n), 0)) //nolint:gosec // a sample
	for range n {
		if r.Len() > 0 {
			picked = append(picked, r.starts[draw.IntN(r.Len())])
		}
	}
	r.starts = picked
	return r.All()
}

// appendRow appends a row: per value one more than its length as a varint, 0
// for null, then the text.
func appendRow(dst []byte, row [][]byte) []byte {
	for _, v := range row {
		if v == nil {
			dst = append(dst, 0)
			continue
		}
		dst = binary.AppendUvarint(dst, uint64(len(v))+1)
		dst = append(dst, v...)
	}
	return dst
}

// rowSize returns how many bytes appendRow appends at most.
func rowSize(row [][]byte) int {
	n := binary.MaxVarintLen64 * len(row)
	for _, v := range row {
		n += len(v)
	}
	return n
}

// readRow reads what appendRow wrote; the values alias data.
func readRow(data []byte, row [][]byte) {
	for i := range row {
		n, size := uint64(data[0]), 1
		if n >= 0x80 {
			n, size = binary.Uvarint(data)
		}
		data = data[size:]
		if n == 0 {
			row[i] = nil
			continue
		}
		row[i] = data[: n-1 : n-1]
		data = data[n-1:]
	}
}

// rowValue returns one value of an encoded row.
func rowValue(data []byte, column int) []byte {
	for ; ; column-- {
		n, size := binary.Uvarint(data)
		data = data[size:]
		if column == 0 {
			if n == 0 {
				return nil
			}
			return data[: n-1 : n-1]
		}
		if n > 0 {
			data = data[n-1:]
		}
	}
}
