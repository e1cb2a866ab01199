package iceberg

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"

	"github.com/apache/iceberg-go"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"

	lake "icehose/catalog/iceberg"
)

// unneeded returns the files of the snapshots that current has and left has not,
// but for those that left needs: lists, manifests, what these name, and
// statistics.
//
// The lists of all that stays are checked, and its manifests where they decide
// whether a file goes; where nothing was rewritten that is none. Of a snapshot
// that goes and cannot be read, or is damaged, less is found, which leaves
// orphans, nothing worse.
func unneeded(ctx context.Context, current, left *table.Table) ([]string, error) {
	lists, err := lake.NewLists(ctx, current, isOurs)
	if err != nil {
		return nil, err
	}
	stay := statisticsOf(left)
	var kept []iceberg.ManifestFile
	for _, s := range left.Metadata().Snapshots() {
		manifests, err := lists.Whole(&s)
		if err = errors.Join(ctx.Err(), err); err != nil {
			return nil, err
		}
		stay[s.ManifestList] = true
		for _, m := range manifests {
			if !stay[m.FilePath()] {
				stay[m.FilePath()] = true
				kept = append(kept, m)
			}
		}
	}
	goes, files, err := going(ctx, lists, current, left, stay)
	if err != nil {
		return nil, err
	}
	for _, m := range kept {
		if len(files) == 0 {
			break
		}
		if _, err := readManifest(lists.FS(), m, func(e iceberg.ManifestEntry) { delete(files, e.DataFile().FilePath()) }); err != nil {
			return nil, errors.Join(ctx.Err(), err)
		}
	}
	for file := range statisticsOf(current) {
		if !stay[file] {
			goes[file] = true
		}
	}
	maps.Copy(goes, files)
	delete(goes, "")
	return slices.Collect(maps.Keys(goes)), nil
}

// going returns the lists and manifests that go with the snapshots that current
// has and left has not, and the files that these manifests name, as far as they
// can be read.
func going(ctx context.Context, lists *lake.Lists, current, left *table.Table, stay map[string]bool) (goes, files map[string]bool, err error) {
	goes, files = make(map[string]bool), make(map[string]bool)
	for _, s := range current.Metadata().Snapshots() {
		if left.SnapshotByID(s.SnapshotID) != nil {
			continue
		}
		if !stay[s.ManifestList] {
			goes[s.ManifestList] = true
		}
		manifests, _ := lists.Of(&s)
		for _, m := range manifests {
			if stay[m.FilePath()] || goes[m.FilePath()] {
				continue
			}
			goes[m.FilePath()] = true
			_, _ = readManifest(lists.FS(), m, func(e iceberg.ManifestEntry) { files[e.DataFile().FilePath()] = true })
		}
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
	}
	return goes, files, nil
}

// statisticsOf returns the files with statistics that a table names.
func statisticsOf(t *table.Table) map[string]bool {
	files := make(map[string]bool)
	for f := range t.Metadata().Statistics() {
		files[f.StatisticsPath] = true
	}
	for f := range t.Metadata().PartitionStatistics() {
		files[f.StatisticsPath] = true
	}
	return files
}

// removeUnneeded removes files, at once where the storage can. One that is gone
// already is no error.
func removeUnneeded(ctx context.Context, t *table.Table, files []string) error {
	storage, err := t.FS(ctx)
	if err != nil {
		return err
	}
	if bulk, ok := storage.(iceio.BulkRemovableIO); ok {
		done, err := bulk.DeleteFiles(ctx, files)
		if err == nil {
			return nil
		}
		removed := make(map[string]bool, len(done))
		for _, file := range done {
			removed[file] = true
		}
		files = slices.DeleteFunc(files, func(file string) bool { return removed[file] })
	}
	var failed error
	for _, file := range files {
		if err := storage.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}
