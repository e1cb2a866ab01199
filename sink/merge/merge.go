// Package merge keeps the current table of a changelog: the rows that the fold
// of the changelog gives, brought up to date from what is new in it.
//
// In come the lake tables of a changelog and of its current rows
// (catalog.Table.Current); out go commits of the current table. Every run folds
// the keys that new files speak of anew, over the whole changelog, so that it
// may be repeated, and rows may arrive in any order. How far it has read is noted
// with the rows: in the same commit where the engine can (Local, Spark), just
// after it otherwise (Athena), which only makes the next run do work again.
//
// Three engines do the work: Local, in this process, with memory for the keys
// that are touched; Spark, by a script that reads the notes itself; Athena, by
// statements sent through the AWS SDK. Their notes are the same, so that one can
// go on where another has stopped.
//
// Nothing here shrinks a table: see artifact.Retention and the sink's
// maintenance. A rollback of the current table to an older snapshot is not
// noticed: Options.Rebuild puts it right.
package merge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	icecatalog "github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"

	"icehose/catalog"
	lake "icehose/catalog/iceberg"
	"icehose/cdc"
	"icehose/internal/canon"
	"icehose/internal/canon/canonarrow"
	"icehose/sink"
)

// The notes of a merge: properties of the current table, and of the summary of
// the snapshot that a merge made.
const (
	PropertyMerged   = sink.PropertyPrefix + "merged-snapshot" // of the changelog: everything up to it is merged; 0: the first merge has begun
	PropertyPosition = sink.PropertyPrefix + "merged-position" // the greatest position merged
	PropertyKind     = sink.PropertyPrefix + "position-kind"   // of the positions merged
	PropertyKey      = sink.PropertyPrefix + "merged-key"      // the key columns by which was merged, with commas
)

// PropertyColumns notes the columns and the defaults by which was merged, as
// columnsNote gives them. When they have changed, every key is folded anew.
const PropertyColumns = sink.PropertyPrefix + "merged-columns"

// Tag is the tag that a merge leaves on the snapshot of the changelog up to
// which it has read, so that expiry keeps the list of its files for the next
// run, for as long as tagAge.
const Tag = "icehose_merged"

// tagAge is when a tag that no merge renews expires, in milliseconds: 30 days.
const tagAge = 30 * 24 * 60 * 60 * 1000

// ErrRefused is wrapped when a merge cannot know what is right. Nothing was
// changed, and the text says what to do.
var ErrRefused = errors.New("refused")

// Options are the settings of a run.
type Options struct {
	// Rebuild folds every key, whatever is noted, and removes rows that the
	// changelog does not have. A run does so by itself when the table has other
	// columns or defaults than before.
	Rebuild bool
}

// A Result says what a run did to one table.
type Result struct {
	Table   string `json:"table"`   // database.table of the changelog
	Current string `json:"current"` // database.table of the current table
	From    int64  `json:"from"`    // snapshot of the changelog up to which was read before; 0 for none
	To      int64  `json:"to"`      // and now
	Read    int64  `json:"read"`    // rows of the changelog that are new since From
	Changed int64  `json:"changed"` // rows of the current table inserted or updated
	Deleted int64  `json:"deleted"` // rows of the current table deleted
	// Late counts rows read that lie at or below a position merged before.
	Late int64 `json:"late"`
	// Scanned is how many bytes Athena says it has read.
	Scanned int64 `json:"scanned_bytes,omitempty"`
}

// A plan is what a run starts from.
type plan struct {
	t            *catalog.Table
	log, current *table.Table // current is nil if there is none yet
	from, to     int64        // snapshots of the changelog, 0 for none
	expected     int64        // newest snapshot of the current table, 0 for none
	noted        bool         // there is a note
	position     string       // greatest position merged before
	rebuild      bool
	missing      []catalog.Column // that the current table has not yet
	scan         *table.Scan      // of the changelog at to
	tasks        []table.FileScanTask
	added        []table.FileScanTask // those of files that from has not
}

// newPlan reads the notes and finds what is new.
func newPlan(ctx context.Context, tables lake.Tables, t *catalog.Table, o Options) (*plan, error) {
	p := &plan{t: t, rebuild: o.Rebuild}
	var err error
	if p.log, err = tables.LoadTable(ctx, icecatalog.ToIdentifier(t.Database(), t.Name())); err != nil {
		return nil, fmt.Errorf("load changelog: %w", err)
	}
	if err := checkColumns(p.log, t); err != nil {
		return nil, err
	}
	current := t.Current()
	p.current, err = tables.LoadTable(ctx, icecatalog.ToIdentifier(current.Database(), current.Name()))
	if err != nil && !errors.Is(err, icecatalog.ErrNoSuchTable) && !errors.Is(err, icecatalog.ErrNoSuchNamespace) {
		return nil, fmt.Errorf("load current table: %w", err)
	}
	if err != nil {
		p.current = nil
	}
	if head := p.log.CurrentSnapshot(); head != nil {
		p.to = head.SnapshotID
	}
	if err := p.readNotes(); err != nil {
		return nil, err
	}
	return p, p.findFiles(ctx)
}

// checkColumns refuses a changelog that has not the columns that a fold needs.
func checkColumns(log *table.Table, t *catalog.Table) error {
	columns, _ := t.LakeColumns()
	for _, c := range columns {
		if _, ok := log.Schema().FindFieldByName(c.Name); !ok {
			return fmt.Errorf("%w: the changelog has no column %s: icehose catalog apply adds it, or the table is no changelog", ErrRefused, c.Name)
		}
	}
	return nil
}

// readNotes finds out how far the current table is.
func (p *plan) readNotes() error {
	if p.current == nil {
		return nil
	}
	newest := p.current.CurrentSnapshot()
	if newest != nil {
		p.expected = newest.SnapshotID
	}
	properties := p.current.Properties()
	if noted, ok := properties[PropertyKey]; ok && noted != keyNote(p.t) {
		return fmt.Errorf("%w: the current table was merged by the key (%s), the pipeline file says (%s): drop %s, and the next icehose merge makes it anew",
			ErrRefused, noted, keyNote(p.t), p.result().Current)
	}
	columns, _ := p.t.Current().LakeColumns()
	for _, c := range columns {
		if _, ok := p.current.Schema().FindFieldByName(c.Name); !ok {
			p.missing = append(p.missing, c)
		}
	}
	if p.rebuild {
		return nil
	}
	p.position = properties[PropertyPosition]
	kind := p.t.Position.String()
	if noted := properties[PropertyKind]; noted != "" && noted != kind {
		return fmt.Errorf("%w: the positions merged so far are of kind %s, the pipeline file says %s, and the two do not compare: put the change of kind into epochs: of the pipeline file, then, once a change of the new epoch is there, icehose merge --rebuild",
			ErrRefused, noted, kind)
	}
	marker, err := p.marker(properties)
	if err != nil {
		return err
	}
	if !p.noted && hasRows(newest) {
		return fmt.Errorf("%w: the current table has rows, and no note of how far it was merged: was it filled by something else, or restored? icehose merge --rebuild folds everything anew", ErrRefused)
	}
	if marker != 0 && p.log.Metadata().SnapshotByID(marker) == nil {
		return fmt.Errorf("%w: snapshot %d of the changelog, up to which was merged, has expired: icehose merge --rebuild folds everything anew; merge more often than snapshots expire", ErrRefused, marker)
	}
	p.from = marker
	// A run that was killed before it noted the columns may have had others.
	if len(p.missing) > 0 || p.noted && properties[PropertyColumns] != columnsNote(p.t) {
		p.from, p.position, p.rebuild = 0, "", true
	}
	return nil
}

// checkKind refuses changes whose position is not of the table's kind, unless a
// later epoch has begun: stranger is the greatest of them, highest the greatest
// position of all that is new, each "" for none.
func (p *plan) checkKind(stranger, highest string) error {
	newest := max(p.position, highest)
	if stranger == "" || cdc.Position(stranger).Epoch() < cdc.Position(newest).Epoch() {
		return nil
	}
	return fmt.Errorf("%w: the changelog has changes with two kinds of position: %s is none of kind %s, which the pipeline file says, and the two do not compare: "+
		"delete the changes of the other kind, or give the newer ones an epoch (epochs: in the pipeline file) and deliver them again, then icehose merge --rebuild; "+
		"where an epoch has been given, wait for its first change",
		ErrRefused, stranger, p.t.Position)
}

// hasRows reports whether a snapshot may have rows: Trino begins a table with
// one that has none.
func hasRows(s *table.Snapshot) bool {
	return s != nil && summaryCount(s, "total-records") != 0
}

// marker returns the furthest snapshot of the changelog that is noted, 0 for
// none: in the properties, or in the summary of a snapshot of the current table.
// Each note was true when it was made, and rows are never taken back.
func (p *plan) marker(properties map[string]string) (int64, error) {
	var best, bestSequence int64
	consider := func(text string) error {
		if text == "" {
			return nil
		}
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return fmt.Errorf("%w: property %s of the current table is not a snapshot: icehose merge --rebuild", ErrRefused, PropertyMerged)
		}
		p.noted = true
		if id == 0 {
			return nil
		}
		sequence := int64(-1) // expired
		if s := p.log.Metadata().SnapshotByID(id); s != nil {
			sequence = s.SequenceNumber
		}
		if best == 0 || sequence > bestSequence {
			best, bestSequence = id, sequence
		}
		return nil
	}
	if err := consider(properties[PropertyMerged]); err != nil {
		return 0, err
	}
	for s := p.current.CurrentSnapshot(); s != nil; {
		if s.Summary != nil {
			if err := consider(s.Summary.Properties[PropertyMerged]); err != nil {
				return 0, err
			}
		}
		if s.ParentSnapshotID == nil {
			break
		}
		s = p.current.Metadata().SnapshotByID(*s.ParentSnapshotID)
	}
	return best, nil
}

// done reports that nothing is new.
func (p *plan) done() bool { return p.to == 0 || p.to == p.from && !p.rebuild }

// findFiles lists the files of the changelog, and those that are new. Files that
// compaction wrote are new as well: their keys are folded once more for nothing.
func (p *plan) findFiles(ctx context.Context) error {
	if p.done() {
		return nil
	}
	p.scan = p.log.Scan(table.WithSnapshotID(p.to), table.WithMaxConcurrency(1))
	var err error
	if p.tasks, err = p.scan.PlanFiles(ctx); err != nil {
		return fmt.Errorf("list files of the changelog: %w", err)
	}
	if p.from == 0 {
		p.added = p.tasks
		return nil
	}
	before, err := p.log.Scan(table.WithSnapshotID(p.from)).PlanFiles(ctx)
	if err != nil {
		return fmt.Errorf("list files of snapshot %d: %w", p.from, err)
	}
	known := make(map[string]bool, len(before))
	for i := range before {
		known[before[i].File.FilePath()] = true
	}
	for i := range p.tasks {
		if !known[p.tasks[i].File.FilePath()] {
			p.added = append(p.added, p.tasks[i])
		}
	}
	return nil
}

func (p *plan) result() *Result {
	name := func(t *catalog.Table) string { return t.Database() + "." + t.Name() }
	return &Result{Table: name(p.t), Current: name(p.t.Current()), From: p.from, To: p.to}
}

// rows yields the canonical texts of columns of the changelog's rows in files,
// nil for null, valid until the next row.
func (p *plan) rows(ctx context.Context, tasks []table.FileScanTask, columns []catalog.Column) iter.Seq2[[][]byte, error] {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.Name
	}
	return func(yield func([][]byte, error) bool) {
		scan := p.log.Scan(table.WithSnapshotID(p.to), table.WithMaxConcurrency(1), table.WithSelectedFields(names...))
		_, batches, err := scan.ReadTasks(ctx, tasks)
		if err != nil {
			yield(nil, fmt.Errorf("read changelog: %w", err))
			return
		}
		reader := canonarrow.NewRowReader(columns)
		for batch, err := range batches {
			if err != nil {
				yield(nil, fmt.Errorf("read changelog: %w", err))
				return
			}
			if !yieldRows(reader.Rows(batch), yield) {
				return
			}
		}
	}
}

func yieldRows(rows iter.Seq2[[][]byte, error], yield func([][]byte, error) bool) bool {
	for row, err := range rows {
		if err != nil {
			err = fmt.Errorf("read changelog: %w", err)
		}
		if !yield(row, err) || err != nil {
			return false
		}
	}
	return true
}

// A committer is a catalog that takes changes of a table's metadata.
type committer interface {
	CommitTable(ctx context.Context, id table.Identifier, requirements []table.Requirement, updates []table.Update) (table.Metadata, string, error)
}

// tag keeps the snapshot that was merged from expiring. That it could not be
// set is no reason to say that the merge failed.
func (p *plan) tag(ctx context.Context, tables lake.Tables) error {
	c, ok := tables.(committer)
	if !ok {
		return nil
	}
	update := table.NewSetSnapshotRefUpdate(Tag, p.to, table.TagRef, tagAge, 0, 0)
	if _, _, err := c.CommitTable(ctx, p.log.Identifier(), nil, []table.Update{update}); err != nil {
		return fmt.Errorf("tag snapshot %d of the changelog: %w", p.to, err)
	}
	return nil
}

// notes are the properties after a run that has read up to a snapshot and a
// position.
func (p *plan) notes(merged int64, highest string) map[string]string {
	return map[string]string{
		PropertyMerged: strconv.FormatInt(merged, 10), PropertyPosition: max(p.position, highest), PropertyKind: p.t.Position.String(),
		PropertyKey: keyNote(p.t), PropertyColumns: columnsNote(p.t),
	}
}

// keyNote is a table's key as the note has it.
func keyNote(t *catalog.Table) string { return strings.Join(t.Key, ",") }

// columnsNote is a digest of a table's columns and their defaults.
func columnsNote(t *catalog.Table) string {
	columns, data := t.LakeColumns()
	digest := sha256.New()
	for _, c := range columns[:data] {
		var fill []byte
		if c.Default != nil {
			fill = []byte(*c.Default)
		}
		digest.Write(canon.AppendField(canon.AppendField(nil, []byte(c.Name)), fill))
	}
	return hex.EncodeToString(digest.Sum(nil))
}

// failed names the table in an error.
func failed(t *catalog.Table, err error) error {
	return fmt.Errorf("merge %s.%s: %w", t.Database(), t.Name(), err)
}

// unresolvedNames lists columns as the current table does.
func unresolvedNames(columns []catalog.Column, unknown []int) []byte {
	names := make([]string, 0, len(unknown))
	for _, i := range slices.Sorted(slices.Values(unknown)) {
		names = append(names, columns[i].Name)
	}
	if len(names) == 0 {
		return nil
	}
	return []byte(strings.Join(names, ","))
}
