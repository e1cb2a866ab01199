package merge

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/apache/iceberg-go"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"

	"icehose/catalog"
	lake "icehose/catalog/iceberg"
	"icehose/internal/canon/canonarrow"
)

// findFiles lists the files of the changelog, and those with rows that are new.
func (p *plan) findFiles(ctx context.Context) error {
	if p.done() {
		return nil
	}
	p.scan = p.log.Scan(table.WithSnapshotID(p.to), table.WithMaxConcurrency(1))
	var err error
	if p.tasks, err = lake.Files(ctx, p.scan); err != nil {
		return fmt.Errorf("list files of the changelog: %w", err)
	}
	if p.from == 0 {
		p.added = p.tasks
		return nil
	}
	before, err := lake.Files(ctx, p.log.Scan(table.WithSnapshotID(p.from)))
	if err != nil {
		return fmt.Errorf("list files of snapshot %d: %w", p.from, err)
	}
	known := make(map[string]bool, len(before))
	for i := range before {
		known[before[i].File.FilePath()] = true
	}
	again, err := p.compacted(ctx, known)
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

// compacted returns the files that compactions since from have written out of
// known files and out of each other. One that has taken in a new file as well has
// written new files: nothing tells whose rows went where. None are returned if
// snapshots in between have expired.
func (p *plan) compacted(ctx context.Context, known map[string]bool) (map[string]bool, error) {
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
	fs, err := p.log.FS(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range slices.Backward(replaced) {
		added, removed, err := changedFiles(fs, s)
		if err != nil {
			return nil, err
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

// changedFiles lists the data files that a snapshot has added and removed.
func changedFiles(fs iceio.IO, s *table.Snapshot) (added, removed []string, err error) {
	manifests, err := s.Manifests(fs)
	if err != nil {
		return nil, nil, err
	}
	for _, m := range manifests {
		if m.SnapshotID() != s.SnapshotID || m.ManifestContent() != iceberg.ManifestContentData {
			continue
		}
		for e, err := range m.Entries(fs, false) {
			if err != nil {
				return nil, nil, err
			}
			switch e.Status() {
			case iceberg.EntryStatusADDED:
				added = append(added, e.DataFile().FilePath())
			case iceberg.EntryStatusDELETED:
				removed = append(removed, e.DataFile().FilePath())
			case iceberg.EntryStatusEXISTING:
			}
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
