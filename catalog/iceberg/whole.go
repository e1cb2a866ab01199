package iceberg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/apache/iceberg-go"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
)

// A Base is a snapshot that is whole, for the commits on top of it: a list of
// manifests is made from the one before, so what that has lost is lost for good.
type Base struct {
	// SnapshotID is 0 before the first snapshot.
	SnapshotID int64
	list       string   // where its list of manifests lies
	files      [2]int64 // that the list names: data files, delete files
	counted    map[string]int64
}

// Base checks a snapshot that others are to be made on top of: its list
// (Check), and that none of its manifests is shorter than the list says.
func (l *Lists) Base(ctx context.Context, s *table.Snapshot) (Base, error) {
	manifests, err := l.Whole(s)
	if err == nil {
		err = l.checkSizes(ctx, manifests)
	}
	if err != nil {
		return Base{}, err
	}
	return l.base(s)
}

func (l *Lists) base(s *table.Snapshot) (Base, error) {
	files, err := l.named(s)
	return Base{SnapshotID: s.SnapshotID, list: s.ManifestList, files: files, counted: l.counted}, err
}

// Next checks the list of a snapshot that was made on top of b, before a catalog
// hears of it: it must name what the list before it named, and what the
// snapshot's own summary says to have added and removed. That holds whatever the
// totals in the summaries are.
func (l *Lists) Next(b Base, s *table.Snapshot) (Base, error) {
	if b.counted != nil {
		l.counted = b.counted
	}
	next, err := l.base(s)
	if err != nil {
		return Base{}, err
	}
	for i := range next.files {
		added, removed := changes(s, i)
		want := b.files[i] + added - removed
		if next.files[i] >= want {
			continue
		}
		at := b.list
		if at == "" {
			at = s.ManifestList
		}
		return Base{}, fmt.Errorf("manifest list %s %w: with what is committed on top of it there are %d of %d files; restore it and try again", at, ErrDamaged, next.files[i], want)
	}
	return next, nil
}

// openBeside is how many manifests are opened at a time to see how long they are.
const openBeside = 8

// checkSizes reports a manifest that is gone, or has lost its end.
func (l *Lists) checkSizes(ctx context.Context, manifests []iceberg.ManifestFile) error {
	errs := make([]error, len(manifests))
	var wait sync.WaitGroup
	slots := make(chan struct{}, openBeside)
	for i, m := range manifests {
		if errs[i] = ctx.Err(); errs[i] != nil {
			break
		}
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			f, err := l.OpenManifest(m)
			if err == nil {
				err = f.Close()
			}
			errs[i] = err
		})
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return err // one is enough to say
		}
	}
	return nil
}

// OpenManifest opens a manifest, and reports one that has lost its end
// (ErrDamaged): it is shorter than the list says, and not because that is wrong.
func (l *Lists) OpenManifest(m iceberg.ManifestFile) (iceio.File, error) {
	f, err := l.fs.Open(m.FilePath())
	if err != nil {
		return nil, fmt.Errorf("read manifest %s: %w", m.FilePath(), err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read manifest %s: %w", m.FilePath(), err), f.Close())
	}
	if size := info.Size(); size < m.Length() {
		if err := l.shorter(m, size); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	return f, nil
}

// shorter tells of a manifest that is too short; nil if it has all its files.
func (l *Lists) shorter(m iceberg.ManifestFile, size int64) error {
	_, err := ReadManifest(l.fs, m, false, func(iceberg.ManifestEntry) {})
	switch {
	case errors.Is(err, ErrDamaged), err == nil && liveFiles(m) >= 0:
		return err
	}
	return fmt.Errorf("manifest %s %w: it has %d of %d bytes; restore it, or go back to a snapshot without it", m.FilePath(), ErrDamaged, size, m.Length())
}

// readList reads the list of a snapshot.
func (l *Lists) readList(s *table.Snapshot) ([]iceberg.ManifestFile, error) {
	if s.ManifestList == "" { // of the first version of the format
		manifests, err := s.Manifests(l.fs)
		if err != nil {
			return nil, fmt.Errorf("read manifests: %w", err)
		}
		return manifests, nil
	}
	f, err := l.fs.Open(s.ManifestList)
	if err != nil {
		return nil, fmt.Errorf("read manifest list %s: %w", s.ManifestList, err)
	}
	content, err := io.ReadAll(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("read manifest list %s: %w", s.ManifestList, err)
	}
	manifests, err := iceberg.ReadManifestList(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("manifest list %s %w: %w; restore it, or go back to another snapshot", s.ManifestList, ErrDamaged, err)
	}
	return manifests, nil
}

// named counts the data files and the delete files that the list of a snapshot
// names. A manifest whose number an engine left out is read, once.
func (l *Lists) named(s *table.Snapshot) (files [2]int64, err error) {
	manifests, err := l.Of(s)
	if err != nil {
		return files, err
	}
	for _, m := range manifests {
		n := int64(liveFiles(m))
		if known, ok := l.counted[m.FilePath()]; n < 0 && ok {
			n = known
		} else if n < 0 {
			live, err := ReadManifest(l.fs, m, false, func(iceberg.ManifestEntry) {})
			if err != nil {
				return files, err
			}
			n = int64(live)
			l.counted[m.FilePath()] = n
		}
		files[kindOf(m)] += n
	}
	return files, nil
}

// kindOf is 0 for a manifest of data files, 1 for one of delete files.
func kindOf(m iceberg.ManifestFile) int {
	return slices.Index([]iceberg.ManifestContent{iceberg.ManifestContentData, iceberg.ManifestContentDeletes}, m.ManifestContent())
}

// changes returns how many files a snapshot says to have added and removed.
func changes(s *table.Snapshot, i int) (added, removed int64) {
	names := [2][2]string{{"added-data-files", "deleted-data-files"}, {"added-delete-files", "removed-delete-files"}}[i]
	added, _ = SummaryCount(s, names[0])
	removed, _ = SummaryCount(s, names[1])
	return added, removed
}
