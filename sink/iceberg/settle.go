package iceberg

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// errNotForced is wrapped by the error of a commit that names a file which could
// not be forced to the disk. Forcing it again may say that all is well although
// it is not, so what was written for the commit must be written again.
var errNotForced = errors.New("not on the disk")

// settle waits until every file closed so far is on the disk, and refuses a
// commit that names one which is not (errNotForced).
func (d *disk) settle(updates []table.Update) error {
	d.wait()
	d.mu.Lock()
	failed := maps.Clone(d.failed)
	d.mu.Unlock()
	if len(failed) == 0 {
		return nil
	}
	if err := d.named(updates, failed); err != nil {
		return fmt.Errorf("%w: %w", errNotForced, err)
	}
	return nil
}

// named returns an error if updates name one of the files, or may name one.
func (d *disk) named(updates []table.Update, failed map[string]error) error {
	text, err := json.Marshal(updates)
	if err != nil {
		return fmt.Errorf("look for files that failed: %w", err)
	}
	for path, err := range failed { // lists of manifests, and the files that properties name
		if bytes.Contains(text, []byte(filepath.Base(path))) {
			return err
		}
	}
	var added []struct {
		Snapshot *table.Snapshot `json:"snapshot"`
	}
	if err := json.Unmarshal(text, &added); err != nil {
		return fmt.Errorf("look for files that failed: %w", err)
	}
	for _, a := range added {
		if a.Snapshot == nil {
			continue
		}
		if err := d.added(a.Snapshot, failed); err != nil {
			return err
		}
	}
	return nil
}

// added returns an error if a snapshot adds one of the files.
func (d *disk) added(s *table.Snapshot, failed map[string]error) error {
	manifests, err := s.Manifests(d)
	if err != nil {
		return fmt.Errorf("look for files that failed: %w", err)
	}
	for _, m := range manifests {
		if m.SnapshotID() != s.SnapshotID {
			continue
		}
		if err := failure(failed, m.FilePath()); err != nil {
			return err
		}
		var found error
		_, err := readManifest(d, m, func(e iceberg.ManifestEntry) {
			if found == nil {
				found = failure(failed, e.DataFile().FilePath())
			}
		})
		if found != nil {
			return found
		}
		if err != nil {
			return fmt.Errorf("look for files that failed: %w", err)
		}
	}
	return nil
}

// failure returns why the file of that name could not be forced, nil if it could.
func failure(failed map[string]error, name string) error {
	path, err := localPath(name)
	if err != nil {
		return err
	}
	return failed[path]
}

// forced returns an error (errNotForced) if one of the files could not be forced
// to the disk. It waits for none of them.
func (d *disk) forced(names ...string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, name := range names {
		if err := failure(d.failed, name); err != nil {
			return fmt.Errorf("%w: %w", errNotForced, err)
		}
	}
	return nil
}

// settled is forced once every file closed so far has been tried.
func (d *disk) settled(names ...string) error {
	d.wait()
	return d.forced(names...)
}

// paths returns the names of files.
func paths(files ...iceberg.DataFile) []string {
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = f.FilePath()
	}
	return names
}
