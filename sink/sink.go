// Package sink writes delivered rows into the tables of a lake so that the
// lake ends up right under any order of delivery: shuffled across shards,
// repeated, late, and cut off by a crash at any point.
//
// In come deliveries: the place of each record in its stream and the row that
// transform made of it, if it made one. Out go commits of a Store (package
// sink/iceberg), each of which carries the rows of one table together with the
// note which records they came from. The package also holds the fold
// (Folder): changelog rows in, current rows out.
//
// # Mirror tables
//
// A mirror holds one row per key. A change whose position is not greater than
// the position that the table holds for its key, or held when the key was
// deleted, is superseded: it changes nothing. The sink keeps the position of
// every key in memory (53 to 85 bytes a key, see index), and what is beyond
// Options.IndexMemory in files of this machine (44 to 79 bytes a key). It
// rebuilds that at Open from the table's key columns and cdc_position, unless
// the last Close has left it. Deleted keys are
// remembered as tombstones in files that a property of the same commit names,
// for Options.Horizon of source commit time. A change at or below the position
// of a forgotten tombstone that finds no row of its key is rejected
// (OlderThanHorizon) instead of bringing back a row.
//
// In a mirror without key the position itself is the key: a row is written
// once, and updates and deletes are rejected.
//
// # Changelog tables
//
// Every delivered row is appended.
//
// # Exactly once
//
// With each commit goes the set of records whose rows, if any, the table
// holds. A record of that set is skipped when it is delivered again, in the
// same process or after a restart from any earlier point of the stream. The
// set is kept exactly, holes included, so its size grows with the number of
// holes, not with the number of records.
//
// # What it does not promise
//
// Nothing delivered since the last Flush survives a crash: the source must
// deliver it again. Commits of different tables are not atomic together. One
// sink writes a lake at a time; a second one is noticed (ErrFenced), not merged.
package sink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"icehose/catalog"
	"icehose/cdc"
)

// A Row is one row as transform delivers it.
type Row struct {
	Database, Table string        // destination
	Operation       cdc.Operation // Insert, Update (both write the row) or Delete
	// Data is one JSON object with every lake column, of a delete the key and
	// metadata columns at least. The sink does not keep it.
	Data []byte
}

// A Delivery is one handled record. A record that failed is not handled and
// must not be delivered: it stays a hole in the offsets, so that its row counts
// when it comes after all, in this run or in a later one.
type Delivery struct {
	Offset Offset
	Row    *Row // nil when the record had nothing to write
}

// Options are the settings of a Sink. The zero value means the defaults.
type Options struct {
	// FlushRows is the number of buffered rows at which a table is committed;
	// default 100,000.
	FlushRows int
	// FlushBytes bounds the rows buffered for all tables together; beyond it
	// the largest table is committed. Default 64 MiB.
	FlushBytes int
	// Horizon is how long deleted keys are remembered, in source commit time:
	// by a clock that single wrong times do not move (see clock). It is noted in
	// the table: 0 keeps what is noted there, 7 days in a new table.
	Horizon time.Duration
	// IndexMemory bounds, in bytes, what the positions of all keys of all mirrors
	// take in memory together; default 1 GiB. What is beyond it goes into files in
	// IndexDir. A table never takes less than about 0.3 MB, and what is read and
	// written of files a few megabytes.
	IndexMemory int64
	// IndexDir is a folder of this machine that belongs to this lake's sink alone;
	// made when there is need of it. What is in it can be lost: it is built anew
	// from the tables. Close leaves there what the next Open can take over.
	// Default: nameless files in the system's temporary folder, which go with the
	// process.
	IndexDir string
	// Log receives commits and rejections; default none.
	Log *slog.Logger
	// RetryFor is how long a table or checkpoint that cannot be written, for a
	// reason that may pass, is tried again before the call fails; default 0, not
	// at all. A conflict is tried again a few times in any case. Once one has used
	// up the time, what comes up to the next Flush is tried once.
	RetryFor time.Duration
	// Stopping, once closed, ends every such wait: what fails then fails.
	Stopping <-chan struct{}
	// Wait waits between two attempts; default a timer.
	Wait func(context.Context, time.Duration) error
	// Reject is called for each row that cannot be written. Its record counts
	// as handled, so whoever needs it must keep it here. If it cannot be kept, or
	// is not to be: with an error, which Deliver returns, the record is not handled.
	Reject func(Offset, *RejectError) error
	// Kept is called before each commit: what Reject was given must be safe when it
	// returns, since the commit says that those records were handled. Once it has
	// failed nothing is committed any more. Default: Reject keeps what it is given at
	// once.
	Kept func() error
	// Refused is called by Open for each table that cannot take rows of the
	// pipeline file (ErrRefused). Its rows are rejected (SchemaRefused), and
	// the others go on. Without it Open fails.
	Refused func(*catalog.Table, error)
	// Now measures TableStats.Busy and RetryFor; without it Busy stays zero, and
	// of the time of RetryFor only the waits count.
	Now func() time.Time
	// Continue says that the source begins somewhere in the stream: a table that
	// has noted nothing yet begins where the others are, which it notes at once.
	// A run without it over the whole stream brings it the records before.
	Continue bool
	// Background lets the commit of a full table run beside Deliver, which then
	// fills the next buffer: one commit at a time, whose error is returned by
	// the call that begins the next one. Files of that next one are written
	// while it waits, if the store can (Stager). FlushRows and FlushBytes then
	// bound what is being filled; as much again may be on its way. The context
	// of the call that began a commit must outlive it.
	Background bool
	// Beside runs what Background lets run beside the Sink's calls, and returns how
	// to wait until it has ended, which may be called more than once; default a
	// goroutine. It is for tests that must do the same in every run.
	Beside func(func()) (wait func())

	gaveUp *atomic.Bool // RetryFor was used up since the last Flush began
}

func (o *Options) defaults() {
	if o.FlushRows <= 0 {
		o.FlushRows = 100_000
	}
	if o.FlushBytes <= 0 {
		o.FlushBytes = 64 << 20
	}
	if o.IndexMemory <= 0 {
		o.IndexMemory = defaultIndexMemory
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Wait == nil {
		o.Wait = o.pause
	}
	o.gaveUp = new(atomic.Bool)
	if o.Beside == nil {
		o.Beside = beside
	}
	if o.Now == nil {
		o.Now = func() time.Time { return time.Time{} }
	}
}

// ErrOtherStream is wrapped when a delivered record contradicts what a table
// has noted about its shard: the lake was filled from another stream.
var ErrOtherStream = errors.New("record is not of the stream that the table was filled from")

// A Sink writes deliveries into a lake. Only Stats may be called while another
// method runs.
type Sink struct {
	options  Options
	writers  []*writer // in the order of the pipeline file
	byTarget map[[2]string]*writer
	target   [2]string // of the row before, and its writer
	targeted *writer
	seen     offsets // records handled by this Sink
	buffered int     // bytes, of all writers
	air      *landing
	room     *indexRoom
	together *checkpoints
	unkept   error // why what was rejected is not safe
	spares   spares
}

// Open opens the tables of p in the store, creates those that are missing and
// reads what the sink has to know about the others: for mirrors that is one
// pass over the key columns.
func Open(ctx context.Context, p *catalog.Pipeline, store Store, o Options) (*Sink, error) {
	o.defaults()
	s := &Sink{options: o, seen: make(offsets), byTarget: make(map[[2]string]*writer, len(p.Tables)), room: newIndexRoom(&o)}
	var err error
	if s.together, err = openCheckpoints(ctx, p, store, o.Log); err != nil {
		return nil, err
	}
	if err := s.room.tidy(p); err != nil {
		return nil, err
	}
	for _, t := range p.Tables {
		w, err := openWriter(ctx, store, t, &s.options, s.room, &s.spares)
		if err != nil {
			err = fmt.Errorf("open table %s.%s: %w", t.Database(), t.Name(), err)
			if !errors.Is(err, ErrRefused) || o.Refused == nil {
				return nil, joinLine(err, s.Abandon())
			}
			o.Refused(t, err)
			w = &writer{table: t, log: o.Log, refused: true}
			w.unknown()
		}
		s.writers = append(s.writers, w)
		s.byTarget[[2]string{t.Database(), t.Name()}] = w
	}
	err = s.join(ctx)
	if err == nil {
		err = s.rewind(ctx)
	}
	if err != nil {
		return nil, joinLine(err, s.Abandon())
	}
	return s, nil
}

// Deliver takes over the deliveries in the order given and commits tables
// whose buffer is full. After an error the deliveries may be handed in again,
// all of them: those that were taken are skipped.
func (s *Sink) Deliver(ctx context.Context, d []Delivery) error {
	var last *writer
	started := s.options.Now()
	for i := range d {
		if i%aheadRows == 0 {
			s.ahead(d[i:min(i+aheadRows, len(d))])
		}
		w := s.writer(d[i].Row)
		if w != last {
			started = s.busy(last, started)
			last = w
		}
		if w != nil && w.flight != nil && !s.flies(w) {
			// The outcome of an earlier commit is unknown: its rows must not mix with new ones.
			if err := s.commit(ctx, w, false); err != nil {
				return err
			}
			started = s.options.Now()
		}
		if err := s.take(w, &d[i]); err != nil {
			return err
		}
		if full := s.full(w); full != nil {
			s.busy(w, started)
			if err := s.commit(ctx, full, false); err != nil {
				return err
			}
			started = s.options.Now()
		}
	}
	s.busy(last, started)
	return nil
}

// busy adds the time since to a writer's and returns the time now.
func (s *Sink) busy(w *writer, since time.Time) time.Time {
	now := s.options.Now()
	if w != nil {
		w.busy.Add(int64(now.Sub(since)))
	}
	return now
}

// writer finds the writer of a row, nil if there is none.
func (s *Sink) writer(r *Row) *writer {
	if r == nil {
		return nil
	}
	if s.target[0] != r.Database || s.target[1] != r.Table {
		s.target = [2]string{r.Database, r.Table}
		s.targeted = s.byTarget[s.target]
	}
	return s.targeted
}

// take buffers one delivery; w is its table, nil if it has none.
func (s *Sink) take(w *writer, d *Delivery) error {
	seen := s.seen[d.Offset.Shard].contains(d.Offset.Ordinal)
	if w == nil {
		if !seen && d.Row != nil {
			if err := s.reject(nil, d, &RejectError{Database: d.Row.Database, Table: d.Row.Table, Reason: UnknownTable}); err != nil {
				return err
			}
		}
		s.seen.add(&d.Offset)
		s.together.see(&d.Offset, nil)
		return nil
	}
	applied := w.offsets[d.Offset.Shard]
	if applied.contradicts(&d.Offset) {
		return fmt.Errorf("deliver row of %s: shard %s record %d: %w", w.name(), d.Offset.Shard, d.Offset.Ordinal, ErrOtherStream)
	}
	w.read = false
	if seen || applied.contains(d.Offset.Ordinal) {
		s.seen.add(&d.Offset)
		s.together.see(&d.Offset, w)
		w.delivered.Add(1)
		w.skipped.Add(1)
		return nil
	}
	before := w.size()
	if err := s.put(w, d); err != nil {
		return err // nothing has become of the record: it may come again
	}
	s.seen.add(&d.Offset)
	s.together.see(&d.Offset, w)
	w.delivered.Add(1)
	s.buffered += w.size() - before
	return nil
}

// put buffers or rejects the row of a delivery.
func (s *Sink) put(w *writer, d *Delivery) error {
	if w.refused {
		return s.reject(w, d, &RejectError{Database: w.table.Database(), Table: w.table.Name(), Reason: SchemaRefused})
	}
	if err := w.accept(d.Row); err != nil {
		return s.reject(w, d, err)
	}
	if w.lookup != nil {
		err := fmt.Errorf("look up key of %s: %w", w.name(), w.lookup)
		w.lookup = nil
		return err
	}
	return nil
}

// reject tells of a row of w, or of none, that cannot be written.
func (s *Sink) reject(w *writer, d *Delivery, err *RejectError) error {
	tell := s.options.Log.Info
	if s.options.Reject == nil {
		tell = s.options.Log.Warn // nobody else does
	}
	tell("row rejected", slog.String("table", err.Database+"."+err.Table), slog.String("column", err.Column),
		slog.String("reason", string(err.Reason)), slog.String("shard", d.Offset.Shard), slog.String("sequence", d.Offset.Sequence))
	if w != nil {
		w.rejected.Add(1)
	}
	if s.options.Reject == nil {
		return nil
	}
	return s.options.Reject(d.Offset, err)
}

// Flush commits all rows delivered so far. A table that got none is left
// alone, although the records it has seen pass by are then noted only by a
// later commit: a commit for every idle table at every Flush would cost more
// than seeing those records again after a crash.
func (s *Sink) Flush(ctx context.Context) error { return s.commitAll(ctx, false) }

// Checkpoint is Flush, and commits the offsets of idle tables too, so that
// Handled counts everything delivered.
func (s *Sink) Checkpoint(ctx context.Context) error { return s.commitAll(ctx, true) }

// Close commits everything, the offsets of idle tables included, so that a
// second run over the same stream finds nothing to do. The Sink must not be
// used afterwards; dropping one without Close is what a crash does.
func (s *Sink) Close(ctx context.Context) error {
	if err := s.Checkpoint(ctx); err != nil {
		return err
	}
	if err := s.room.close(ctx, s.opened()); err != nil {
		s.options.Log.WarnContext(ctx, "index not kept", slog.String("error", err.Error()))
	}
	return nil
}

// Finish says that shards whose records were all delivered get no more, as a
// parent after its stream was resharded: from the next Checkpoint or Close on the
// low watermark does not wait for them. A later record ends that.
func (s *Sink) Finish(shards ...string) { s.together.finish(shards) }

// Handled returns, by shard, how many records from the start of the shard on
// every table has noted in its last commit: a source may start from there.
// Tables that were refused do not count: their records are with Options.Reject.
func (s *Sink) Handled() map[string]uint64 {
	handled := make(map[string]uint64)
	for shard := range s.shards() {
		if least := s.least(shard, s.opened()); least > 0 {
			handled[shard] = least
		}
	}
	return handled
}

// opened returns the writers of tables that were not refused.
func (s *Sink) opened() []*writer {
	return slices.DeleteFunc(slices.Clone(s.writers), func(w *writer) bool { return w.refused })
}

// Last returns, by shard, the last of the records that Handled counts. Its
// Sequence is empty where the stream gave none.
func (s *Sink) Last() map[string]Offset {
	last := make(map[string]Offset)
	for shard, n := range s.Handled() {
		last[shard] = s.before(shard, n)
	}
	return last
}
