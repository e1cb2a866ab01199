package inspect

import (
	"encoding/json"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"icehose/cdc"
	"icehose/cdc/capture"
)

// A table is what was seen of one table.
type table struct {
	name      string
	internal  bool
	key       []string // column names, lower case; nil when not known
	described bool
	kind      cdc.PositionKind // zero when it is told from the records
	guessed   cdc.PositionSource

	shards     map[int]*Operations
	loadKeys   map[string]int64
	changeKeys map[string]int64
	duplicates int64
	large      int64
	maxBytes   int
	noPosition int64
	noKey      int64 // rows that lack a key column
	// byPartition says that rows are told apart by their partition key,
	// because no key was known when the first one came.
	byPartition bool
	folded      bool

	lastBuilt   time.Time // of its data, so far
	loads       int64
	changes     int64
	lateControl int64
	defined     bool
	redefined   int64 // create-table records, but for the first, built after changes

	tracked                 int64
	split                   int64 // keys with records on several shards
	loadSplit               int64 // of those, keys whose load and changes are on different ones
	inShard, across         int64 // inversions
	loadInShard, loadAcross int64 // loads that arrived after a change of their row
	loadedAgain             int64
	exponents               map[string]int64 // by column: integers in exponent form
	minColumns, maxColumns  int              // of loads and inserts
}

func newTable(name string, internal bool, known Table, described bool) *table {
	t := &table{
		name: name, internal: internal, described: described, kind: known.Position, shards: make(map[int]*Operations),
		loadKeys: make(map[string]int64), changeKeys: make(map[string]int64), exponents: make(map[string]int64),
	}
	t.folded = known.Folded
	for _, k := range known.Key {
		t.key = append(t.key, strings.ToLower(k))
	}
	return t
}

// count takes in a record of the table, duplicates included.
func (t *table) count(r *capture.Record, c *cdc.Change, shard, large int) {
	ops := t.shards[shard]
	if ops == nil {
		ops = &Operations{}
		t.shards[shard] = ops
	}
	ops.add(c.Operation)
	size := len(r.Data) + len(r.PartitionKey)
	t.maxBytes = max(t.maxBytes, size)
	if size >= large {
		t.large++
	}
	switch c.Operation {
	case cdc.Load:
		t.loadKeys[c.PartitionKeyType]++
	case cdc.Insert, cdc.Update, cdc.Delete:
		t.changeKeys[c.PartitionKeyType]++
	case cdc.Control:
	}
}

// see takes in a data record that is no duplicate.
func (t *table) see(c *cdc.Change) {
	if c.BuiltAt.After(t.lastBuilt) {
		t.lastBuilt = c.BuiltAt
	}
	if c.Operation == cdc.Load {
		t.loads++
	} else {
		t.changes++
	}
}

// control takes in a control record of the table.
func (t *table) control(c *cdc.Change) {
	if !c.BuiltAt.IsZero() && c.BuiltAt.Before(t.lastBuilt) {
		t.lateControl++
	}
	if c.ControlName != "create-table" {
		return
	}
	if t.changes > 0 && (t.defined || t.loads > 0) && c.BuiltAt.After(t.lastBuilt) {
		t.redefined++
	}
	t.defined = true
	var body struct {
		Definition struct {
			Key []string `json:"primary-key"`
		} `json:"table-def"`
	}
	if t.described || json.Unmarshal(c.ControlBody, &body) != nil {
		return
	}
	t.key = t.key[:0]
	for _, k := range body.Definition.Key {
		t.key = append(t.key, strings.ToLower(k))
	}
}

// A place is where a change stands in its source's order.
type place struct {
	body   cdc.Body
	record uint64
	ok     bool
}

func (p place) before(q place) bool {
	if n := p.body.Compare(q.body); n != 0 {
		return n < 0
	}
	return p.record < q.record
}

// position reads a change's position: of the declared kind, else of the kind
// that the record shows.
func (t *table) position(c *cdc.Change) (place, cdc.PositionKind) {
	kind := t.kind
	if c.Operation == cdc.Load {
		return place{}, kind
	}
	if kind.Source == 0 {
		kind = guess(c)
		if kind.Source != cdc.SourceNone {
			t.guessed = kind.Source
		}
	}
	body, err := kind.BodyOf(c)
	p := place{body: body, record: c.TransactionRecordID}
	p.ok = err == nil && kind.Source != cdc.SourceNone && (c.HasRecordID || kind.Source == cdc.SourceColumn)
	if !p.ok && t.kind.Source != cdc.SourceNone { // a table that is declared to have none misses nothing
		t.noPosition++
	}
	return p, kind
}

// guess tells the position kind of a change. The stream positions of PostgreSQL,
// SQL Server and Oracle have forms that exclude each other; that of MySQL is
// not documented, but its transaction id holds a file number above 32 bits.
func guess(c *cdc.Change) cdc.PositionKind {
	for _, source := range []cdc.PositionSource{cdc.SourcePostgres, cdc.SourceSQLServer, cdc.SourceOracle} {
		kind := cdc.PositionKind{Source: source}
		if _, err := kind.BodyOf(c); err == nil {
			return kind
		}
	}
	if c.HasTransactionID && c.TransactionID>>32 > 0 {
		return cdc.PositionKind{Source: cdc.SourceMySQL}
	}
	return cdc.PositionKind{Source: cdc.SourceNone}
}

// appendKey appends the texts of the row's key; ok is false when the table's
// key is not known or the record does not have it.
func (t *table) appendKey(dst []byte, r *capture.Record, c *cdc.Change) (key []byte, ok bool) {
	dst = append(append(dst, t.name...), 0)
	if len(t.key) == 0 || t.byPartition {
		if c.PartitionKeyType != "primary-key" || t.described {
			return dst, false
		}
		t.byPartition = true
		if c.PartitionKeyValue != "" {
			return append(dst, c.PartitionKeyValue...), true
		}
		return append(dst, r.PartitionKey...), r.PartitionKey != ""
	}
	for _, name := range t.key {
		v := lookup(c.Data, name)
		if (v.Kind == cdc.Missing || v.Kind == cdc.Null) && c.Operation == cdc.Delete {
			v = lookup(c.Before, name)
		}
		if v.Kind == cdc.Missing || v.Kind == cdc.Null {
			return dst, false
		}
		dst, _ = v.AppendText(dst)
		dst = append(dst, 0)
	}
	return dst, true
}

// lookup finds a column by its lower-cased name. The last of several counts.
func lookup(fields cdc.Fields, lower string) cdc.Value {
	for _, f := range slices.Backward(fields) {
		if len(f.Name) == len(lower) && strings.EqualFold(string(f.Name), lower) {
			return f.Value
		}
	}
	return cdc.Value{}
}

// A keyState is what is remembered of one key.
type keyState struct {
	last        place // the newest change so far
	lastShard   int32 // where it arrived
	loadShard   int32 // where a load arrived; -1
	changeShard int32 // where the first change arrived; -1
	split       bool
	loadSplit   bool
}

// followKey follows the order of one row's records.
func (i *Inspector) followKey(r *capture.Record, c *cdc.Change, t *table, p place) {
	key, ok := t.appendKey(i.scratch[:0], r, c)
	i.scratch = key
	if !ok {
		if len(t.key) > 0 && !t.byPartition {
			t.noKey++
		}
		return
	}
	id := maphash.Bytes(i.seed, key)
	s := i.keys[id]
	if s == nil {
		if len(i.keys) >= i.options.Keys {
			i.untracked++
			return
		}
		s = &keyState{loadShard: -1, changeShard: -1}
		i.keys[id] = s
		t.tracked++
	}
	shard := int32(i.shard(r))
	if c.Operation == cdc.Load {
		s.load(t, shard)
		return
	}
	s.follow(t, shard, p)
}

func (s *keyState) load(t *table, shard int32) {
	if s.loadShard >= 0 {
		t.loadedAgain++
	}
	if s.changeShard >= 0 {
		if s.lastShard == shard {
			t.loadInShard++
		} else {
			t.loadAcross++
		}
	}
	s.loadShard = shard
	s.splits(t, s.changeShard >= 0 && s.changeShard != shard, true)
}

func (s *keyState) follow(t *table, shard int32, p place) {
	if s.changeShard < 0 {
		s.changeShard = shard
	}
	s.splits(t, s.changeShard != shard, false)
	s.splits(t, s.loadShard >= 0 && s.loadShard != shard, true)
	if !p.ok {
		s.lastShard = shard
		return
	}
	if s.last.ok && p.before(s.last) {
		if s.lastShard == shard {
			t.inShard++
		} else {
			t.across++
		}
		return
	}
	s.last, s.lastShard = p, shard
}

// splits notes that the key has records on several shards.
func (s *keyState) splits(t *table, split, load bool) {
	if !split {
		return
	}
	if !s.split {
		s.split = true
		t.split++
	}
	if load && !s.loadSplit {
		s.loadSplit = true
		t.loadSplit++
	}
}
