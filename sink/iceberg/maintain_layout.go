package iceberg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/iceberg-go"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"

	"icehose/catalog"
	"icehose/sink"
)

// A Layout says of how many pieces a table's current snapshot is made.
type Layout struct {
	DataFiles     int   `json:"data_files"`
	DeleteFiles   int   `json:"delete_files"`
	Manifests     int   `json:"manifests"`
	Snapshots     int   `json:"snapshots"`
	Rows          int64 `json:"rows"`           // in the data files, deleted ones included
	DeleteRecords int64 `json:"delete_records"` // in the delete files
	Bytes         int64 `json:"bytes"`          // of the data files
}

// Layout reads the layout of t.
func (s *Store) Layout(ctx context.Context, t *catalog.Table) (Layout, error) {
	current, err := s.catalog.LoadTable(ctx, identifier(t))
	if err != nil {
		return Layout{}, fmt.Errorf("read layout of %s.%s: %w", t.Database(), t.Name(), oneLine(err))
	}
	return layoutOf(ctx, current)
}

func layoutOf(ctx context.Context, current *table.Table) (Layout, error) {
	live, err := readLive(ctx, current)
	if err != nil {
		return Layout{}, err
	}
	l := Layout{DataFiles: len(live.data), DeleteFiles: len(live.deletes), Manifests: live.manifests, Snapshots: len(current.Metadata().Snapshots())}
	for _, f := range live.data {
		l.Rows += f.file.Count()
		l.Bytes += f.file.FileSizeBytes()
	}
	for _, f := range live.deletes {
		l.DeleteRecords += f.file.Count()
	}
	return l, nil
}

// PlanFiles plans a full scan of t, as every reader does, and returns the
// number of its tasks.
func (s *Store) PlanFiles(ctx context.Context, t *catalog.Table) (int, error) {
	current, err := s.catalog.LoadTable(ctx, identifier(t))
	if err != nil {
		return 0, fmt.Errorf("plan %s.%s: %w", t.Database(), t.Name(), oneLine(err))
	}
	tasks, err := current.Scan().PlanFiles(ctx)
	if err != nil {
		return 0, fmt.Errorf("plan %s.%s: %w", t.Database(), t.Name(), oneLine(err))
	}
	return len(tasks), nil
}

// A liveFile is a file of the current snapshot. Deletes by equality act on rows
// of data files whose sequence number is lower than theirs.
type liveFile struct {
	file iceberg.DataFile
	seq  int64
}

// The liveFiles are all files of a snapshot, each kind by sequence number.
type liveFiles struct {
	data, deletes []liveFile
	manifests     int
	seq           int64 // of the snapshot
}

// readLive reads the manifests of the current snapshot, and reports such as are
// damaged: see readManifest and checkList.
func readLive(ctx context.Context, current *table.Table) (*liveFiles, error) {
	live := &liveFiles{}
	snapshot := current.CurrentSnapshot()
	if snapshot == nil {
		return live, nil
	}
	live.seq = snapshot.SequenceNumber
	fs, err := current.FS(ctx)
	if err != nil {
		return nil, fmt.Errorf("read manifests: %w", err)
	}
	manifests, err := snapshot.Manifests(fs)
	if err != nil {
		return nil, fmt.Errorf("read manifests: %w", err)
	}
	live.manifests = len(manifests)
	for _, m := range manifests {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		_, err := readManifest(fs, m, func(e iceberg.ManifestEntry) {
			f := liveFile{file: e.DataFile(), seq: e.SequenceNum()}
			if f.file.ContentType() == iceberg.EntryContentData {
				live.data = append(live.data, f)
			} else {
				live.deletes = append(live.deletes, f)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	if err := checkList(current, snapshot, len(live.data), len(live.deletes)); err != nil {
		return nil, err
	}
	bySequence := func(a, b liveFile) int {
		return cmp.Or(cmp.Compare(a.seq, b.seq), strings.Compare(a.file.FilePath(), b.file.FilePath()))
	}
	slices.SortFunc(live.data, bySequence)
	slices.SortFunc(live.deletes, bySequence)
	return live, nil
}

// readManifest reads the files of a manifest that are live, and returns how
// many. The library takes the end of a manifest that was cut behind a block for
// its end; the list that names it knows better, unless an engine left the
// numbers out.
func readManifest(fs iceio.IO, m iceberg.ManifestFile, see func(iceberg.ManifestEntry)) (files int, err error) {
	for e, err := range m.Entries(fs, true) {
		if err != nil {
			return 0, fmt.Errorf("read manifest: %w", err)
		}
		files++
		see(e)
	}
	added, existing := m.AddedDataFiles(), m.ExistingDataFiles()
	if want := int(added) + int(existing); added >= 0 && existing >= 0 && files < want {
		return 0, fmt.Errorf("manifest %s is damaged: it has %d of %d files; restore it, or go back to a snapshot without it", m.FilePath(), files, want)
	}
	return files, nil
}

// checkList reports that the manifest list of a snapshot has lost manifests,
// which its summary shows. Other writers' summaries are not relied on.
func checkList(t *table.Table, s *table.Snapshot, data, deletes int) error {
	if !isOurs(t, s) {
		return nil
	}
	for name, files := range map[string]int{"total-data-files": data, "total-delete-files": deletes} {
		// A number is too small, or missing, where an engine before us wrote none.
		if want, err := strconv.Atoi(s.Summary.Properties[name]); err == nil && files < want {
			return fmt.Errorf("manifest list %s is damaged: it names %d files, %s is %d; restore it, or go back to another snapshot", s.ManifestList, files, name, want)
		}
	}
	return nil
}

// isOurs reports whether a sink or maintenance made a snapshot, or manifests of
// such a one were merged.
func isOurs(t *table.Table, s *table.Snapshot) bool {
	for s != nil && s.Summary != nil {
		p := s.Summary.Properties
		if p[sink.PropertyCommit] != "" || p[maintenanceID] != "" {
			return true
		}
		if p["manifests-replaced"] == "" || s.ParentSnapshotID == nil {
			return false
		}
		s = t.SnapshotByID(*s.ParentSnapshotID)
	}
	return false
}

// checkSnapshots reads the manifests of all snapshots, so that no file is taken
// for one that nothing speaks of because a damaged one no longer does. It notes
// in whole how many files those have that are as they should be, and does not
// read them again: no manifest ever changes.
func checkSnapshots(ctx context.Context, current *table.Table, whole map[string]int) error {
	fs, err := current.FS(ctx)
	if err != nil {
		return fmt.Errorf("read manifests: %w", err)
	}
	for _, s := range current.Metadata().Snapshots() {
		manifests, err := s.Manifests(fs)
		if err != nil {
			return fmt.Errorf("read manifests: %w", err)
		}
		data, deletes := 0, 0
		for _, m := range manifests {
			files, read := whole[m.FilePath()]
			if !read {
				if files, err = readManifest(fs, m, func(iceberg.ManifestEntry) {}); err != nil {
					return errors.Join(ctx.Err(), err)
				}
				whole[m.FilePath()] = files
			}
			if m.ManifestContent() == iceberg.ManifestContentData {
				data += files
			} else {
				deletes += files
			}
		}
		if err := errors.Join(ctx.Err(), checkList(current, &s, data, deletes)); err != nil {
			return err
		}
	}
	return nil
}

// summaryFiles reads the number of data and delete files off the newest
// snapshot's summary; 0 where it does not say.
func summaryFiles(current *table.Table) (n int64) {
	snapshot := current.CurrentSnapshot()
	if snapshot == nil || snapshot.Summary == nil {
		return 0
	}
	for _, name := range []string{"total-data-files", "total-delete-files"} {
		if count, err := strconv.ParseInt(snapshot.Summary.Properties[name], 10, 64); err == nil {
			n += count
		}
	}
	return n
}
