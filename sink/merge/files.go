package merge

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"icehose/catalog"
	lake "icehose/catalog/iceberg"
	"icehose/internal/canon/canonarrow"
	"icehose/sink"
)

// findFiles lists the files of the changelog, and those with rows that are new.
// A damaged manifest is an error: what it has lost would pass for merged.
func (p *plan) findFiles(ctx context.Context) error {
	if p.done() {
		return nil
	}
	files, err := newFileLists(ctx, p.log)
	if err != nil {
		return err
	}
	if _, err := files.of(ctx, p.log.Metadata().SnapshotByID(p.to)); err != nil {
		return fmt.Errorf("list files of the changelog: %w", err)
	}
	p.scan = p.log.Scan(table.WithMaxConcurrency(1)) // of the snapshot to, which is the newest
	if p.tasks, err = lake.Files(ctx, p.scan); err != nil {
		return fmt.Errorf("list files of the changelog: %w", err)
	}
	if p.from == 0 {
		p.added = p.tasks
		return nil
	}
	known, err := files.of(ctx, p.log.Metadata().SnapshotByID(p.from))
	if err != nil {
		return fmt.Errorf("list files of snapshot %d: %w", p.from, err)
	}
	again, err := p.compacted(files, known)
	if err != nil {
		return fmt.Errorf("list files that compaction wrote: %w", err)
	}
	for i := range p.tasks {
		switch path := p.tasks[i].File.FilePath(); {
		case again[path]:
			p.rewritten = append(p.rewritten, path)
		case !known[path]:
			p.added = append(p.added, p.tasks[i])
		}
	}
	return nil
}

// fileLists reads the data files of snapshots, each manifest once.
type fileLists struct {
	*lake.Lists
	read map[string][]string // by manifest: its live data files
}

func newFileLists(ctx context.Context, log *table.Table) (*fileLists, error) {
	lists, err := lake.NewLists(ctx, log, func(s *table.Snapshot) bool { return s.Summary.Properties[sink.PropertyCommit] != "" })
	if err != nil {
		return nil, err
	}
	return &fileLists{Lists: lists, read: make(map[string][]string)}, nil
}

// of returns the data files of a snapshot, and checks its delete files' manifests
// as well.
func (l *fileLists) of(ctx context.Context, s *table.Snapshot) (map[string]bool, error) {
	manifests, err := l.Whole(s)
	if err != nil {
		return nil, err
	}
	all := make(map[string]bool)
	for _, m := range manifests {
		files, ok := l.read[m.FilePath()]
		if !ok {
			_, err := lake.ReadManifest(l.FS(), m, false, func(e iceberg.ManifestEntry) {
				if m.ManifestContent() == iceberg.ManifestContentData {
					files = append(files, e.DataFile().FilePath())
				}
			})
			if err = errors.Join(ctx.Err(), err); err != nil {
				return nil, err
			}
			l.read[m.FilePath()] = files
		}
		for _, path := range files {
			all[path] = true
		}
	}
	return all, nil
}

// checkCurrent reads the manifests of the current table. A row that a damaged one
// hides would be inserted beside the one that is there.
func (p *plan) checkCurrent(ctx context.Context) error {
	if p.current == nil || p.current.CurrentSnapshot() == nil {
		return nil
	}
	files, err := newFileLists(ctx, p.current)
	if err == nil {
		_, err = files.of(ctx, p.current.CurrentSnapshot())
	}
	if err != nil {
		return fmt.Errorf("list files of the current table: %w", err)
	}
	return nil
}

// compacted returns the files that compactions since from have written out of
// known files and out of each other. One that has taken in a new file as well has
// written new files: nothing tells whose rows went where. None are returned if
// snapshots in between have expired.
func (p *plan) compacted(files *fileLists, known map[string]bool) (map[string]bool, error) {
	var replaced []*table.Snapshot
	at := p.log.Metadata().SnapshotByID(p.to)
	for ; at != nil && at.SnapshotID != p.from; at = p.parent(at) {
		if at.Summary != nil && at.Summary.Operation == table.OpReplace {
			replaced = append(replaced, at)
		}
	}
	out := make(map[string]bool)
	if at == nil || len(replaced) == 0 {
		return out, nil
	}
	for _, s := range slices.Backward(replaced) {
		added, removed, err := files.changed(s)
		if err != nil {
			return nil, err
		}
		if int64(len(removed)) < summaryCount(s, "deleted-data-files") {
			continue // its list has lost some
		}
		if slices.ContainsFunc(removed, func(path string) bool { return !known[path] && !out[path] }) {
			continue
		}
		for _, path := range added {
			out[path] = true
		}
	}
	return out, nil
}

// parent returns the snapshot of the changelog before another, nil if there is
// none or it has expired.
func (p *plan) parent(s *table.Snapshot) *table.Snapshot {
	if s.ParentSnapshotID == nil {
		return nil
	}
	return p.log.Metadata().SnapshotByID(*s.ParentSnapshotID)
}

// changed lists the data files that a snapshot has added and removed.
func (l *fileLists) changed(s *table.Snapshot) (added, removed []string, err error) {
	manifests, err := l.Of(s)
	if err != nil {
		return nil, nil, err
	}
	for _, m := range manifests {
		if m.SnapshotID() != s.SnapshotID || m.ManifestContent() != iceberg.ManifestContentData {
			continue
		}
		_, err := lake.ReadManifest(l.FS(), m, true, func(e iceberg.ManifestEntry) {
			switch e.Status() {
			case iceberg.EntryStatusADDED:
				added = append(added, e.DataFile().FilePath())
			case iceberg.EntryStatusDELETED:
				removed = append(removed, e.DataFile().FilePath())
			case iceberg.EntryStatusEXISTING:
			}
		})
		if err != nil {
			return nil, nil, err
		}
	}
	return added, removed, nil
}

// rows yields the canonical texts of columns of the changelog's rows in files,
// nil for null, valid until the next row.
func (p *plan) rows(ctx context.Context, tasks []table.FileScanTask, columns []catalog.Column) iter.Seq2[[][]byte, error] {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.Name
	}
	return func(yield func([][]byte, error) bool) {
		// With the columns that the table has now: a snapshot that is named is read
		// with those that it had when it was made.
		scan := p.log.Scan(table.WithMaxConcurrency(1), table.WithSelectedFields(names...))
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
