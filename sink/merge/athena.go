package merge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	icecatalog "github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"

	"icehose/catalog"
	"icehose/catalog/artifact"
	lake "icehose/catalog/iceberg"
	"icehose/sink"
)

// Queries runs statements of Athena's dialect. Package sink/merge/athena
// implements it.
type Queries interface {
	// Query runs a statement to its end. An error that wraps sink.ErrConflict
	// says that it has changed nothing because somebody else had.
	Query(ctx context.Context, statement string) (*QueryResult, error)
}

// A QueryResult is what a statement gave.
type QueryResult struct {
	Rows    [][]string // texts; "" for null
	Updated int64      // rows that a MERGE inserted, updated or deleted
	Scanned int64      // bytes read
}

// maxFileList bounds the list of files in one statement, in bytes: Athena takes
// 262,144 for a whole statement, and the list is in it twice.
const maxFileList = 64 << 10

// Athena merges what is new in the changelog t into its current table by
// statements of Athena, and reads and writes the notes through the catalog of
// the same tables. The statement and the note are two commits: a run that was
// killed between them is repeated by the next one, which changes nothing more.
//
// New files are named in the statements, so that only they are read for what is
// new; where they are more than fit, all files are named that are not. New
// current tables lie below the warehouse, a URI.
func Athena(ctx context.Context, queries Queries, l *lake.Lake, t *catalog.Table, o Options) (*Result, error) {
	m, err := artifact.NewMerge(artifact.Athena, t)
	if err != nil {
		return nil, failed(t, fmt.Errorf("%w: %w", ErrRefused, err))
	}
	run := &athenaRun{queries: queries, tables: l.Tables, merge: m, create: artifact.CreateCurrent(artifact.Athena, t, l.Location)}
	for n := 1; ; n++ {
		result, err := run.run(ctx, t, o)
		if err == nil {
			return result, nil
		}
		if !errors.Is(err, sink.ErrConflict) || n == attempts {
			return nil, failed(t, err)
		}
	}
}

// An athenaRun is the work on one table.
type athenaRun struct {
	queries Queries
	tables  lake.Tables
	merge   *artifact.Merge
	create  string
	result  *Result
}

func (r *athenaRun) run(ctx context.Context, t *catalog.Table, o Options) (*Result, error) {
	p, err := settledPlan(ctx, r.tables, t, o)
	if err != nil {
		return nil, err
	}
	if p.current == nil {
		if _, err := r.query(ctx, r.create); err != nil {
			return nil, fmt.Errorf("create current table: %w", err)
		}
		if p, err = newPlan(ctx, r.tables, t, o); err != nil {
			return nil, err
		}
		if p.current == nil {
			return nil, errors.New("create current table: Athena has created it in another catalog than the one given")
		}
	}
	r.result = p.result()
	if p.done() {
		p.tag(ctx, r.tables, r.result)
		return r.result, nil
	}
	for _, c := range p.missing {
		if err := r.add(ctx, t, c); err != nil {
			return nil, fmt.Errorf("add column %s to the current table: %w", c.Name, err)
		}
	}
	// Without it a first run that is killed would leave rows without a note. With
	// it a rebuild that is killed would look like one that has ended.
	if !p.noted && !hasRows(p.current.CurrentSnapshot()) {
		if err := r.note(ctx, p, 0, ""); err != nil {
			return nil, err
		}
	}
	highest, err := r.applyAll(ctx, p, addedRelations(p, maxFileList))
	if err != nil {
		return nil, err
	}
	if err := r.note(ctx, p, p.to, highest); err != nil {
		return nil, fmt.Errorf("%w: the rows are merged; the next run merges the same files again, which changes nothing", err)
	}
	p.tag(ctx, r.tables, r.result)
	return r.result, nil
}

// add adds a column to the current table. That another run was first is a
// conflict.
func (r *athenaRun) add(ctx context.Context, t *catalog.Table, c catalog.Column) error {
	_, err := r.query(ctx, artifact.AddToCurrent(artifact.Athena, t, c))
	if err == nil {
		return nil
	}
	current := t.Current()
	if loaded, failure := r.tables.LoadTable(ctx, icecatalog.ToIdentifier(current.Database(), current.Name())); failure == nil {
		if _, ok := loaded.Schema().FindFieldByName(c.Name); ok {
			return fmt.Errorf("%w: %w", sink.ErrConflict, err)
		}
	}
	return err
}

// query adds to what was scanned.
func (r *athenaRun) query(ctx context.Context, statement string) (*QueryResult, error) {
	result, err := r.queries.Query(ctx, statement)
	if err == nil && r.result != nil {
		r.result.Scanned += result.Scanned
	}
	return result, err
}

// addedRelations returns the new rows of the changelog: of a first merge in as
// many relations as it has parts, else in one with at most size bytes of file
// names, or none if there are no new rows.
func addedRelations(p *plan, size int) []string {
	to := strconv.FormatInt(p.to, 10)
	switch {
	case p.from == 0 && p.rebuild: // each statement would remove what is in no other
		return artifact.Parts(p.t, p.asOf(), 1)
	case p.from == 0:
		return artifact.Parts(p.t, p.asOf(), p.parts)
	case len(p.added) == 0:
		return nil
	}
	added := p.addedPaths()
	if listFits(added, size) {
		return []string{artifact.AddedFiles(p.t, to, added)}
	}
	rewritten := p.rewritten
	if !listFits(rewritten, size) {
		rewritten = nil // which are then read again, for nothing
	}
	return []string{artifact.AddedBut(p.t, strconv.FormatInt(p.from, 10), to, rewritten)}
}

// addedPaths are the files with rows that are new.
func (p *plan) addedPaths() []string {
	added := make([]string, len(p.added))
	for i := range p.added {
		added[i] = p.added[i].File.FilePath()
	}
	return added
}

// listFits reports whether the names of files have at most size bytes in a statement.
func listFits(files []string, size int) bool {
	used := 0
	for _, path := range files {
		used += len(path) + 4
	}
	return used <= size
}

// notSplit is what to do where Options.Parts has no effect.
func (p *plan) notSplit() string {
	return "--parts does not split a rebuild, which this run is: drop " + p.result().Current + " and merge"
}

// applyAll merges the rows of relations, one after the other. It counts what all
// of them have at once: what is wrong with the changelog is found before any row
// is merged, and no part is judged without the others. highest is the greatest
// position.
func (r *athenaRun) applyAll(ctx context.Context, p *plan, relations []string) (highest string, err error) {
	if len(relations) == 0 {
		return "", nil
	}
	all := relations[0]
	if len(relations) > 1 {
		all = p.asOf()
	}
	values := artifact.MergeRange{Added: all, Position: p.position, Change: p.change.position, Time: p.change.seconds}
	if highest, err = r.count(ctx, p, values.Fill(r.merge.Read)); err != nil {
		return "", err
	}
	whole := p.rebuild && p.parts > 1
	if whole {
		r.result.Warnings = append(r.result.Warnings, p.notSplit())
	}
	for _, added := range relations {
		if err := r.apply(ctx, p, added); err != nil {
			if whole {
				err = fmt.Errorf("%w: %s", err, p.notSplit())
			}
			return "", err
		}
	}
	return highest, nil
}

// apply merges the rows of one relation.
func (r *athenaRun) apply(ctx context.Context, p *plan, added string) error {
	expected := ""
	if p.expected != 0 {
		expected = strconv.FormatInt(p.expected, 10)
	}
	values := artifact.MergeRange{
		Added: added, Log: p.asOf(),
		Fence: artifact.Fence(artifact.Athena, p.t, expected), Rebuild: p.rebuild,
	}
	values.Changes = "(\n" + values.Fill(r.merge.Changes) + "\n)"
	done, err := r.query(ctx, values.Fill(r.merge.Apply))
	if err != nil {
		return fmt.Errorf("merge: %w", err)
	}
	return r.see(ctx, p, done.Updated, values.Fill(r.merge.Count))
}

// count reads what is new.
func (r *athenaRun) count(ctx context.Context, p *plan, statement string) (highest string, err error) {
	counted, err := r.query(ctx, statement)
	if err != nil {
		return "", fmt.Errorf("count new rows: %w", err)
	}
	if len(counted.Rows) != 1 || len(counted.Rows[0]) != 9 {
		return "", errors.New("count new rows: want one row of nine columns")
	}
	row := counted.Rows[0]
	read, late, malformed, below, err := row[0], row[1], row[3], row[8], error(nil)
	number := func(text string) (n int64) {
		if text != "" { // null
			var failure error
			n, failure = strconv.ParseInt(text, 10, 64)
			err = errors.Join(err, failure)
		}
		return n
	}
	strange, seen, latest := number(malformed), newest{row[5], number(row[6])}, number(row[7])
	r.result.Read += number(read)
	r.result.Late += number(late)
	p.saw(seen, latest, number(below), r.result)
	if err != nil {
		return "", fmt.Errorf("count new rows: %w", err)
	}
	if strange > 0 {
		return "", fmt.Errorf("%w: %d rows of the changelog have a %s that is no position: remove them, or name the right table", ErrRefused, strange, catalog.ColumnPosition)
	}
	return row[2], p.checkKind(row[4], row[2])
}

// see looks at what a MERGE left: the snapshot that it made, or none if there
// was nothing to change, since Athena makes no empty ones. Anything else may be
// somebody else's, and the fence may have kept the statement from its work; or
// Athena has not said how many rows it has changed. Then count, a query, tells
// whether anything is left to do; it does not tell what a newer run has done, so
// anything else that has happened is a conflict.
func (r *athenaRun) see(ctx context.Context, p *plan, updated int64, count string) error {
	current := p.t.Current()
	loaded, err := r.tables.LoadTable(ctx, icecatalog.ToIdentifier(current.Database(), current.Name()))
	if err != nil {
		return fmt.Errorf("load current table: %w", err)
	}
	head := loaded.CurrentSnapshot()
	var id, parent int64
	if head != nil {
		id = head.SnapshotID
		if head.ParentSnapshotID != nil {
			parent = *head.ParentSnapshotID
		}
	}
	ours := id != p.expected && parent == p.expected && updated > 0
	switch {
	case id == p.expected && updated == 0:
		return nil
	case !ours:
		left, err := r.left(ctx, count)
		if err != nil {
			return err
		}
		if left > 0 || id != p.expected && parent != p.expected || loaded.Properties()[PropertyMerged] != p.property {
			return fmt.Errorf("%w while it was merged", sink.ErrConflict)
		}
		p.expected = id
		r.result.Warnings = append(r.result.Warnings, "the rows are merged, but Athena did not tell how many were changed and deleted")
		return nil
	}
	p.expected = id
	written := summaryCount(head, "added-records")
	if written < 0 { // the engine tells only the sum
		r.result.Changed += updated
		return nil
	}
	r.result.Changed += written
	r.result.Deleted += max(0, updated-written)
	return nil
}

// left counts the rows that a MERGE would change still.
func (r *athenaRun) left(ctx context.Context, count string) (int64, error) {
	counted, err := r.query(ctx, count)
	if err != nil {
		return 0, fmt.Errorf("count what is left to merge: %w", err)
	}
	var total int64
	for _, row := range counted.Rows {
		for _, text := range row {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("count what is left to merge: %w", err)
			}
			total += n
		}
	}
	return total, nil
}

// summaryCount reads a number off a snapshot's summary, -1 if it is not there.
func summaryCount(s *table.Snapshot, name string) int64 {
	if n, ok := lake.SummaryCount(s, name); ok {
		return n
	}
	return -1
}

// note commits how far was merged: a snapshot of the changelog and a position.
// Where another run has noted something meanwhile it is a conflict: that run may
// have come further.
func (r *athenaRun) note(ctx context.Context, p *plan, merged int64, highest string) error {
	current := p.t.Current()
	for n := 1; ; n++ {
		loaded, err := r.tables.LoadTable(ctx, icecatalog.ToIdentifier(current.Database(), current.Name()))
		if err != nil {
			return fmt.Errorf("note how far was merged: %w", err)
		}
		if loaded.Properties()[PropertyMerged] != p.property {
			return fmt.Errorf("note how far was merged: %w: another run has noted how far it came", sink.ErrConflict)
		}
		tx := loaded.NewTransaction()
		if err := tx.SetProperties(p.notes(merged, highest)); err != nil {
			return fmt.Errorf("note how far was merged: %w", err)
		}
		if _, err = tx.Commit(ctx); err == nil {
			p.property = strconv.FormatInt(merged, 10)
			return nil
		}
		if !errors.Is(err, table.ErrCommitFailed) || n == attempts {
			return fmt.Errorf("note how far was merged: %w", err)
		}
	}
}

// IsConflict reports whether the text of an engine's error says that a commit
// was refused because the table had changed.
func IsConflict(text string) bool {
	return slices.ContainsFunc([]string{"ICEBERG_COMMIT_ERROR", "ICEBERG_CONFLICT", "CommitFailedException", "ValidationException", "Found conflicting files", "Failed to commit"},
		func(word string) bool { return strings.Contains(text, word) })
}
