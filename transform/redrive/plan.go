package redrive

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/cdc/dms"
	"icehose/internal/canon"
	"icehose/transform"
	"icehose/transform/firehose"
)

// An Action is what can be done about a failure.
type Action string

// The actions.
const (
	Send      Action = "send"      // the original, to the source stream: its table is a changelog and the transform takes it now
	Reconcile Action = "reconcile" // the row's key, or the whole table where there is none: its table is a mirror
	WriteRow  Action = "write_row" // a changelog's row that only has to be written: it is no record of the source stream
	Repair    Action = "repair"    // the transform refuses the record: first the cause has to go
	Nothing   Action = "nothing"   // the transform drops such records
	Repeated  Action = "repeated"  // the same bytes failed before
	Unclear   Action = "unclear"   // nobody can tell which table it was for
)

// Why a failure is Unclear, where the transform gives no reason.
const (
	NoRecord  transform.Reason = "no_record"  // the error object holds no record
	NoTable   transform.Reason = "no_table"   // no table of the pipeline file has the row's columns, and the name that the object gives, if any
	ManyTable transform.Reason = "many_table" // several tables have, and the object names none: Item.Candidates
)

// An Entry is a record to send.
type Entry struct {
	ID           string // sha256 of the data, in hexadecimal
	PartitionKey string
	Data         []byte
	Where        string // the caller's: names the record in Sender.Examples
}

// A Key names a row of a mirror, or all of its table.
type Key struct {
	Table   string   `json:"table"`             // schema.table of the source
	Columns []string `json:"columns,omitempty"` // names of the key columns
	Key     []string `json:"key,omitempty"`     // their canonical texts
	All     bool     `json:"all,omitempty"`     // the whole table: the failure does not tell the row
}

// A Row is a changelog's row to write.
type Row struct {
	Database, Table string
	Data            []byte // one JSON object
}

// An Item is a failure with what can be done about it.
type Item struct {
	Failure Failure
	Action  Action
	Table   string           // schema.table of the source; empty when not known
	Reason  transform.Reason // what the transform says now, or why it is Unclear; empty when it takes the record
	Column  string
	Entry   Entry // when Send
	Keys    []Key // when Reconcile: the row's key, and its former one when the change moved it
	Row     Row   // when WriteRow
	// Candidates are the lake tables (database.table) that the row may be of,
	// when Reason is ManyTable.
	Candidates []string
}

// A Planner decides about failures. It belongs to one goroutine.
type Planner struct {
	transformer *transform.Transformer
	mirrors     map[string]bool // source tables that some stream is known to deliver as a mirror
	tables      map[string]*catalog.Table
	byColumns   map[string][]*catalog.Table
	decoder     *dms.Decoder
	seen        map[[16]byte]struct{}
}

// NewPlanner returns a Planner. The transformer is of the delivery stream
// whose failures these are. Every stream that reads the source stream would get
// a record that is sent again, so a table counts as a mirror if this stream or
// the pipeline file says so, or if it is named in mirrors (by schema.table of
// the source, as the file spells it): what modes other streams have, neither of
// the first two tells. Without a pipeline every failure is Unclear.
func NewPlanner(p *catalog.Pipeline, t *transform.Transformer, mirrors ...string) *Planner {
	out := &Planner{
		transformer: t, mirrors: make(map[string]bool), tables: make(map[string]*catalog.Table),
		byColumns: make(map[string][]*catalog.Table), seen: make(map[[16]byte]struct{}),
	}
	if p == nil || t == nil {
		return out
	}
	out.decoder = dms.New(dms.Settings{BeforeImage: p.Source.BeforeImage, BeforePrefix: p.Source.BeforePrefix})
	for i, table := range t.Tables() {
		out.tables[table.Source] = table
		out.mirrors[table.Source] = table.Mode == catalog.Mirror || p.Tables[i].Mode == catalog.Mirror || slices.Contains(mirrors, table.Source)
		columns, _ := table.LakeColumns()
		names := make([]string, len(columns))
		for j := range columns {
			names[j] = columns[j].Name
		}
		set := columnSet(names)
		out.byColumns[set] = append(out.byColumns[set], table)
	}
	return out
}

func columnSet(names []string) string {
	slices.Sort(names)
	return strings.Join(names, ",")
}

// Decide says what can be done about a failure.
func (p *Planner) Decide(f Failure) Item {
	item := Item{Failure: f, Action: Unclear}
	if f.Raw == nil {
		item.Reason = NoRecord
		return item
	}
	sum := sha256.Sum256(f.Raw)
	short := [16]byte(sum[:16])
	if _, ok := p.seen[short]; ok {
		item.Action = Repeated
		return item
	}
	p.seen[short] = struct{}{}
	if p.transformer == nil {
		return item
	}
	switch f.Kind {
	case ProcessingFailed:
		item.Entry.ID = hex.EncodeToString(sum[:])
		p.original(&item)
	case IcebergFailed:
		p.row(&item)
	case Unrecognized:
		item.Reason = NoRecord
	}
	return item
}

// original decides about a record of the source stream.
func (p *Planner) original(item *Item) {
	raw := item.Failure.Raw
	// A load's position wants a time and takes an empty origin; what the
	// record's origin was no error object tells. An event of one record has
	// all the room that there is.
	event, err := firehose.EventOf([]transform.Record{{ID: item.Entry.ID, Data: raw}})
	if err != nil {
		item.Action, item.Reason, item.Entry = Repair, transform.ResponseTooLarge, Entry{}
		return
	}
	result := event.Results(p.transformer)[0]
	item.Table, item.Reason, item.Column = result.Table, result.Reason, result.Column
	table := p.tables[result.Table]
	switch {
	case result.Outcome == transform.Dropped:
		item.Action, item.Entry = Nothing, Entry{}
		return
	case table == nil:
		item.Action, item.Entry = Repair, Entry{}
		return
	case !p.mirrors[table.Source] && result.Outcome != transform.Ok:
		item.Action, item.Entry = Repair, Entry{}
		return
	}
	var c cdc.Change
	_ = p.decoder.Decode(raw, &c) // the transform told its table, so it decodes
	if p.mirrors[table.Source] {
		item.Action, item.Entry = Reconcile, Entry{}
		item.Keys = keysOf(table, &c)
		return
	}
	item.Action = Send
	item.Entry.Data = raw
	item.Entry.PartitionKey = partitionKey(&c, item.Entry.ID)
}

// partitionKey is the key with which DMS put the record, as far as the record
// tells it. Where it does not, records are spread: a changelog has no order to keep.
func partitionKey(c *cdc.Change, id string) string {
	const longest = 256 // characters, by the Kinesis API
	key := c.PartitionKeyValue
	if key == "" && c.PartitionKeyType == "schema-table" {
		key = c.Schema + "." + c.Table
	}
	if key == "" || utf8.RuneCountInString(key) > longest {
		return id
	}
	return key
}

// keysOf returns the keys of the rows that a change is about: the row's, and
// the former one of an update that moved it.
func keysOf(t *catalog.Table, c *cdc.Change) []Key {
	texts, ok := keyTexts(t, func(col *catalog.Column) cdc.Value {
		v := field(c.Data, t, col)
		if v.Kind == cdc.Missing || v.Kind == cdc.Null {
			v = field(c.Before, t, col)
		}
		return v
	})
	if !ok {
		return []Key{{Table: t.Source, All: true}}
	}
	keys := []Key{{Table: t.Source, Columns: t.Key, Key: texts}}
	if !c.HasBefore {
		return keys
	}
	former, ok := keyTexts(t, func(col *catalog.Column) cdc.Value {
		v := field(c.Before, t, col)
		if v.Kind == cdc.Missing || v.Kind == cdc.Null {
			v = field(c.Data, t, col)
		}
		return v
	})
	if ok && !slices.Equal(former, texts) {
		keys = append(keys, Key{Table: t.Source, Columns: t.Key, Key: former})
	}
	return keys
}

// keyTexts returns the canonical texts of a row's key.
func keyTexts(t *catalog.Table, valueOf func(*catalog.Column) cdc.Value) (texts []string, ok bool) {
	for _, at := range t.KeyColumns() {
		col := t.Columns[at]
		v := valueOf(col)
		if v.Kind != cdc.String && v.Kind != cdc.Number && v.Kind != cdc.Bool {
			return nil, false
		}
		text, whole := v.AppendText(nil)
		canonical, err := canon.Append(nil, col, canon.Record, text)
		if !whole || err != nil {
			return nil, false
		}
		texts = append(texts, string(canonical))
	}
	return texts, len(texts) > 0
}

// field finds a column's value by the name the records have for it.
func field(fields cdc.Fields, t *catalog.Table, col *catalog.Column) cdc.Value {
	names := t.SourceNames()
	for _, f := range slices.Backward(fields) {
		if at := names.Find(string(f.Name)); at >= 0 && t.Columns[at] == col {
			return f.Value
		}
	}
	return cdc.Value{}
}

// row decides about a row that the transform had made.
func (p *Planner) row(item *Item) {
	var row map[string]json.RawMessage
	if json.Unmarshal(item.Failure.Raw, &row) != nil {
		item.Reason = NoRecord
		return
	}
	names := make([]string, 0, len(row))
	for name := range row {
		names = append(names, name)
	}
	var tables []*catalog.Table
	for _, t := range p.byColumns[columnSet(names)] {
		name := t.Database() + "." + t.Name()
		if item.Failure.Table == "" || item.Failure.Table == name {
			tables = append(tables, t)
			item.Candidates = append(item.Candidates, name)
		}
	}
	switch len(tables) {
	case 0:
		item.Reason = NoTable
		return
	case 1:
		item.Candidates = nil
	default:
		item.Reason = ManyTable
		return
	}
	t := tables[0]
	item.Table = t.Source
	if t.Mode == catalog.Changelog {
		item.Action = WriteRow
		item.Row = Row{Database: t.Database(), Table: t.Name(), Data: item.Failure.Raw}
		return
	}
	item.Action = Reconcile
	item.Keys = []Key{p.keyOf(t, row)}
}

// keyOf returns the key of a row that the transform had made; all rows of the
// table where it does not tell.
func (p *Planner) keyOf(t *catalog.Table, row map[string]json.RawMessage) Key {
	key, all := Key{Table: t.Source, Columns: t.Key}, Key{Table: t.Source, All: true}
	for _, k := range t.Key {
		v := cdc.Value{Kind: cdc.Number, Raw: row[k]}
		switch {
		case len(row[k]) == 0 || string(row[k]) == "null":
			return all
		case row[k][0] == '"':
			v.Kind, v.Escaped = cdc.String, true
		}
		text, _ := v.AppendText(nil)
		canonical, err := p.transformer.CanonicalText(column(t, k), string(text))
		if err != nil { // bytes of another form, as before the setting changed
			return all
		}
		key.Key = append(key.Key, canonical)
	}
	if len(t.Key) == 0 {
		return all
	}
	return key
}

// column returns a key column by its name.
func column(t *catalog.Table, name string) *catalog.Column {
	return t.Columns[slices.IndexFunc(t.Columns, func(c *catalog.Column) bool { return c.Name == name })]
}

// String renders the key for a sort: nothing else may depend on it.
func (k Key) String() string { return fmt.Sprintf("%s %t %q", k.Table, k.All, k.Key) }
