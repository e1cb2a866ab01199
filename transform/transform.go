// Package transform turns the records of a change stream into rows of lake
// tables: decode, route, position, coerce, collapse, answer.
//
// In comes a batch of records as a delivery stream hands them over; out comes
// exactly one result per record, in order: a row to deliver (Ok), nothing to
// deliver (Dropped) or a record that needs somebody (ProcessingFailed), the
// last two with a reason of one closed list. The result is a pure function of
// the batch, the pipeline file and the room for the answer: no clock, no
// network, nothing kept between batches. A retried batch gives identical bytes.
//
// A number keeps its digits all the way: no value goes through a float64. A
// value that its column's type cannot hold exactly fails its record, unless the
// pipeline file allows that loss.
//
// # What a row looks like
//
// One JSON object with every column of the lake table, in the order of
// catalog.Table.LakeColumns, nulls written out. boolean, int and long are bare;
// decimal, date, time, timestamp, timestamptz, string, uuid, fixed and binary
// (hexadecimal) are strings of the canonical text (package internal/canon); strings are
// escaped one way only (\", \\, \b, \f, \n, \r, \t, and \u00xx for the other
// control characters). float and double are bare, with the digits of
// the source: Firehose documents no form for NaN and the infinities, so they
// fail out_of_range. A delete carries its key and the metadata columns, null
// elsewhere; that of a table without a key carries what the record has, since
// nothing else could tell which row was meant.
//
// # What it does not promise
//
// Nested columns: there are no list, map or struct columns. A JSON object or
// array is the text of a string column, byte for byte as the record has it, and
// fails unsupported_form anywhere else.
//
// Order across batches: a mirror's row carries its position, and whoever
// writes it has to compare. A change of key leaves the old row in a mirror
// (OldKeyLeft), because one record gives one row.
package transform

import (
	"fmt"
	"sync"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/cdc/dms"
)

// A Record is one record of a delivery stream.
type Record struct {
	ID     string // opaque; comes back in the result
	Data   []byte // one DMS record; must not change until its batch is done
	Origin cdc.Origin
	// Unread is set by a carrier that could not get at the record's data: the
	// record fails with this reason.
	Unread Reason
}

// A Row is one row to deliver.
type Row struct {
	Table     *catalog.Table // as delivered: of the stream's mode and target
	Operation cdc.Operation  // what to do with it: Insert, Update (an upsert by key) or Delete
	Data      []byte         // one JSON object
}

// A Result is what became of one record.
type Result struct {
	ID      string
	Outcome Outcome
	Reason  Reason        // empty when Ok
	Column  string        // the column that failed, where one did; its lake name
	Table   string        // schema.table of the source, when it is known
	Change  cdc.Operation // what the record said; zero when it could not be decoded
	Row     Row           // when Ok
	// OldKeyLeft says that the change moved a mirror's row to another key: the
	// row of the old key stays until reconcile finds it. It is also set when
	// the change was superseded by a later one of the new key.
	OldKeyLeft bool
	Drift      *Drift // when a control record says that a known table changed
}

// Options choose what one delivery stream does with the pipeline's tables. The
// zero value delivers each table as the pipeline file says.
type Options struct {
	// Only drops, as excluded, what belongs to tables that the pipeline file has
	// in another mode: another stream delivers it. Empty drops nothing.
	Only catalog.Mode
	// Mode is the write mode of every table of this stream; empty means each
	// table's own. So a mirror stream and an append-only changelog stream can
	// read the same source stream.
	Mode catalog.Mode
	// Database and Suffix change where the tables of this stream are: another
	// database, or other table names beside the first ones.
	Database, Suffix string
	// Binary is how bytes stand in a row; empty is Hexadecimal. The sink,
	// reconcile and the keys of a redrive take Hexadecimal.
	Binary BinaryForm
}

// A BinaryForm is how the bytes of a binary or fixed column stand in a row.
// Firehose documents that it takes both forms, and not how it tells one from the
// other.
type BinaryForm string

// The forms.
const (
	Hexadecimal BinaryForm = "hex"
	Base64      BinaryForm = "base64" // with padding, RFC 4648 section 4
)

// ParseBinaryForm reads the name of a form; "" is Hexadecimal.
func ParseBinaryForm(name string) (BinaryForm, error) {
	switch form := BinaryForm(name); form {
	case "":
		return Hexadecimal, nil
	case Hexadecimal, Base64:
		return form, nil
	}
	return "", fmt.Errorf("want %s or %s, got %q", Hexadecimal, Base64, name)
}

// A Room says how large the answers of a batch may become together. Rows that
// do not fit fail response_too_large; the rest of the batch is delivered.
type Room interface {
	// Limit is the number of bytes that there are.
	Limit() int
	// Echo is the size of an answer to records[i] that gives it back as it
	// came: the longest that any outcome but Ok takes.
	Echo(i int) int
	// Row is the size of an answer to records[i] that delivers the row.
	Row(i int, row *Row) int
}

// A Transformer transforms batches. It may be used by several goroutines.
type Transformer struct {
	pipeline *catalog.Pipeline
	binary   BinaryForm
	plans    []*plan
	bySource map[string]int // "schema.table" -> index in plans
	fold     bool           // names in bySource are folded
	workers  sync.Pool
}

// New compiles a pipeline file, as catalog.Parse returned it, for one delivery
// stream.
func New(p *catalog.Pipeline, o Options) (*Transformer, error) {
	binary, err := ParseBinaryForm(string(o.Binary))
	if err != nil {
		return nil, fmt.Errorf("compile pipeline: form of bytes: %w", err)
	}
	t := &Transformer{pipeline: p, binary: binary, bySource: make(map[string]int, len(p.Tables)), fold: p.Names == catalog.NamesFold}
	for i, table := range p.Tables {
		delivered, err := table.As(o.Mode, o.Database, o.Suffix)
		if err != nil {
			return nil, fmt.Errorf("compile pipeline: %w", err)
		}
		t.plans = append(t.plans, compile(p, delivered, i, p.Excluded(table.Source) || o.Only != "" && table.Mode != o.Only, t.binary))
		name := table.Source
		if t.fold {
			name = catalog.FoldName(name)
		}
		t.bySource[name] = i
	}
	settings := dms.Settings{BeforeImage: p.Source.BeforeImage, BeforePrefix: p.Source.BeforePrefix}
	t.workers.New = func() any { return newWorker(t, settings) }
	return t, nil
}

// Tables returns the tables as this stream delivers them, in file order.
func (t *Transformer) Tables() []*catalog.Table {
	tables := make([]*catalog.Table, len(t.plans))
	for i, p := range t.plans {
		tables[i] = p.table
	}
	return tables
}

// Batch transforms one batch, however large its answers become.
func (t *Transformer) Batch(records []Record) []Result { return t.BatchWithin(records, nil) }

// BatchWithin transforms one batch whose answers have to fit in room. The
// results own their memory.
func (t *Transformer) BatchWithin(records []Record, room Room) (results []Result) {
	t.borrow(func(w *worker) {
		results = w.batch(records, room)
		w.rows, w.results = nil, nil // the caller owns them now
	})
	return results
}

// A Carrier has a batch that is never whole in memory: it hands over one
// record at a time, in order, and takes each row when it is ready.
type Carrier interface {
	// Record returns records[i]. Its data may be overwritten by the next call.
	Record(i int) Record
	// Settled is called with the result of each record in turn. Row.Data is
	// overwritten when it returns. A later record may still supersede the row
	// or change its operation.
	Settled(i int, r *Result)
}

// Carry transforms a batch of n records whose answers have to fit in room. It
// calls done with the final results, whose rows have no data any more and
// which are used again when done returns.
func (t *Transformer) Carry(n int, c Carrier, room Room, done func([]Result)) {
	t.borrow(func(w *worker) { done(w.carry(n, c, room)) })
}

func (t *Transformer) borrow(use func(*worker)) {
	w, ok := t.workers.Get().(*worker)
	if !ok {
		return // cannot be: New is the pool's only source
	}
	defer t.workers.Put(w)
	use(w)
}
