package sinktest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	gocmp "github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/sink"
)

// The model is written anew from design and documentation, and shares no code
// with the sink but the names of the table properties.

// A Snapshot is one committed state of a table.
type Snapshot struct {
	Name       string            // for messages
	Properties map[string]string // the sink's notes that were committed with it
	Columns    []string
	Rows       [][]string // in any order, nulls as "NULL"
}

// A tableModel is what is known of one table of the lake.
type tableModel struct {
	name     string
	noted    map[string]map[uint64]bool // records that the last snapshot says it holds
	rejected map[*record]bool           // of these: those that a sink rejected for good
	commit   string                     // the last commit id seen
	commits  int
	widened  bool               // it has the added column
	newest   map[string]*record // of a mirror: the change of each key that counts
}

func newTableModel(name string) *tableModel {
	return &tableModel{name: name, noted: make(map[string]map[uint64]bool), rejected: make(map[*record]bool)}
}

// holds reports whether the last snapshot says that it holds a record.
func (m *tableModel) holds(r *record) bool { return m.noted[r.offset.Shard][r.offset.Ordinal] }

// advance compares a snapshot with the model at the offsets that are recorded
// in it. rejected are the records that the committing sink has rejected so
// far; delivered says which records any sink has been given. It returns the
// records that the snapshot notes.
func (m *tableModel) advance(w *world, s *Snapshot, delivered, rejected map[*record]bool) ([]*record, error) {
	if id := s.Properties[sink.PropertyCommit]; id != m.commit {
		m.commit = id
		m.commits++
	}
	records, err := w.noted(s.Properties[sink.PropertyOffsets])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	noted := make(map[string]map[uint64]bool)
	for _, r := range records {
		if !delivered[r] {
			return nil, fmt.Errorf("%s: record %d of %s is noted, although nobody has delivered it", s.Name, r.offset.Ordinal, r.offset.Shard)
		}
		if noted[r.offset.Shard] == nil {
			noted[r.offset.Shard] = make(map[uint64]bool)
		}
		noted[r.offset.Shard][r.offset.Ordinal] = true
		// Who notes a record decides what became of it, once and for all.
		if rejected[r] && !m.holds(r) {
			m.rejected[r] = true
		}
	}
	for shard, ordinals := range m.noted {
		for n := range ordinals {
			if !noted[shard][n] {
				return nil, fmt.Errorf("%s: record %d of %s is no longer noted", s.Name, n, shard)
			}
		}
	}
	m.noted, m.widened = noted, slices.Contains(s.Columns, "extra")
	return records, m.compare(w, s, m.want(records, m.widened))
}

// want returns the rows that a table holds when it has seen the records given.
func (m *tableModel) want(records []*record, widened bool) (rows [][]string) {
	newest := make(map[string]*record)
	for _, r := range records {
		switch {
		case r.table != m.name || r.bad || m.rejected[r]:
		case m.name == chaosChangelog:
			rows = append(rows, r.columns(widened))
		case m.name == chaosHeap:
			newest[string(r.position)] = r
		case newest[r.key] == nil || newest[r.key].position < r.position:
			newest[r.key] = r
		}
	}
	for _, r := range newest {
		if !r.deletes {
			rows = append(rows, r.columns(widened))
		}
	}
	m.newest = newest
	return rows
}

func (m *tableModel) compare(w *world, s *Snapshot, want [][]string) error {
	diff := difference(want, s.Rows)
	if diff == "" {
		return nil
	}
	return fmt.Errorf("%s: rows differ from the model at the offsets recorded in it (-model +lake):\n%s%s", s.Name, diff, m.history(w, want, s.Rows))
}

// history lists the records of the keys of a mirror that differ.
func (m *tableModel) history(w *world, want, got [][]string) string {
	if m.name != chaosMirror {
		return ""
	}
	count := make(map[string]int)
	for _, row := range want {
		count[strings.Join(row, "\x00")]++
	}
	for _, row := range got {
		count[strings.Join(row, "\x00")]--
	}
	keys := make(map[string]bool)
	for text, n := range count {
		if parts := strings.SplitN(text, "\x00", 3); n != 0 {
			keys[parts[0]+"\x00"+parts[1]] = true
		}
	}
	var b strings.Builder
	b.WriteString("records of the keys that differ:\n")
	for _, r := range w.stream {
		if r.table == m.name && keys[r.key] {
			fmt.Fprintf(&b, "  %s noted %t rejected %t bad %t\n", r.describe(), m.holds(r), m.rejected[r], r.bad)
		}
	}
	return b.String()
}

// difference compares two multisets of rows.
func difference(want, got [][]string) string {
	a, b := sorted(want), sorted(got)
	if slices.EqualFunc(a, b, slices.Equal) {
		return ""
	}
	return gocmp.Diff(a, b)
}

func sorted(rows [][]string) [][]string {
	rows = slices.Clone(rows)
	slices.SortFunc(rows, slices.Compare)
	return rows
}

// noted returns the records that an offsets property names: the spans
// [from,to,"sequence of to-1"] of each shard.
func (w *world) noted(property string) ([]*record, error) {
	if property == "" {
		return nil, nil
	}
	var shards map[string][][]json.RawMessage
	if err := json.Unmarshal([]byte(property), &shards); err != nil {
		return nil, fmt.Errorf("read offsets: %w", err)
	}
	var records []*record
	for shard, spans := range shards {
		at := uint64(0)
		for i, s := range spans {
			from, to, err := w.span(shard, s)
			if err != nil {
				return nil, fmt.Errorf("read offsets: %s span %d: %w", shard, i, err)
			}
			if i > 0 && from <= at {
				return nil, fmt.Errorf("read offsets: %s span %d touches the one before", shard, i)
			}
			at = to
			records = append(records, w.shards[shard][from:to]...)
		}
	}
	return records, nil
}

func (w *world) span(shard string, parts []json.RawMessage) (from, to uint64, err error) {
	var last string
	if len(parts) != 3 {
		return 0, 0, errors.New("has not three parts")
	}
	err = errors.Join(json.Unmarshal(parts[0], &from), json.Unmarshal(parts[1], &to), json.Unmarshal(parts[2], &last))
	switch {
	case err != nil:
		return 0, 0, err
	case from >= to || to > uint64(len(w.shards[shard])):
		return 0, 0, fmt.Errorf("%d to %d is not within the shard's %d records", from, to, len(w.shards[shard]))
	case last != w.shards[shard][to-1].offset.Sequence:
		return 0, 0, fmt.Errorf("sequence %s is not that of record %d", last, to-1)
	}
	return from, to, nil
}

// mayReject says what is wrong with the rejection of a record.
func (w *world) mayReject(r *record, reason sink.Reason, delivered map[*record]bool, horizon int64) error {
	switch {
	case r.bad && reason == sink.InvalidValue:
		return nil
	case r.bad || reason != sink.OlderThanHorizon || r.table == chaosChangelog:
		return fmt.Errorf("record %d of %s is rejected: %s", r.offset.Ordinal, r.offset.Shard, reason)
	}
	// Some delete above it must be old enough to be forgotten.
	newest := int64(-1)
	for other := range delivered {
		if other.table == r.table && !other.bad {
			newest = max(newest, other.committed)
		}
	}
	for other := range delivered {
		if other.table == r.table && other.deletes && other.position >= r.position && other.committed < newest-horizon {
			return nil
		}
	}
	return fmt.Errorf("record %d of %s is rejected as %s, although no delete above it is", r.offset.Ordinal, r.offset.Shard, reason)
}

// A replayed row is a row of a fold; unknown says that nothing tells what big is.
type replayed struct {
	texts   []string // of the data columns
	unknown bool
}

// replay folds changes one after the other in the order of their positions.
func replay(records []*record, widened bool) (rows [][]string) {
	byPosition := make(map[cdc.Position]*record)
	for _, r := range records {
		byPosition[r.position] = r
	}
	current := make(map[sourceKey]replayed)
	for _, position := range slices.Sorted(maps.Keys(byPosition)) {
		r := byPosition[position]
		c := r.change
		from := c.key
		if c.moved {
			from = c.oldKey
		}
		old, held := current[from]
		if c.operation == cdc.Delete || c.moved {
			delete(current, from)
		}
		if c.operation == cdc.Delete {
			continue
		}
		now := replayed{texts: r.columns(widened)}
		now.texts = slices.Clone(now.texts[:len(now.texts)-5])
		const big = 4
		if c.partial {
			if now.unknown = !held || old.unknown; !now.unknown {
				now.texts[big] = old.texts[big]
			}
		}
		current[c.key] = now
	}
	for _, row := range current {
		rows = append(rows, append(row.texts, strconv.FormatBool(row.unknown)))
	}
	return rows
}

// fold returns the current rows of a changelog's contents, each with a last
// text that says whether big is unknown.
func fold(t *catalog.Table, contents [][]string) ([][]string, error) {
	reader, err := sink.NewChangelogReader(t)
	if err != nil {
		return nil, err
	}
	folder := reader.Folder()
	for again := true; again; again = folder.Again() {
		for _, texts := range contents {
			row, err := reader.Row(Row(texts...))
			if err != nil {
				return nil, err
			}
			folder.Add(row)
		}
	}
	var rows [][]string
	for row, err := range folder.Rows() {
		if err != nil {
			return nil, err
		}
		texts := make([]string, len(row.Values))
		for i, v := range row.Values {
			if texts[i] = string(v); v == nil {
				texts[i] = "NULL"
			}
		}
		rows = append(rows, append(texts, strconv.FormatBool(len(row.Unknown) > 0)))
	}
	return rows, nil
}

// now returns the source's rows as they end: those of the keyed table, and of heap.
func (w *world) now(widened bool) (keyed, heap [][]string) {
	for key, row := range w.current {
		var texts []string
		for _, f := range append(key.fields(), row.fields()...) {
			if f.name != "extra" || widened {
				texts = append(texts, orNull(f.text))
			}
		}
		keyed = append(keyed, texts)
	}
	for _, text := range w.heap {
		heap = append(heap, []string{text})
	}
	return keyed, heap
}

// describe says where a record stands and what it is, without its values.
func (r *record) describe() string {
	what := "nothing"
	switch {
	case r.table == chaosChangelog:
		what = "changelog " + r.change.operation.String()
	case r.deletes:
		what = r.table + " delete"
	case r.table != "":
		what = r.table + " row"
	}
	return fmt.Sprintf("%s/%d %s %s %q", strings.TrimLeft(r.offset.Shard, "shardI-0"), r.offset.Ordinal, what, r.position, r.key)
}
