package iceberg

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	lake "icehose/catalog/iceberg"
	"icehose/sink"
)

const (
	// rewriteAttempts is how often a rewrite that another writer came in the way
	// of is planned anew.
	rewriteAttempts = 4
	// rewritePasses bounds the rewrites of one run: each but the first of a
	// partition moves old files to the present, so more of them would be a fault.
	rewritePasses = 10_000
)

// errStale says that files which were to be replaced are gone, or that a delete
// has come which the new files do not reflect.
var errStale = fmt.Errorf("%w while it was compacted", sink.ErrConflict)

// compact rewrites what is due, one commit at a time, until nothing is.
func (k *keeper) compact(ctx context.Context) error {
	conflicts := 0
	for range rewritePasses {
		current, live, err := k.read(ctx)
		if err != nil {
			return err
		}
		due := k.due(live, current)
		if k.m.Plan {
			for _, r := range due {
				k.report.Rewrites = append(k.report.Rewrites, r.summary())
			}
			return nil
		}
		if len(due) == 0 {
			return nil
		}
		for _, r := range due {
			err := k.rewrite(ctx, r)
			if errors.Is(err, sink.ErrConflict) && conflicts < rewriteAttempts {
				conflicts++
				break // plan anew
			}
			if err != nil {
				return err
			}
			k.report.Rewrites = append(k.report.Rewrites, r.summary())
			k.done[r.partition] = k.done[r.partition] || r.why == SmallFiles || r.why == DeadDeletes
		}
	}
	return errors.New("compaction does not come to an end")
}

// due returns the rewrites that the cells of a snapshot need.
func (k *keeper) due(live *liveFiles, current *table.Table) []*rewrite {
	var due []*rewrite
	for _, c := range cells(live, current.Metadata(), k.table) {
		r := c.plan(&k.m)
		if r != nil && (!k.done[c.partition] || r.why == DeletedRows || r.why == OldPartitions) {
			due = append(due, r)
		}
	}
	return due
}

// A rewritten is a rewrite whose files are written and not yet committed.
type rewritten struct {
	*rewrite
	from    *table.Table // that is read, through the guard
	guard   *guard
	id      string
	seq     int64 // of the snapshot that was read
	data    []iceberg.DataFile
	carried []iceberg.DataFile // deletes for what is older than the rewrite
	covers  []iceberg.DataFile // deletes of the rows of replaced files only, for one snapshot
}

// rewrite writes the files of r and commits them. The files of a rewrite that
// certainly did not happen are removed.
func (k *keeper) rewrite(ctx context.Context, r *rewrite) error {
	current, err := k.current(ctx)
	if err != nil {
		return err
	}
	if current.CurrentSnapshot() == nil {
		return errStale
	}
	w := &rewritten{rewrite: r, id: rand.Text(), seq: current.CurrentSnapshot().SequenceNumber}
	if err := k.write(ctx, current, w); err != nil {
		return errors.Join(err, k.discard(ctx, current, w))
	}
	for n := 1; ; n++ {
		err := k.commit(ctx, current, w)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, sink.ErrConflict):
			return k.landed(ctx, w, err)
		case errors.Is(err, errStale) || n == rewriteAttempts:
			return errors.Join(err, k.discard(ctx, current, w))
		}
		// Another writer was faster. What was written is still good, unless the
		// files are no longer there.
		if current, err = k.current(ctx); err != nil {
			return err
		}
	}
}

// landed looks whether a commit of unknown outcome has happened.
func (k *keeper) landed(ctx context.Context, w *rewritten, cause error) error {
	current, err := k.current(context.WithoutCancel(ctx))
	if err != nil {
		return fmt.Errorf("%w (and cannot tell whether it happened: %w)", cause, err)
	}
	for _, s := range current.Metadata().Snapshots() {
		if s.Summary != nil && s.Summary.Properties[maintenanceID] == w.id {
			return nil
		}
	}
	return cause // its files may be of use to nobody, or to a commit that is still on its way: orphans
}

// discard removes the files of a rewrite that no commit names.
func (k *keeper) discard(ctx context.Context, current *table.Table, w *rewritten) error {
	return removeFiles(context.WithoutCancel(ctx), current, slices.Concat(w.data, w.carried, w.covers))
}

// removeFiles removes files that no commit names.
func removeFiles(ctx context.Context, current *table.Table, files []iceberg.DataFile) error {
	storage, err := current.FS(ctx)
	for i := 0; err == nil && i < len(files); i++ {
		if err = storage.Remove(files[i].FilePath()); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("remove files of no use: %w", err)
	}
	return nil
}

// write writes the rows that are left, and the deletes that must go on.
func (k *keeper) write(ctx context.Context, current *table.Table, w *rewritten) error {
	planned := make(map[string]table.FileScanTask)
	var err error
	if w.from, w.guard, err = guarded(ctx, current); err != nil {
		return fmt.Errorf("plan files: %w", err)
	}
	if len(w.rewrite.data) > 0 {
		all, err := lake.Files(ctx, w.from.Scan())
		if err != nil {
			return fmt.Errorf("plan files: %w", w.guard.blame(ctx, err))
		}
		for _, task := range all {
			planned[task.File.FilePath()] = task
		}
	}
	for _, group := range packFiles(w.rewrite.data, k.m.TargetFileSize) {
		if err := k.writeGroup(ctx, current, w, group, planned); err != nil {
			return err
		}
	}
	if !w.fold {
		return nil
	}
	tasks, err := tasksOf(w.rewrite.data, planned)
	if err != nil {
		return err
	}
	return k.writeDeletes(ctx, current, w, tasks)
}

// writeGroup writes the rows that are left of a group of files, as one file
// unless they are of several partitions.
func (k *keeper) writeGroup(ctx context.Context, current *table.Table, w *rewritten, group []liveFile, planned map[string]table.FileScanTask) error {
	tasks, err := tasksOf(group, planned)
	if err != nil {
		return err
	}
	schema, rows, err := w.from.Scan(table.WithMaxConcurrency(1), table.WithArrowBatchSize(batchRows)).ReadTasks(ctx, tasks)
	if err != nil {
		return fmt.Errorf("rewrite data files: %w", w.guard.blame(ctx, err))
	}
	// Small files make less than twice the target together; a large one stays one.
	limit := 2 * k.m.TargetFileSize
	for _, f := range group {
		limit = max(limit, 2*f.file.FileSizeBytes())
	}
	files, err := writeFiles(ctx, current, schema, w.guard.blamed(ctx, rows), table.WithTargetFileSize(limit))
	w.data = append(w.data, files...)
	if err != nil {
		return fmt.Errorf("rewrite data files: %w", err)
	}
	if k.m.Progress != nil {
		var bytes int64
		for _, f := range group {
			bytes += f.file.FileSizeBytes()
		}
		k.m.Progress(len(group), bytes)
	}
	return nil
}

// tasksOf returns how the files are read with the deletes that act on them.
func tasksOf(files []liveFile, planned map[string]table.FileScanTask) ([]table.FileScanTask, error) {
	tasks := make([]table.FileScanTask, 0, len(files))
	for _, f := range files {
		task, ok := planned[f.file.FilePath()]
		if !ok {
			return nil, errStale
		}
		tasks = append(tasks, task)
	}
	return tasks, nil
}

// commit commits a rewrite on top of current.
func (k *keeper) commit(ctx context.Context, current *table.Table, w *rewritten) error {
	if err := w.check(ctx, k, current); err != nil {
		return err
	}
	tx := current.NewTransaction()
	if err := tx.AssertRefSnapshotID(table.MainBranch); err != nil {
		return fmt.Errorf("commit rewrite: %w", err)
	}
	notes := iceberg.Properties{maintenanceID: w.id}
	if isOwn(current) { // the rows are those of this commit of the sink
		notes[sink.PropertyCommit] = current.Properties()[sink.PropertyCommit]
	}
	if w.fold {
		// The new rows and the deletes of the older ones come first, then what
		// they replace goes: two snapshots of the same rows in one commit. The
		// library refuses to replace equality deletes of several commits by one.
		delta := tx.NewRowDelta(notes)
		delta.AddRows(w.data...)
		delta.AddDeletes(w.carried...)
		delta.AddDeletes(w.covers...)
		if err := delta.Commit(ctx); err != nil {
			return fmt.Errorf("commit rewrite: %w", err)
		}
	}
	replace := tx.NewRewrite(notes)
	for _, f := range slices.Concat(w.rewrite.data, w.deletes) {
		replace.DeleteFile(f.file)
	}
	if w.fold {
		for _, f := range w.covers {
			replace.DeleteFile(f)
		}
	} else if len(w.data) > 0 {
		// They reflect the deletes of the snapshot that was read, and no later one.
		replace.DataSequenceNumber(w.seq)
		for _, f := range w.data {
			replace.AddDataFile(f)
		}
	}
	if err := replace.Commit(ctx); err != nil {
		return fmt.Errorf("commit rewrite: %w", err)
	}
	if _, err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("commit rewrite: %w", conflict(err))
	}
	return nil
}

// check reports errStale when the table has changed so that the rewrite no
// longer fits it.
func (w *rewritten) check(ctx context.Context, k *keeper, current *table.Table) error {
	snapshot := current.CurrentSnapshot()
	if snapshot == nil || w.fold && snapshot.SequenceNumber != w.seq {
		return errStale // the new rows would be newer than a delete that has come meanwhile
	}
	live, err := k.live(ctx, current)
	if err != nil {
		return err
	}
	there := make(map[string]bool, len(live.data)+len(live.deletes))
	for _, f := range slices.Concat(live.data, live.deletes) {
		there[f.file.FilePath()] = true
	}
	for _, f := range slices.Concat(w.rewrite.data, w.deletes) {
		if !there[f.file.FilePath()] {
			return errStale
		}
	}
	return nil
}
