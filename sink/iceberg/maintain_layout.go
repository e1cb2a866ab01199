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
	lake "icehose/catalog/iceberg"
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
	return live.layout(current), nil
}

func (live *liveFiles) layout(current *table.Table) Layout {
	l := Layout{DataFiles: len(live.data), DeleteFiles: len(live.deletes), Manifests: live.manifests, Snapshots: len(current.Metadata().Snapshots())}
	for _, f := range live.data {
		l.Rows += f.file.Count()
		l.Bytes += f.file.FileSizeBytes()
	}
	for _, f := range live.deletes {
		l.DeleteRecords += f.file.Count()
	}
	return l
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
// damaged: see lake.ReadManifest and lake.Lists.
func readLive(ctx context.Context, current *table.Table) (*liveFiles, error) {
	live := &liveFiles{}
	snapshot := current.CurrentSnapshot()
	if snapshot == nil {
		return live, nil
	}
	live.seq = snapshot.SequenceNumber
	lists, err := lake.NewLists(ctx, current, isOurs)
	if err != nil {
		return nil, err
	}
	manifests, err := lists.Of(snapshot)
	if err != nil {
		return nil, err
	}
	live.manifests = len(manifests)
	for _, m := range manifests {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		_, err := readManifest(lists.FS(), m, func(e iceberg.ManifestEntry) {
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
	if err := lists.Check(snapshot); err != nil {
		return nil, err
	}
	bySequence := func(a, b liveFile) int {
		return cmp.Or(cmp.Compare(a.seq, b.seq), strings.Compare(a.file.FilePath(), b.file.FilePath()))
	}
	slices.SortFunc(live.data, bySequence)
	slices.SortFunc(live.deletes, bySequence)
	return live, nil
}

// readManifest reads the files of a manifest that are live, and returns how many.
func readManifest(fs iceio.IO, m iceberg.ManifestFile, see func(iceberg.ManifestEntry)) (files int, err error) {
	return lake.ReadManifest(fs, m, false, see)
}

// isOurs reports whether a sink, a merge or maintenance made a snapshot.
func isOurs(s *table.Snapshot) bool {
	return s.Summary.Properties[sink.PropertyCommit] != "" || s.Summary.Properties[maintenanceID] != ""
}

// checkSnapshots reads the manifests of all snapshots, so that no file is taken
// for one that nothing speaks of because a damaged one no longer does. It notes
// in whole those that are as they should be, and does not read them again: no
// manifest ever changes.
func checkSnapshots(ctx context.Context, current *table.Table, whole map[string]bool) error {
	lists, err := lake.NewLists(ctx, current, isOurs)
	if err != nil {
		return err
	}
	for _, s := range current.Metadata().Snapshots() {
		manifests, err := lists.Of(&s)
		if err != nil {
			return err
		}
		for _, m := range manifests {
			if whole[m.FilePath()] {
				continue
			}
			if _, err := readManifest(lists.FS(), m, func(iceberg.ManifestEntry) {}); err != nil {
				return errors.Join(ctx.Err(), err)
			}
			whole[m.FilePath()] = true
		}
		if err := errors.Join(ctx.Err(), lists.Check(&s)); err != nil {
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
