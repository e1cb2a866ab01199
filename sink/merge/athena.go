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
// new; more than fit into one statement are merged by several, one after the
// other. New current tables lie below the warehouse, a URI.
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
	p, err := newPlan(ctx, r.tables, t, o)
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
	highest := ""
	for _, added := range addedRelations(p, maxFileList) {
		seen, err := r.apply(ctx, p, added)
		if err != nil {
			return nil, err
		}
		highest = max(highest, seen)
	}
	if err := r.note(ctx, p, p.to, highest); err != nil {
		return nil, fmt.Errorf("%w: the rows are merged; the next run merges the same files again, which changes nothing", err)
	}
	return r.result, p.tag(ctx, r.tables)
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

// addedRelations returns the new rows of the changelog as relations, each with
// at most size bytes of file names, or one.
func addedRelations(p *plan, size int) []string {
	to := strconv.FormatInt(p.to, 10)
	if p.from == 0 {
		return []string{artifact.AsOfSnapshot(artifact.Athena, p.t, to)}
	}
	var out, files []string
	used := 0
	for i := range p.added {
		path := p.added[i].File.FilePath()
		if len(files) > 0 && used+len(path) > size {
			out, files, used = append(out, artifact.AddedFiles(p.t, to, files)), nil, 0
		}
		files, used = append(files, path), used+len(path)+4
	}
	if len(files) > 0 {
		out = append(out, artifact.AddedFiles(p.t, to, files))
	}
	return out
}

// apply merges the rows of one relation; highest is their greatest position.
func (r *athenaRun) apply(ctx context.Context, p *plan, added string) (highest string, err error) {
	expected := ""
	if p.expected != 0 {
		expected = strconv.FormatInt(p.expected, 10)
	}
	values := artifact.MergeRange{
		Added: added, Log: artifact.AsOfSnapshot(artifact.Athena, p.t, strconv.FormatInt(p.to, 10)),
		Fence: artifact.Fence(artifact.Athena, p.t, expected), Position: p.position, Rebuild: p.rebuild,
	}
	highest, err = r.count(ctx, p, values.Fill(r.merge.Read))
	if err != nil {
		return "", err
	}
	values.Changes = "(\n" + values.Fill(r.merge.Changes) + "\n)"
	done, err := r.query(ctx, values.Fill(r.merge.Apply))
	if err != nil {
		return "", fmt.Errorf("merge: %w", err)
	}
	return highest, r.see(ctx, p, done.Updated)
}

// count reads what is new.
func (r *athenaRun) count(ctx context.Context, p *plan, statement string) (highest string, err error) {
	counted, err := r.query(ctx, statement)
	if err != nil {
		return "", fmt.Errorf("count new rows: %w", err)
	}
	if len(counted.Rows) != 1 || len(counted.Rows[0]) != 5 {
		return "", errors.New("count new rows: want one row of five columns")
	}
	row := counted.Rows[0]
	var numbers [3]int64
	for i, at := range []int{0, 1, 3} {
		if numbers[i], err = strconv.ParseInt(row[at], 10, 64); err != nil {
			return "", fmt.Errorf("count new rows: column %d is not a number", at+1)
		}
	}
	if malformed := numbers[2]; malformed > 0 {
		return "", fmt.Errorf("%w: %d rows of the changelog have a %s that is no position: remove them, or name the right table", ErrRefused, malformed, catalog.ColumnPosition)
	}
	r.result.Read += numbers[0]
	r.result.Late += numbers[1]
	return row[2], p.checkKind(row[4], row[2])
}

// see looks at what a MERGE left: the snapshot that it made, or none if there
// was nothing to change, since Athena makes no empty ones. Anything else is
// somebody else's, and the fence may have kept the statement from its work.
func (r *athenaRun) see(ctx context.Context, p *plan, updated int64) error {
	current := p.t.Current()
	loaded, err := r.tables.LoadTable(ctx, icecatalog.ToIdentifier(current.Database(), current.Name()))
	if err != nil {
		return fmt.Errorf("load current table: %w", err)
	}
	newest := loaded.CurrentSnapshot()
	var id, parent int64
	if newest != nil {
		id = newest.SnapshotID
		if newest.ParentSnapshotID != nil {
			parent = *newest.ParentSnapshotID
		}
	}
	if id == p.expected && updated == 0 {
		return nil
	}
	if updated == 0 || parent != p.expected || id == p.expected {
		return fmt.Errorf("%w while it was merged", sink.ErrConflict)
	}
	p.expected = id
	written := summaryCount(newest, "added-records")
	if written < 0 { // the engine tells only the sum
		r.result.Changed += updated
		return nil
	}
	r.result.Changed += written
	r.result.Deleted += max(0, updated-written)
	return nil
}

func summaryCount(s *table.Snapshot, name string) int64 {
	if s.Summary == nil {
		return -1
	}
	n, err := strconv.ParseInt(s.Summary.Properties[name], 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// note commits how far was merged: a snapshot of the changelog and a position.
func (r *athenaRun) note(ctx context.Context, p *plan, merged int64, highest string) error {
	current := p.t.Current()
	for n := 1; ; n++ {
		loaded, err := r.tables.LoadTable(ctx, icecatalog.ToIdentifier(current.Database(), current.Name()))
		if err != nil {
			return fmt.Errorf("note how far was merged: %w", err)
		}
		tx := loaded.NewTransaction()
		if err := tx.SetProperties(p.notes(merged, highest)); err != nil {
			return fmt.Errorf("note how far was merged: %w", err)
		}
		if _, err = tx.Commit(ctx); err == nil {
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
