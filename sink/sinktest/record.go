package sinktest

import (
	"encoding/json"
	"strconv"

	"icehose/cdc"
	"icehose/sink"
)

// A record is one record of the stream.
type record struct {
	offset    sink.Offset
	table     string // "" when it has nothing to write
	key       string // of a mirror
	position  cdc.Position
	committed int64 // seconds of the modelled time, -1 for null
	deletes   bool
	widened   bool // has a value for the added column
	bad       bool // has a value that is none of its type
	heldBack  bool // its transform fails until somebody mends it
	fields    []field
	change    *sourceChange // what the changelog's row says
	rendered  [2][]byte     // JSON without and with the added column
	texts     [2][]string   // of the lake's columns, likewise
}

// A field is a column and its text, nil for null.
type field struct {
	name string
	text *string
}

// shard is where a record goes: half of the time where its key belongs.
func (w *world) shard(id int) string {
	if w.r.IntN(2) == 0 {
		return shardOf(id % chaosShards)
	}
	return shardOf(w.r.IntN(chaosShards))
}

// emit writes a change to the streams of both tables, now and then twice, as a
// task that restarts does.
func (w *world) emit(c *sourceChange) {
	for n := range 1 + w.r.IntN(6)/5 {
		if n > 0 {
			w.tally[SentTwice]++
		}
		shard := w.shard(c.key.id)
		w.addMirror(shard, c)
		w.addChangelog(shard, c)
	}
}

// sendAgain sends the records of an older change once more.
func (w *world) sendAgain() {
	old := w.stream[w.r.IntN(len(w.stream))]
	if old.table == "" || old.bad {
		return
	}
	again := *old
	w.tally[SentAgainLater]++
	w.add(shardOf(w.r.IntN(chaosShards)), &again)
}

// addMirror tells of a key change as a delete and an upsert. The record of a
// partial row fails in transform, until the row is there as a whole; that of a
// delete may be late for another reason.
func (w *world) addMirror(shard string, c *sourceChange) {
	if c.moved {
		w.add(shard, c.mirrorRecord(c.oldKey, true))
	}
	r := c.mirrorRecord(c.key, c.operation == cdc.Delete)
	r.heldBack = (c.partial || r.deletes) && w.r.IntN(4) == 0
	w.add(shard, r)
}

func (c *sourceChange) mirrorRecord(key sourceKey, deletes bool) *record {
	r := &record{table: chaosMirror, key: key.text(), position: c.position, committed: c.committed, deletes: deletes, fields: key.fields()}
	if deletes {
		r.fields = append(r.fields, sourceRow{}.fields()...)
	} else {
		r.fields = append(r.fields, c.row.fields()...)
		r.widened = c.row.extra != nil
	}
	return r
}

func (w *world) addChangelog(shard string, c *sourceChange) {
	row := c.row
	if c.partial {
		row.big = nil
	}
	fields := append(c.key.fields(), row.fields()...)
	operation := c.operation.String()
	fields = append(fields, field{"cdc_operation", &operation}, field{"cdc_old_key", nil}, field{"cdc_absent", nil})
	if c.moved {
		text, err := json.Marshal([]string{strconv.Itoa(c.oldKey.id), c.oldKey.part})
		if err != nil {
			panic(err)
		}
		old := string(text)
		fields[len(fields)-2].text = &old
	}
	if c.partial {
		absent := "big"
		fields[len(fields)-1].text = &absent
	}
	w.add(shard, &record{table: chaosChangelog, position: c.position, committed: c.committed, fields: fields, change: c, widened: row.extra != nil})
}

// addBad sends a row that the sink must reject without harm to its neighbours.
func (w *world) addBad(c *sourceChange) {
	r := c.mirrorRecord(c.key, false)
	text := "1.005"
	r.bad = true
	r.fields[3].text = &text // n takes two fraction digits
	w.tally[BadRows]++
	w.add(shardOf(w.r.IntN(chaosShards)), r)
}

func (w *world) add(shard string, r *record) {
	n := uint64(len(w.shards[shard]))
	r.offset = sink.Offset{Shard: shard, Sequence: strconv.FormatUint(4_000_000+7*n, 10), Ordinal: n}
	w.shards[shard] = append(w.shards[shard], r)
	w.stream = append(w.stream, r)
}

func (k sourceKey) text() string { return strconv.Itoa(k.id) + "\x00" + k.part }

func (k sourceKey) fields() []field {
	id := strconv.Itoa(k.id)
	return []field{{"id", &id}, {"part", &k.part}}
}

func (r sourceRow) fields() []field {
	return []field{{"v", r.v}, {"n", r.n}, {"big", r.big}, {"extra", r.extra}}
}

// columns returns the record's texts in the order of the lake's columns, "NULL"
// for null. They are the record's own.
func (r *record) columns(widened bool) []string {
	version := version(widened)
	if r.texts[version] == nil {
		r.texts[version] = r.list(widened)
	}
	return r.texts[version]
}

// version numbers the two states of the columns.
func version(widened bool) int {
	if widened {
		return 1
	}
	return 0
}

func (r *record) list(widened bool) (texts []string) {
	data, meta := r.fields, []field(nil)
	if r.table == chaosChangelog {
		data, meta = r.fields[:len(r.fields)-3], r.fields[len(r.fields)-3:]
	}
	for _, f := range data {
		if f.name != "extra" || widened {
			texts = append(texts, orNull(f.text))
		}
	}
	texts = append(texts, string(r.position), orNull(r.commitTime()))
	for _, f := range meta {
		texts = append(texts, orNull(f.text))
	}
	return texts
}

func orNull(text *string) string {
	if text == nil {
		return "NULL"
	}
	return *text
}

func (r *record) commitTime() *string {
	if r.committed < 0 {
		return nil
	}
	text := chaosTime(r.committed).Format("2006-01-02T15:04:05.000000Z")
	return &text
}

// delivery is the record as transform delivers it, by a pipeline file that has
// the added column or has it not.
func (r *record) delivery(widened bool) sink.Delivery {
	if r.table == "" {
		return sink.Delivery{Offset: r.offset}
	}
	version := version(widened)
	if r.rendered[version] == nil {
		r.rendered[version] = r.render(widened)
	}
	operation := cdc.Update
	switch {
	case r.deletes:
		operation = cdc.Delete
	case r.table != chaosMirror:
		operation = cdc.Insert
	}
	return sink.Delivery{Offset: r.offset, Row: &sink.Row{Database: "lake", Table: r.table, Operation: operation, Data: r.rendered[version]}}
}

func (r *record) render(widened bool) []byte {
	row := map[string]any{"cdc_position": r.position, "cdc_committed_at": r.commitTime()}
	for _, f := range r.fields {
		switch {
		case f.name == "extra" && !widened:
		case f.text == nil:
			row[f.name] = nil
		case f.name == "id" || f.name == "n":
			row[f.name] = json.Number(*f.text)
		default:
			row[f.name] = *f.text
		}
	}
	data, err := json.Marshal(row)
	if err != nil {
		panic(err) // texts always marshal
	}
	return data
}
