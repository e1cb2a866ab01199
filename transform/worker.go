package transform

import (
	"bytes"
	"hash/maphash"
	"math/bits"
	"slices"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/cdc/dms"
	"icehose/internal/canon"
)

// A worker transforms one batch at a time. What it keeps between batches is
// memory and a memo of field names, nothing that a result depends on.
type worker struct {
	t       *Transformer
	decoder *dms.Decoder
	change  cdc.Change
	memo    [][]memoName // by plan: the field names of the last record, in its order
	routed  routed

	// Of the record at hand.
	values, before []int32 // by column: where it stands in Data and Before, counted from 1; 0 when missing
	keys           []span  // canonical text by key place, in key
	key            []byte  // all of them, each with its length
	absent         []byte  // cdc_absent
	oldKey         []byte  // cdc_old_key, when hasOldKey
	hasOldKey      bool
	position       []byte
	text, plain    []byte // scratch
	second         int64  // the last commit time written: its Unix time
	secondText     []byte // and its text, without the fraction

	// Of the batch.
	rows    []byte // every row, one after another
	results []Result
	settled []settled
	arena   []byte // the keys and positions of the mirrors' rows
	seed    maphash.Seed
	newest  []int32 // by hash of table and key: first of a chain of results, counted from 1
	total   int     // size of the answers: settled ones, and echoes for those to come
}

// A span is a part of a buffer.
type span struct{ from, to int }

// A routed is the last name that was looked up.
type routed struct {
	schema, table string
	index         int
	known         bool
}

// A memoName is a field name of a record and the column it was for.
type memoName struct {
	name   []byte
	column int
}

// A settled is what collapse and room have to know of a delivered row.
type settled struct {
	from, to       int // its bytes in rows
	keyFrom, keyTo int // its key in arena
	positionTo     int // its position in arena, behind its key
	plan           int
	cost           int   // size of its answer
	next           int32 // next result of its chain, counted from 1; 0 at the end
}

func newWorker(t *Transformer, s dms.Settings) *worker {
	s.RowsOnly = true
	return &worker{t: t, decoder: dms.New(s), memo: make([][]memoName, len(t.plans)), seed: maphash.MakeSeed()}
}

// batch keeps the rows of all records.
func (w *worker) batch(records []Record, room Room) []Result {
	size := 0
	for i := range records {
		size += len(records[i].Data)
	}
	w.rows = slices.Grow(w.rows[:0], size)
	w.begin(len(records), room)
	for i := range records {
		w.record(&records[i], i, room)
	}
	for i := range w.results {
		if w.results[i].Outcome == Ok {
			s := &w.settled[i]
			w.results[i].Row.Data = w.rows[s.from:s.to:s.to]
		}
	}
	return w.results
}

// carry keeps no row longer than the carrier needs to take it.
func (w *worker) carry(n int, c Carrier, room Room) []Result {
	w.begin(n, room)
	for i := range w.results {
		record := c.Record(i)
		w.rows = w.rows[:0]
		w.record(&record, i, room)
		c.Settled(i, &w.results[i])
		w.results[i].Row.Data = nil
	}
	return w.results
}

// begin forgets the batch before.
func (w *worker) begin(n int, room Room) {
	w.arena = w.arena[:0]
	w.settled = cleared(w.settled, n)
	w.newest = cleared(w.newest, 1<<bits.Len(uint(2*n)))
	w.results = cleared(w.results, n)
	w.total = 0
	if room != nil {
		for i := range n {
			w.total += room.Echo(i)
		}
	}
}

// cleared returns n zero elements, in the memory of s where there is enough.
func cleared[T any](s []T, n int) []T {
	s = slices.Grow(s[:0], n)[:n]
	clear(s)
	return s
}

// record settles the result of one record.
func (w *worker) record(record *Record, i int, room Room) {
	r := &w.results[i]
	r.ID = record.ID
	fail := func(reason Reason, column string) { r.Outcome, r.Reason, r.Column = ProcessingFailed, reason, column }
	if record.Unread != "" {
		fail(record.Unread, "")
		return
	}
	c := &w.change
	if err := w.decoder.Decode(record.Data, c); err != nil {
		fail(InvalidJSON, "")
		return
	}
	r.Change = c.Operation
	p := w.route(r, c)
	if p == nil {
		return
	}
	operation, reason := p.operation(c)
	if reason != "" {
		fail(reason, "")
		return
	}
	if w.position, reason = p.appendPosition(w.position[:0], w.t.pipeline, c, record.Origin); reason != "" {
		fail(reason, "")
		return
	}
	from := len(w.rows)
	reason, column := w.row(p, c)
	if reason != "" {
		fail(reason, column)
		return
	}
	r.Row = Row{Table: p.table, Operation: operation, Data: w.rows[from:]}
	r.OldKeyLeft = w.hasOldKey && p.table.Mode == catalog.Mirror
	w.settled[i] = settled{from: from, to: len(w.rows), plan: p.index}
	w.settle(i, room)
}

// route finds the record's table, or settles the result of a record that is
// delivered to none.
func (w *worker) route(r *Result, c *cdc.Change) *plan {
	drop := func(reason Reason) { r.Outcome, r.Reason = Dropped, reason }
	if cdc.IsInternal(c.Table) {
		r.Table = sourceName(c)
		drop(InternalTable)
		return nil
	}
	index, known := w.lookUp(c.Schema, c.Table)
	switch {
	case known && w.t.plans[index].excluded, !known && w.t.pipeline.Excluded(string(w.text)):
		r.Table = sourceName(c)
		drop(Excluded)
	case c.Operation == cdc.Control:
		r.Table = sourceName(c)
		drop(Control)
		if known {
			r.Drift = driftOf(w.t.plans[index], c)
		}
	case !known:
		r.Table = sourceName(c)
		drop(UnknownTable)
		if w.t.pipeline.OnUnknownTable != catalog.UnknownDrop {
			r.Outcome = ProcessingFailed
		}
	default:
		p := w.t.plans[index]
		r.Table = p.table.Source
		return p
	}
	return nil
}

// lookUp finds the table that the pipeline file describes. When there is none,
// w.text is the name as the file would have it.
func (w *worker) lookUp(schema, table string) (index int, known bool) {
	if last := &w.routed; last.known && last.table == table && last.schema == schema {
		return last.index, true
	}
	w.text = append(append(append(w.text[:0], schema...), '.'), table...)
	if w.t.fold {
		for i, ch := range w.text {
			if ch >= 'A' && ch <= 'Z' {
				w.text[i] = ch + 'a' - 'A'
			}
		}
	}
	if index, known = w.t.bySource[string(w.text)]; known {
		w.routed = routed{schema, table, index, known}
	}
	return index, known
}

// sourceName is schema.table, as far as the record names them.
func sourceName(c *cdc.Change) string {
	if c.Schema == "" {
		return c.Table
	}
	return c.Schema + "." + c.Table
}

// bind finds where each column stands among fields. The last of several
// values of one name counts, as for every JSON reader; two spellings of one
// column are ambiguous, and bad is its index, else noColumn.
func (w *worker) bind(p *plan, fields cdc.Fields, at []int32) (out []int32, bad int) {
	at = append(at[:0], make([]int32, len(p.columns))...)
	memo, bad := w.memo[p.index], noColumn
	for i := range fields {
		var column int
		name := fields[i].Name
		switch {
		case i < len(memo) && same(memo[i].name, name):
			column = memo[i].column
		case i < len(memo):
			column = p.find(name)
			memo[i] = memoName{name, column}
		default:
			column = p.find(name)
			if i < 2*len(p.table.Columns) { // a hostile record must not make it grow
				memo = append(memo, memoName{name, column})
			}
		}
		if column < 0 {
			continue
		}
		if earlier := at[column]; earlier > 0 && !bytes.Equal(fields[earlier-1].Name, name) {
			bad = column
		}
		at[column] = int32(i + 1)
	}
	w.memo[p.index] = memo
	return at, bad
}

// same is bytes.Equal with a look first: the decoder gives every record the
// same name, not only an equal one.
func same(a, b []byte) bool {
	return len(a) == len(b) && (len(a) > 0 && &a[0] == &b[0] || bytes.Equal(a, b))
}

// value returns the field that a bound column stands in; nil when missing.
func value(fields cdc.Fields, at int32) *cdc.Value {
	if at == 0 {
		return nil
	}
	return &fields[at-1].Value
}

// noteKey keeps the canonical text of a key column.
func (w *worker) noteKey(place int, text []byte) {
	w.key = canon.AppendField(w.key, text)
	w.keys[place] = span{len(w.key) - len(text), len(w.key)}
}
