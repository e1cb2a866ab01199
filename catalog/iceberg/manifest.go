package iceberg

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/apache/iceberg-go"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
)

// ErrDamaged is wrapped when a manifest, or a list of them, has lost entries. A
// file that was cut behind a block reads like a shorter one.
var ErrDamaged = errors.New("is damaged")

// ReadManifest shows the entries of a manifest, with deleted those of removed
// files too, and returns how many files in it are live. It reports one that has
// fewer entries than the list which names it says (ErrDamaged), unless an engine
// left the numbers out.
func ReadManifest(fs iceio.IO, m iceberg.ManifestFile, deleted bool, see func(iceberg.ManifestEntry)) (live int, err error) {
	removed := 0
	for e, err := range m.Entries(fs, !deleted) {
		if err != nil {
			return 0, fmt.Errorf("read manifest %s: %w", m.FilePath(), err)
		}
		if e.Status() == iceberg.EntryStatusDELETED {
			removed++
		} else {
			live++
		}
		see(e)
	}
	if want := liveFiles(m); live < want {
		return 0, lostEntries(m, live, want)
	}
	if want := int(m.DeletedDataFiles()); deleted && removed < want {
		return 0, lostEntries(m, live+removed, max(0, liveFiles(m))+want)
	}
	return live, nil
}

func lostEntries(m iceberg.ManifestFile, files, want int) error {
	return fmt.Errorf("manifest %s %w: it has %d of %d files; restore it, or go back to a snapshot without it", m.FilePath(), ErrDamaged, files, want)
}

// liveFiles is how many live files a manifest has, as its list says; -1 if that
// does not say.
func liveFiles(m iceberg.ManifestFile) int {
	added, existing := m.AddedDataFiles(), m.ExistingDataFiles()
	if added < 0 || existing < 0 {
		return -1
	}
	return int(added) + int(existing)
}

// Lists reads the manifest lists of a table's snapshots, each once.
type Lists struct {
	table *table.Table
	fs    iceio.IO
	// ours tells the snapshots whose totals are counted on from those of the
	// snapshot before, as this program does.
	ours    func(*table.Snapshot) bool
	read    map[int64][]iceberg.ManifestFile
	counted map[string]int64 // live files, by manifest, where a list does not say
}

// NewLists returns the lists of t. With ours nil Check reports nothing.
func NewLists(ctx context.Context, t *table.Table, ours func(*table.Snapshot) bool) (*Lists, error) {
	fs, err := t.FS(ctx)
	if err != nil {
		return nil, fmt.Errorf("read manifests: %w", err)
	}
	return &Lists{table: t, fs: fs, ours: ours, read: make(map[int64][]iceberg.ManifestFile), counted: make(map[string]int64)}, nil
}

// FS is where the manifests lie.
func (l *Lists) FS() iceio.IO { return l.fs }

// Of returns the manifests of a snapshot.
func (l *Lists) Of(s *table.Snapshot) ([]iceberg.ManifestFile, error) {
	manifests, ok := l.read[s.SnapshotID]
	if ok {
		return manifests, nil
	}
	manifests, err := l.readList(s)
	if err != nil {
		return nil, err
	}
	l.read[s.SnapshotID] = manifests
	return manifests, nil
}

// totals are the numbers in a summary that tell how many files its list names.
func totals() [2]string { return [2]string{"total-data-files", "total-delete-files"} }

// Whole returns the manifests that the list of a snapshot names, if it has lost
// none (Check).
func (l *Lists) Whole(s *table.Snapshot) ([]iceberg.ManifestFile, error) {
	manifests, err := l.Of(s)
	if err == nil {
		err = l.Check(s)
	}
	if err != nil {
		return nil, err
	}
	return manifests, nil
}

// Check reports that the list of a snapshot has lost manifests (ErrDamaged): it
// names fewer files than the totals in the snapshot's summary say. Those of our
// snapshots are relied on as far as they follow from what the snapshots before
// them show: where another engine wrote too high a total, ours after it are too
// high by as much. Another engine's are where they are those before it with what
// it says to have changed.
func (l *Lists) Check(s *table.Snapshot) error {
	if l.ours == nil {
		return nil
	}
	for i, name := range totals() {
		lost, err := l.excess(s, i)
		if err != nil {
			return err
		}
		if lost <= 0 {
			continue
		}
		at, err := l.origin(s, i, lost)
		if err != nil || at == nil {
			return err
		}
		if lost, err = l.excess(at, i); err != nil {
			return err
		}
		want, _ := SummaryCount(at, name)
		return fmt.Errorf("manifest list %s %w: it names %d files, %s is %d; restore it, or go back to another snapshot", at.ManifestList, ErrDamaged, want-lost, name, want)
	}
	return nil
}

// origin returns the snapshot, s or one before it, whose list has lost files; nil
// if what s lacks is due to a total that another engine wrote, or was so before
// all snapshots that there are.
func (l *Lists) origin(s *table.Snapshot, i int, lost int64) (*table.Snapshot, error) {
	for at := s; ; {
		if at.ParentSnapshotID == nil {
			if l.isOurs(at) {
				return at, nil
			}
			return nil, nil
		}
		parent := l.table.SnapshotByID(*at.ParentSnapshotID)
		if parent == nil {
			return l.first(s, at, i, lost)
		}
		before, err := l.excess(parent, i)
		if err != nil {
			return nil, err
		}
		if before < lost {
			if l.isOurs(at) || counts(parent, at, i) {
				return at, nil
			}
			return nil, nil
		}
		at = parent
	}
}

// first decides on the first snapshot of a line whose beginning has expired. One
// after it that lacks as many files shows that the total was so before: expiry
// checks the lists of what stays.
func (l *Lists) first(s, first *table.Snapshot, i int, lost int64) (*table.Snapshot, error) {
	if first != s || !l.isOurs(first) {
		return nil, nil
	}
	for _, next := range l.table.Metadata().Snapshots() {
		if next.ParentSnapshotID == nil || *next.ParentSnapshotID != s.SnapshotID || !l.isOurs(&next) {
			continue
		}
		if after, err := l.excess(&next, i); err != nil || after >= lost {
			return nil, err
		}
	}
	return s, nil
}

// excess is by how much a total of a snapshot exceeds the files that its list
// names; less than 0 where it has none.
func (l *Lists) excess(s *table.Snapshot, i int) (int64, error) {
	n, ok := SummaryCount(s, totals()[i])
	if !ok {
		return -1, nil
	}
	files, err := l.named(s)
	return n - files[i], err
}

// counts reports whether a total of a snapshot is that of the one before it with
// what the snapshot says to have added and removed.
func counts(before, s *table.Snapshot, i int) bool {
	from, known := SummaryCount(before, totals()[i])
	to, _ := SummaryCount(s, totals()[i])
	added, removed := changes(s, i)
	return known && to == from+added-removed
}

// SummaryCount reads a number off a snapshot's summary, and reports whether it is
// there. It is too small, or missing, where an engine before us wrote none.
func SummaryCount(s *table.Snapshot, name string) (int64, bool) {
	if s.Summary == nil {
		return 0, false
	}
	n, err := strconv.ParseInt(s.Summary.Properties[name], 10, 64)
	return n, err == nil
}

// isOurs reports whether a snapshot is ours, or manifests of such a one were merged.
func (l *Lists) isOurs(s *table.Snapshot) bool {
	for l.ours != nil && s != nil && s.Summary != nil {
		if l.ours(s) {
			return true
		}
		if s.Summary.Properties["manifests-replaced"] == "" || s.ParentSnapshotID == nil {
			return false
		}
		s = l.table.SnapshotByID(*s.ParentSnapshotID)
	}
	return false
}
