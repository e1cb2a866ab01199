package iceberg

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// checkCopied refuses a table of a lake in a folder that was copied or moved:
// Iceberg's metadata has whole paths, so the table's files are still those of
// the original, which the copy's lock does not guard. Such a table lies outside
// the folder although the folder has one in the same place. The folder may have
// several names.
func checkCopied(folder, location string) error {
	if folder == "" || !isLocal(location) {
		return nil
	}
	path, err := localPath(location)
	if err != nil {
		return err
	}
	place := filepath.Join(filepath.Base(filepath.Dir(path)), filepath.Base(path)) // database/table
	here := filepath.Join(folder, warehouse, place)
	own, err := os.Stat(here)
	if here == path || err != nil {
		return nil //nolint:nilerr // the folder has no such table
	}
	if there, err := os.Stat(path); err == nil && os.SameFile(own, there) {
		return nil
	}
	return fmt.Errorf("the lake in %s was copied or moved: the files of its table %s are in %s, so a writer would change those; use the lake where it was made, or fill a new one", folder, filepath.ToSlash(place), path)
}

// checkMoved says of a table whose metadata is nowhere, although the folder has
// such a table, that the folder was moved.
func checkMoved(folder string, id []string, err error) error {
	if folder == "" || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, missing := os.Stat(filepath.Join(append([]string{folder, warehouse}, id...)...)); missing != nil {
		return err
	}
	return fmt.Errorf("%w (a lake knows its files by whole paths: was %s moved? use it where it was made)", err, folder)
}
