// Package inspect looks at a captured change stream the way an investigator
// does: what is in it, in which order it arrived, what the endpoint's settings
// must have been, and what of it will hurt whoever consumes it.
//
// In come captured records in the order of arrival, one at a time; out comes a
// Report with findings, each with its consequence and what to do. Memory does
// not grow with the stream beyond the limits of Options: duplicates are looked
// for in a window, order is followed for a number of keys, and the chain of
// previous transactions keeps its open ends and what was followed last. What a limit left out is said.
//
// Order across shards is the order of the file: no reader of a stream is
// promised any other, so what differs there may differ for every reader.
// Nothing in a report is a value of a row.
package inspect

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"hash/maphash"
	"strings"

	"icehose/cdc"
	"icehose/cdc/capture"
	"icehose/cdc/dms"
)

// Options are what is known of the stream, and limits. The zero value knows
// nothing and has the defaults.
type Options struct {
	BeforeImage, BeforePrefix string
	// Tables describes tables by "schema.table" of the source. Of a table that
	// is not here the key is read from create-table records, and the position
	// from the records themselves.
	Tables map[string]Table
	// FoldNames says that the names in Tables are lower-case and stand for
	// every spelling.
	FoldNames bool
	Window    int // records among which duplicates are found; 0 means 4 Mi (up to twice as many are remembered)
	Keys      int // keys that are followed, and changes of the chain that are remembered; 0 means 1 Mi
	Large     int // bytes, with the partition key, from which a record is large; 0 means 900 KiB
}

// A Table is what is known of a table.
type Table struct {
	Key      []string // key columns as the records spell them, in any case
	Position cdc.PositionKind
	// Folded says that the order of arrival does not matter to the table,
	// because it keeps every change: a changelog.
	Folded bool
}

// The defaults.
const (
	defaultWindow = 4 << 20
	defaultKeys   = 1 << 20
	defaultLarge  = 900 << 10
)

// An Inspector takes in one stream. It belongs to one goroutine.
type Inspector struct {
	options Options
	decoder *dms.Decoder
	change  cdc.Change
	seed    maphash.Seed
	scratch []byte

	records, bytes int64
	cut            []string         // files that ended too early
	invalid        map[string]int64 // by reason
	invalidIDs     []string
	disorder       int64 // sequence numbers that ran backwards in a shard
	lastSequence   map[string]string
	shards         map[string]int // shard -> number
	shardNames     []string
	tables         map[string]*table
	seen           window[uint64]
	keys           map[uint64]*keyState
	untracked      int64
	chain          chain
	facts          facts
}

// New returns an Inspector.
func New(o Options) *Inspector {
	o.Window, o.Keys, o.Large = cmp.Or(o.Window, defaultWindow), cmp.Or(o.Keys, defaultKeys), cmp.Or(o.Large, defaultLarge)
	return &Inspector{
		options: o, decoder: dms.New(dms.Settings{BeforeImage: o.BeforeImage, BeforePrefix: o.BeforePrefix}), seed: maphash.MakeSeed(),
		invalid: make(map[string]int64), lastSequence: make(map[string]string), shards: make(map[string]int), tables: make(map[string]*table),
		seen: window[uint64]{size: o.Window}, keys: make(map[uint64]*keyState), chain: newChain(o.Keys), facts: newFacts(),
	}
}

// maxExamples is how many record ids a finding names.
const maxExamples = 5

// Add takes in the next record.
func (i *Inspector) Add(r *capture.Record) {
	i.records++
	i.bytes += int64(len(r.Data))
	i.followSequence(r)
	if reason := i.decode(r); reason != "" {
		i.invalid[reason]++
		if len(i.invalidIDs) < maxExamples {
			i.invalidIDs = append(i.invalidIDs, r.ID)
		}
		return
	}
	c := &i.change
	t := i.table(c)
	t.count(r, c, i.shard(r), i.options.Large)
	i.facts.see(r, c, t)
	if c.Operation == cdc.Control {
		t.control(c)
		return
	}
	if !i.seen.add(i.identity(r, c)) {
		t.duplicates++
		return
	}
	position, kind := t.position(c)
	t.see(c)
	if !t.internal {
		i.chain.add(r, c, t, position, kind)
		i.followKey(r, c, t, position)
	}
}

// EndsEarly notes that the named file could be read up to here only, and that
// what follows in it is not known.
func (i *Inspector) EndsEarly(name string) { i.cut = append(i.cut, name) }

// decode fills i.change and returns why it could not.
func (i *Inspector) decode(r *capture.Record) string {
	switch r.Fault {
	case capture.BadJSON:
		return "not a JSON object"
	case capture.BadBase64:
		return "not base64"
	case capture.None:
	}
	if err := i.decoder.Decode(r.Data, &i.change); err != nil {
		text := strings.TrimPrefix(err.Error(), "decode record: ")
		if at := strings.LastIndex(text, " at byte "); at >= 0 {
			text = text[:at]
		}
		return text
	}
	return ""
}

// followSequence notices a file that is not in the order of its shards.
func (i *Inspector) followSequence(r *capture.Record) {
	if r.Origin.Sequence == "" {
		return
	}
	last := i.lastSequence[r.Origin.Shard]
	if len(r.Origin.Sequence) < len(last) || len(r.Origin.Sequence) == len(last) && r.Origin.Sequence < last {
		i.disorder++
		return
	}
	i.lastSequence[r.Origin.Shard] = r.Origin.Sequence
}

// shard numbers the shards in order of appearance.
func (i *Inspector) shard(r *capture.Record) int {
	n, ok := i.shards[r.Origin.Shard]
	if !ok {
		n = len(i.shardNames)
		i.shards[r.Origin.Shard] = n
		i.shardNames = append(i.shardNames, cmp.Or(r.Origin.Shard, "-"))
	}
	return n
}

func (i *Inspector) table(c *cdc.Change) *table {
	name := c.Table
	if c.Schema != "" {
		name = c.Schema + "." + c.Table
	}
	t := i.tables[name]
	if t == nil {
		spelled := name
		if i.options.FoldNames {
			spelled = strings.ToLower(name)
		}
		known, described := i.options.Tables[spelled]
		t = newTable(name, cdc.IsInternal(c.Table), known, described)
		i.tables[name] = t
	}
	return t
}

// identity tells a change from every other. DMS numbers changes; where it does
// not say the numbers, and for loads, the record's bytes are the identity:
// they hold the moment at which DMS built them.
func (i *Inspector) identity(r *capture.Record, c *cdc.Change) uint64 {
	if c.Operation == cdc.Load || !c.HasTransactionID || !c.HasRecordID {
		return maphash.Bytes(i.seed, bytes.TrimSpace(r.Data))
	}
	id := i.scratch[:0]
	for _, text := range []string{c.Schema, c.Table, c.Operation.String(), c.StreamPosition} {
		id = append(append(id, text...), 0)
	}
	id = binary.BigEndian.AppendUint64(id, c.TransactionID)
	id = binary.BigEndian.AppendUint64(id, c.TransactionRecordID)
	i.scratch = id
	return maphash.Bytes(i.seed, id)
}

// A window remembers the last size to twice size things that were added.
type window[T comparable] struct {
	size       int
	young, old map[T]struct{}
	forgot     bool
}

// has reports whether v is remembered.
func (w *window[T]) has(v T) bool {
	_, young := w.young[v]
	_, old := w.old[v]
	return young || old
}

// add reports whether v is new.
func (w *window[T]) add(v T) bool {
	known := w.has(v)
	if _, ok := w.young[v]; ok {
		return false
	}
	if w.young == nil || len(w.young) >= w.size {
		w.forgot = w.forgot || w.old != nil
		w.young, w.old = make(map[T]struct{}), w.young
	}
	w.young[v] = struct{}{}
	return !known
}
