package merge

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	icecatalog "github.com/apache/iceberg-go/catalog"

	"icehose/catalog"
	"icehose/catalog/artifact"
	lake "icehose/catalog/iceberg"
	"icehose/cdc"
	"icehose/internal/canon"
	"icehose/sink"
)

// A Store is a lake that this process writes. Package sink/iceberg implements it.
type Store interface {
	sink.Store
	// Tables returns the catalog of the lake.
	Tables() *lake.Lake
}

// attempts is how often a run begins anew after somebody else had changed the
// current table.
const attempts = 3

// Local merges what is new in the changelog t into its current table, which it
// creates if there is none. Its memory holds the rows of the keys that are
// touched; of a table without a key, and of a rebuild, all rows.
func Local(ctx context.Context, store Store, t *catalog.Table, o Options) (*Result, error) {
	if t.Mode != catalog.Changelog {
		return nil, failed(t, fmt.Errorf("%w: the table is no changelog", ErrRefused))
	}
	for n := 1; ; n++ {
		result, err := local(ctx, store, t, o)
		if err == nil {
			return result, nil
		}
		if !errors.Is(err, sink.ErrConflict) || n == attempts {
			return nil, failed(t, err)
		}
	}
}

func local(ctx context.Context, store Store, t *catalog.Table, o Options) (*Result, error) {
	tables := store.Tables().Tables
	o.whole = true
	p, err := settledPlan(ctx, tables, t, o)
	if err != nil {
		return nil, err
	}
	result := p.result()
	current, err := store.OpenTable(ctx, t.Current())
	if errors.Is(err, icecatalog.ErrTableAlreadyExists) { // another run has just created it
		current, err = store.OpenTable(ctx, t.Current())
	}
	if err != nil {
		return nil, fmt.Errorf("open current table: %w", err)
	}
	if p.done() {
		p.tag(ctx, tables, result)
		return result, nil
	}
	state, err := current.Load(ctx)
	if err != nil {
		return nil, fmt.Errorf("load current table: %w", err)
	}
	if err := p.checkCurrent(ctx); err != nil {
		return nil, err
	}
	m := newLocalRun(p)
	if err := m.read(ctx, result); err != nil {
		return nil, err
	}
	batch := &sink.Batch{}
	if m.keys == nil || len(m.keys) > 0 {
		folded, err := m.fold(ctx)
		if err != nil {
			return nil, err
		}
		if batch, err = m.compare(ctx, current, folded); err != nil {
			return nil, err
		}
	}
	result.Changed = int64(batch.Inserts.Len())
	result.Deleted = int64(m.gone)
	if len(p.missing) > 0 && batch.Inserts.Len() == 0 && batch.Deletes.Len() == 0 { // a commit of rows would add them
		if err := p.addMissing(ctx); err != nil {
			return nil, err
		}
	}
	// Spark and Athena do not touch the commit id.
	batch.Parent, batch.Snapshot, batch.ID = state.Properties[sink.PropertyCommit], &p.expected, rand.Text()
	batch.Properties = p.notes(p.to, m.highest)
	batch.Properties[sink.PropertyCommit] = batch.ID
	if err := current.Commit(ctx, batch); err != nil {
		return nil, fmt.Errorf("commit current table: %w", err)
	}
	p.tag(ctx, tables, result)
	return result, nil
}

// A localRun folds and compares in memory.
type localRun struct {
	*plan
	columns []catalog.Column // of the changelog
	data    int
	key     []int           // among columns; the position if the table has no key
	keys    map[string]bool // touched; nil for all
	highest string          // greatest position read
	gone    int             // rows of the current table that go
}

func newLocalRun(p *plan) *localRun {
	m := &localRun{plan: p}
	m.columns, m.data = p.t.LakeColumns()
	for _, name := range p.t.Current().Key {
		m.key = append(m.key, slices.IndexFunc(m.columns, func(c catalog.Column) bool { return c.Name == name }))
	}
	return m
}

// keyText is a key as bytes that nothing else has.
func keyText(values [][]byte) string {
	var key []byte
	for _, v := range values {
		key = canon.AppendField(key, v)
	}
	return string(key)
}

func pick(row [][]byte, columns []int) [][]byte {
	out := make([][]byte, len(columns))
	for i, c := range columns {
		out[i] = row[c]
	}
	return out
}

// read counts what is new and finds the keys that it touches.
func (m *localRun) read(ctx context.Context, result *Result) error {
	all := m.from == 0 || m.rebuild || len(m.t.Key) == 0
	if !all {
		m.keys = make(map[string]bool)
	}
	reader, err := sink.NewChangelogReader(m.t)
	if err != nil {
		return err
	}
	ordered := m.t.Position.Source != cdc.SourceNone // positions of arrival say nothing of the source
	stranger, seen, latest, below := "", newest{}, int64(0), int64(0)
	for values, err := range m.rows(ctx, m.added, m.columns) {
		if err != nil {
			return err
		}
		row, err := reader.Row(values)
		if err != nil {
			return fmt.Errorf("%w: %w: the changelog has rows of something else: remove them, or name the right table", ErrRefused, err)
		}
		result.Read++
		position := string(row.Position)
		if position <= m.position {
			result.Late++
		}
		m.highest = max(m.highest, position)
		if committed := values[m.data+1]; committed != nil && ordered && !row.Position.IsLoad() {
			seconds, err := unixSeconds(committed)
			if err != nil {
				return err
			}
			latest = max(latest, seconds)
			if position > seen.position {
				seen = newest{position, seconds}
			}
			if position <= m.change.position && seconds > m.change.seconds+artifact.RegressSeconds {
				below++
			}
		}
		if !m.t.Position.Fits(row.Position) {
			stranger = max(stranger, position)
		}
		if all {
			continue
		}
		m.keys[keyText(pick(values, m.key))] = true
		if row.OldKey != nil && row.Operation != cdc.Delete {
			m.keys[keyText(row.OldKey)] = true
		}
	}
	if err := m.checkKind(stranger, m.highest); err != nil {
		return err
	}
	m.saw(seen, latest, below, result)
	if all {
		return nil
	}
	return m.addRelated(ctx, reader)
}

// unixSeconds reads the canonical text of a time with a zone.
func unixSeconds(text []byte) (int64, error) {
	t, err := time.Parse("2006-01-02T15:04:05.000000Z", string(text))
	if err != nil {
		return 0, fmt.Errorf("%s is not a time", catalog.ColumnCommittedAt)
	}
	return t.Unix(), nil
}

// addRelated adds the keys that are tied to a touched one by a key change that
// left columns out: what one of them was, another may have inherited.
func (m *localRun) addRelated(ctx context.Context, reader *sink.ChangelogReader) error {
	if !slices.ContainsFunc(m.columns[:m.data], func(c catalog.Column) bool { return c.MayBeUnchanged }) {
		return nil // else fold finds out
	}
	return m.addTied(ctx, reader)
}

func (m *localRun) addTied(ctx context.Context, reader *sink.ChangelogReader) error {
	related := make(map[string][]string)
	for values, err := range m.rows(ctx, m.tasks, m.columns) {
		if err != nil {
			return err
		}
		row, err := reader.Row(values)
		if err != nil {
			return err
		}
		if inherits(&row) {
			old, key := keyText(row.OldKey), keyText(pick(values, m.key))
			related[old], related[key] = append(related[old], key), append(related[key], old)
		}
	}
	todo := make([]string, 0, len(m.keys))
	for key := range m.keys {
		todo = append(todo, key)
	}
	for len(todo) > 0 {
		key := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, other := range related[key] {
			if !m.keys[other] {
				m.keys[other] = true
				todo = append(todo, other)
			}
		}
	}
	return nil
}

// fold returns the current rows of the touched keys by key, with the columns of
// the current table.
func (m *localRun) fold(ctx context.Context) (map[string][][]byte, error) {
	reader, err := sink.NewChangelogReader(m.t)
	if err != nil {
		return nil, err
	}
	folder, tied, err := m.folder(ctx, reader)
	if tied { // of a column that is not may_be_unchanged any more
		if err := m.addTied(ctx, reader); err != nil {
			return nil, err
		}
		folder, _, err = m.folder(ctx, reader)
	}
	if err != nil {
		return nil, err
	}
	rows := make(map[string][][]byte)
	for row, err := range folder.Rows() {
		if err != nil {
			return nil, err
		}
		// Rows of other keys are there to be inherited from, and not complete.
		if m.keys != nil && !m.keys[keyText(pick(row.Values, m.key))] {
			continue
		}
		out := make([][]byte, 0, m.data+3)
		for _, v := range row.Values[:m.data] {
			out = append(out, bytes.Clone(v))
		}
		if len(m.t.Key) > 0 {
			out = append(out, unresolvedNames(m.columns, row.Unknown))
		}
		out = append(out, []byte(row.Position), bytes.Clone(row.Values[m.data]))
		m.fillDefaults(out, row.Unknown)
		rows[keyText(pick(out, m.currentKey()))] = out
	}
	return rows, nil
}

// folder folds the rows of the touched keys, and tells whether one of them is tied
// to another key, see addRelated.
func (m *localRun) folder(ctx context.Context, reader *sink.ChangelogReader) (folder *sink.Folder, tied bool, err error) {
	// The time of the commit is folded like a column that every change carries.
	folder = sink.FolderOf(m.t, append(slices.Clone(m.columns[:m.data]), m.columns[m.data+1]))
	for passes := 1; passes == 1 || folder.Again(); passes++ {
		for values, err := range m.rows(ctx, m.tasks, m.columns) {
			if err != nil {
				return nil, false, err
			}
			row, err := reader.Row(values)
			if err != nil {
				return nil, false, fmt.Errorf("%w: %w", ErrRefused, err)
			}
			if !m.needs(values, &row) {
				continue
			}
			if m.keys != nil && inherits(&row) && (!m.keys[keyText(row.OldKey)] || !m.keys[keyText(pick(values, m.key))]) {
				return nil, true, nil
			}
			row.Values = append(slices.Clone(values[:m.data]), values[m.data+1])
			folder.Add(row)
		}
	}
	return folder, false, nil
}

// inherits reports whether a row takes columns from the row of another key.
func inherits(row *sink.FoldRow) bool {
	return row.OldKey != nil && row.Operation != cdc.Delete && len(row.Absent) > 0
}

// needs reports whether a row belongs to a key that is folded.
func (m *localRun) needs(values [][]byte, row *sink.FoldRow) bool {
	return m.keys == nil || m.keys[keyText(pick(values, m.key))] || row.OldKey != nil && m.keys[keyText(row.OldKey)]
}

// currentKey are the indexes of the key among the columns of the current table.
func (m *localRun) currentKey() []int {
	if len(m.t.Key) == 0 {
		return []int{m.data}
	}
	return m.key
}

// fillDefaults gives columns that were added later what older rows mean by null.
func (m *localRun) fillDefaults(row [][]byte, unknown []int) {
	for i, c := range m.columns[:m.data] {
		if c.Default != nil && row[i] == nil && !slices.Contains(unknown, i) {
			row[i] = []byte(*c.Default)
		}
	}
}

// compare returns the batch that makes the touched rows of the current table
// the folded ones. Rows that are equal stay.
func (m *localRun) compare(ctx context.Context, current sink.Table, folded map[string][][]byte) (*sink.Batch, error) {
	columns, _ := m.t.Current().LakeColumns()
	all := make([]int, len(columns))
	for i := range columns {
		all[i] = i
	}
	var deletes, inserts [][][]byte
	for row, err := range current.Scan(ctx, all) {
		if err != nil {
			return nil, fmt.Errorf("read current table: %w", err)
		}
		key := pick(row, m.currentKey())
		text := keyText(key)
		if m.keys != nil && !m.keys[text] {
			continue
		}
		want, lives := folded[text]
		if lives && equalRows(want, row) {
			delete(folded, text)
			continue
		}
		for i := range key {
			key[i] = bytes.Clone(key[i])
		}
		deletes = append(deletes, key)
		if !lives {
			m.gone++
		}
	}
	for _, row := range folded {
		inserts = append(inserts, row)
	}
	return &sink.Batch{Deletes: sink.NewRows(deletes...), Inserts: sink.NewRows(inserts...)}, nil
}

func equalRows(a, b [][]byte) bool {
	return slices.EqualFunc(a, b, func(x, y []byte) bool { return bytes.Equal(x, y) && (x == nil) == (y == nil) })
}
