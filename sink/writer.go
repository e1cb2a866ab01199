package sink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/internal/canon"
)

// A writer buffers the rows of one table and commits them.
type writer struct {
	table    *catalog.Table
	store    Table
	options  *Options
	log      *slog.Logger
	columns  []catalog.Column
	key      []int // lake columns that identify a row; a keyless table's is cdc_position
	position int   // lake column
	time     int   // lake column
	decoder  *decoder
	guard    *guard        // nil for a changelog
	horizon  time.Duration // that was asked for; 0 for the one that the table has
	refused  bool          // the table takes no rows; nothing else is set then

	// What the last commit left.
	offsets  offsets
	starts   map[string]beginning // by shard, if not with the first record
	fresh    bool                 // no sink has noted anything of the stream yet
	segments []segment
	commitID string

	// Rows delivered since.
	data    []byte
	changes []change
	latest  map[canon.Hash]int // by key: which of changes is the latest; nil for a changelog
	keyText []byte

	staged *stage  // of the buffer, or of what it was; nil for none
	flight *flight // what comes next in the table, nil if nothing is on its way
	spares *spares

	watch  watch
	change change // the last one read
	lookup error  // why the index could not be asked about it
	read   bool   // that it is of the record being delivered

	delivered, applied, collapsed, superseded, skipped, rejected, regressed, commits, rows atomic.Int64
	dataFiles, deleteFiles, newest, retried                                                atomic.Int64
	retrying                                                                               atomic.Bool
	highest                                                                                atomic.Pointer[cdc.Position]
	busy, committing                                                                       atomic.Int64 // nanoseconds
	indexMemory, indexDisk                                                                 atomic.Int64 // bytes
}

// A change is a buffered row of a writer.
type change struct {
	start     int // in data
	key       canon.Hash
	position  packed
	committed int64 // Unix microseconds, noTime if unknown
	deletes   bool
	live      bool // the table holds a row of the key
	collapsed bool // a later change of the key came before the commit
}

// A flight is a commit that was prepared and may or may not have landed. It
// stays as it is until that is known.
type flight struct {
	batch    Batch
	offsets  offsets
	segments []segment
	clock    clock
	data     []byte // that the rows of batch lie in
	changes  []change
	staged   *stage
	highest  *cdc.Position // of the changes seen until then, nil if there was none
	tried    bool
}

func openWriter(ctx context.Context, store Store, t *catalog.Table, o *Options, room *indexRoom, kept *spares) (*writer, error) {
	columns, data := t.LakeColumns()
	w := &writer{table: t, options: o, spares: kept, log: o.Log, columns: columns, position: data, time: data + 1}
	w.unknown()
	for _, name := range t.Key {
		w.key = append(w.key, slices.IndexFunc(w.columns, func(c catalog.Column) bool { return c.Name == name }))
	}
	if err := checkKey(w.columns, w.key, t); err != nil {
		return nil, err
	}
	if t.Mode == catalog.Mirror {
		w.guard, w.horizon = room.guard(o.Horizon), o.Horizon
		w.latest = make(map[canon.Hash]int)
		if len(w.key) == 0 {
			w.key = []int{w.position}
		}
	}
	needed := make([]bool, len(w.columns))
	for _, i := range append([]int{w.position, w.time}, w.key...) {
		needed[i] = true
	}
	w.decoder = newDecoder(w.columns, needed)
	var err error
	if w.store, err = store.OpenTable(ctx, t); err != nil {
		return nil, err
	}
	return w, w.load(ctx)
}

// unknown sets what is counted later to not known.
func (w *writer) unknown() {
	w.rows.Store(-1)
	w.dataFiles.Store(-1)
	w.deleteFiles.Store(-1)
	w.newest.Store(noTime)
}

// checkKey refuses keys that no equality delete can name.
func checkKey(columns []catalog.Column, key []int, t *catalog.Table) error {
	for n, i := range key {
		if i < 0 {
			return fmt.Errorf("key column %s is not a lake column", t.Key[n])
		}
		if k := columns[i].Type.Kind; k == catalog.Float || k == catalog.Double {
			return fmt.Errorf("key column %s: a %s cannot be a key", t.Key[n], k)
		}
	}
	return nil
}

func (w *writer) name() string { return tableName(w.table) }

func tableName(t *catalog.Table) string { return t.Database() + "." + t.Name() }

// loads bounds how often a table is read while others write it.
const loads = 3

// load reads what the last commit left. Another sink that commits meanwhile
// removes files that the notes name, and what is read of rows and notes may be
// of different commits: then all of it is read anew.
func (w *writer) load(ctx context.Context) error {
	for n := 1; ; n++ {
		state, err := w.store.Load(ctx)
		if err != nil {
			return err
		}
		w.commitID = state.Properties[PropertyCommit]
		err = w.restore(ctx, &state)
		if w.guard != nil { // of a changelog the notes alone were read
			err = w.fenced(ctx, err)
		}
		if n == loads || !errors.Is(err, ErrFenced) {
			return err
		}
		w.log.InfoContext(ctx, "table changed while it was read", slog.String("table", w.name()), slog.Int("attempt", n))
	}
}

// restore takes over what state says, and what the files and rows that it
// speaks of do.
func (w *writer) restore(ctx context.Context, state *State) (err error) {
	w.offsets, w.starts = make(offsets), nil
	if text := state.Properties[PropertyStarts]; text != "" {
		if err := json.Unmarshal([]byte(text), &w.starts); err != nil {
			return fmt.Errorf("read table property %s: %w", PropertyStarts, err)
		}
	}
	if text := state.Properties[PropertyOffsets]; text != "" {
		if err := json.Unmarshal([]byte(text), &w.offsets); err != nil {
			return fmt.Errorf("read table property %s: %w", PropertyOffsets, err)
		}
	}
	w.fresh = isFresh(state.Properties, w.offsets)
	w.rows.Store(state.Rows)
	if err := w.watch.read(state.Properties[PropertyHighest]); err != nil {
		return err
	}
	if w.guard == nil {
		return nil
	}
	if w.guard, err = w.guard.fresh(w.horizon); err != nil {
		return fmt.Errorf("remove files of the index: %w", err)
	}
	if err := w.guard.readHorizon(state.Properties[PropertyHorizon]); err != nil {
		return err
	}
	if err := w.guard.readLoad(state.Properties[PropertyLoad]); err != nil {
		return err
	}
	if w.segments, err = parseSegments(state.Properties[PropertyTombstones]); err != nil {
		return err
	}
	adopted, err := w.guard.adopt(w.name(), w.keyTypes(), w.commitID, state.Own)
	if err != nil {
		return err
	}
	if adopted {
		w.log.InfoContext(ctx, "index taken over", slog.String("table", w.name()), slog.Int64("rows", w.guard.rows()))
	} else if err := w.restoreGuard(ctx); err != nil {
		return err
	}
	w.guard.advance(w.guard.clock)
	w.countKeys()
	return nil
}

// hash returns the hash of a key: of the values picked, or of all.
func (w *writer) hash(values [][]byte, pick []int) canon.Hash {
	w.keyText = w.keyText[:0]
	field := func(v []byte) {
		if v == nil {
			w.keyText = canon.AppendNull(w.keyText)
		} else {
			w.keyText = canon.AppendField(w.keyText, v)
		}
	}
	if pick == nil {
		for _, v := range values {
			field(v)
		}
	}
	for _, i := range pick {
		field(values[i])
	}
	return canon.HashRow(w.keyText)
}

// accept buffers a row unless the table holds, or will hold, a later one.
func (w *writer) accept(r *Row) *RejectError {
	fail := func(reason Reason, column string) *RejectError {
		return &RejectError{Database: w.table.Database(), Table: w.table.Name(), Column: column, Reason: reason}
	}
	deletes := r.Operation == cdc.Delete
	switch {
	case r.Operation == cdc.Insert:
	case r.Operation != cdc.Update && !deletes, w.guard == nil:
		// In a changelog the row that tells of an update or delete is itself an insert.
		return fail(UnknownOperation, "")
	case len(w.table.Key) == 0:
		return fail(NoKey, "")
	}
	row, reason, column := w.decoder.decode(r.Data, deletes)
	if reason != "" {
		return fail(reason, column)
	}
	for _, i := range w.key {
		if row[i] == nil && i != w.position {
			return fail(NullKey, w.columns[i].Name)
		}
	}
	p, ok := pack(row[w.position])
	if !ok {
		return fail(NoPosition, catalog.ColumnPosition)
	}
	w.change = change{start: len(w.data), position: p, committed: commitTime(row[w.time]), deletes: deletes}
	c := &w.change
	w.read = true
	if c.committed > w.newest.Load() {
		w.newest.Store(c.committed)
	}
	if w.watch.see(&p, c.committed) && w.regressed.Add(1) == 1 {
		w.log.Error("position_regressed", slog.String("table", w.name()), slog.String("position", string(p.text())),
			slog.String("highest", string(w.watch.highest.text())))
	}
	if w.guard != nil {
		c.key = w.hash(row, w.key)
		if done, reason := w.collapse(c); reason != "" {
			return fail(reason, "")
		} else if done {
			return nil
		}
	}
	w.makeRoom(rowSize(row))
	w.data = appendRow(w.data, row)
	w.changes = append(w.changes, *c)
	return nil
}

// collapse places a change among the buffered ones of its key. done means that
// it lost against what is there.
func (w *writer) collapse(c *change) (done bool, reason Reason) {
	if i, ok := w.latest[c.key]; ok {
		if c.position.compare(&w.changes[i].position) <= 0 {
			w.superseded.Add(1)
			return true, ""
		}
		w.changes[i].collapsed, c.live = true, w.changes[i].live
		w.collapsed.Add(1)
	} else {
		var v verdict
		if v, c.live, w.lookup = w.guard.check(c.key, &c.position, c.deletes); w.lookup != nil {
			return true, ""
		}
		switch v {
		case superseded:
			w.superseded.Add(1)
			return true, ""
		case tooOld:
			return true, OlderThanHorizon
		case apply:
		}
	}
	w.latest[c.key] = len(w.changes)
	return false, ""
}

// commitTime reads the canonical text of cdc_committed_at; null is noTime.
func commitTime(text []byte) int64 {
	if len(text) != len("2006-01-02T15:04:05.000000Z") {
		return noTime
	}
	number := func(from, to int) (n int) {
		for _, c := range text[from:to] {
			n = 10*n + int(c-'0')
		}
		return n
	}
	return time.Date(number(0, 4), time.Month(number(5, 7)), number(8, 10), number(11, 13), number(14, 16), number(17, 19),
		number(20, 26)*1000, time.UTC).UnixMicro()
}

// size is what the buffer takes in memory, roughly.
func (w *writer) size() int { return len(w.data) + len(w.changes)*200 }

// land commits f. Before it tries again it looks whether the attempt before
// has landed, since an error does not always say so.
func (w *writer) land(ctx context.Context, f *flight) error {
	var failed error // of the attempt before
	f.staged.wait()
	r := w.retry()
	for {
		if f.tried {
			landed, err := w.landed(ctx, f)
			if landed {
				return nil
			}
			if err != nil {
				failed = unsure(failed, err)
			}
			if failed != nil {
				if err := r.again(ctx, failed); err != nil {
					return err
				}
			}
			if err != nil {
				failed = nil
				continue
			}
		}
		f.tried = true
		if failed = w.store.Commit(ctx, &f.batch); failed == nil {
			return nil
		}
	}
}

// unsure combines the error of a commit, if there is one, with that of the look
// after it.
func unsure(commit, look error) error {
	if commit == nil {
		return look
	}
	return fmt.Errorf("%w (and cannot tell whether it happened: %w)", commit, look)
}

// landed reads the table to see whether f is its last commit. If that is
// neither f nor the one that f was built upon, another sink writes the table.
func (w *writer) landed(ctx context.Context, f *flight) (bool, error) {
	state, err := w.store.Load(ctx)
	if err != nil {
		return false, err
	}
	switch state.Properties[PropertyCommit] {
	case f.batch.ID:
		return true, nil
	case f.batch.Parent:
		return false, nil
	}
	return false, ErrFenced
}

// fenced returns err, and ErrFenced with it if another sink has written the
// table since w read it: its commits remove files that w still counts on.
func (w *writer) fenced(ctx context.Context, err error) error {
	state, lookErr := w.store.Load(ctx)
	switch {
	case lookErr != nil:
		return joinLine(err, lookErr)
	case state.Properties[PropertyCommit] != w.commitID:
		return joinLine(ErrFenced, err)
	}
	return err
}
