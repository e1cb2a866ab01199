package iceberg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	iceio "github.com/apache/iceberg-go/io"
)

// A disk is the local file system whose files are on the disk before a catalog
// can name them: iceberg-go's own leaves them in the system's cache. A file is
// forced when it is closed, and its folder after it, since a file without an
// entry is lost as well.
type disk struct {
	iceio.LocalFS
	sync func(*os.File) error
}

var (
	_ iceio.WriteFileIO = (*disk)(nil)
	_ iceio.ReadFileIO  = (*disk)(nil)
	_ iceio.ListableIO  = (*disk)(nil)
)

// A diskKey is the key of a context's *disk.
type diskKey struct{}

// useDisk lets the library write through the disk that a call's context holds.
// It must replace the scheme: the SQL catalog opens the file system of a
// table's metadata file by its scheme alone, and writes the file right before
// the row that names it. Without a disk in the context nothing changes.
//
//nolint:gochecknoglobals // guards a registry that the library has once for a process
var useDisk = sync.OnceFunc(func() {
	const scheme = "file"
	iceio.Unregister(scheme)
	iceio.Register(scheme, func(ctx context.Context, _ *url.URL, _ map[string]string) (iceio.IO, error) {
		if d, ok := ctx.Value(diskKey{}).(*disk); ok {
			return d, nil
		}
		return iceio.LocalFS{}, nil
	})
})

// with returns a context in which the library writes through d.
func (d *disk) with(ctx context.Context) context.Context { return context.WithValue(ctx, diskKey{}, d) }

// isLocal reports whether a location is on the local file system.
func isLocal(location string) bool {
	return strings.HasPrefix(location, "file:") || !strings.Contains(location, "://")
}

// replaceFile gives a file another content in one step: whoever reads it, and
// after a crash, sees the one or the other.
func (d *disk) replaceFile(name string, content []byte) error {
	path, err := localPath(name)
	if err != nil {
		return err
	}
	if err := d.WriteFile(path+".new", content); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	return d.syncFolder(filepath.Dir(path))
}

// localPath returns the path of a file URI that this package made.
func localPath(name string) (string, error) {
	if !strings.HasPrefix(name, "file:") {
		return name, nil
	}
	u, err := url.Parse(name)
	if err != nil {
		return "", fmt.Errorf("locate %s: %w", name, err)
	}
	return filepath.FromSlash(u.Path), nil
}

// Create implements io.WriteFileIO.
func (d *disk) Create(name string) (iceio.FileWriter, error) {
	path, err := localPath(name)
	if err != nil {
		return nil, err
	}
	if err := d.makeFolder(filepath.Dir(path)); err != nil {
		return nil, err
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return &diskFile{File: f, disk: d}, nil
}

// WriteFile implements io.WriteFileIO.
func (d *disk) WriteFile(name string, content []byte) error {
	f, err := d.Create(name)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}

// makeFolder makes a folder and forces what names it.
func (d *disk) makeFolder(path string) error {
	var above []string // folders that get an entry
	for at := path; ; at = filepath.Dir(at) {
		if _, err := os.Stat(at); !errors.Is(err, os.ErrNotExist) {
			break // it is there, or MkdirAll will say what is wrong
		}
		above = append(above, filepath.Dir(at))
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	for _, folder := range above {
		if err := d.syncFolder(folder); err != nil {
			return err
		}
	}
	return nil
}

func (d *disk) syncFolder(path string) error {
	if runtime.GOOS == "windows" {
		return nil // a folder cannot be forced there; NTFS logs its entries
	}
	folder, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	if err := errors.Join(d.sync(folder), folder.Close()); err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	return nil
}

// A diskFile is a file that is being written.
type diskFile struct {
	*os.File
	disk  *disk
	once  sync.Once
	ended error
}

// ReadFrom implements io.ReaderFrom.
func (f *diskFile) ReadFrom(r io.Reader) (int64, error) { return f.File.ReadFrom(r) }

// Close forces the file to the disk, and its folder, and closes it. The
// library may call it twice: the second time it says what it said the first.
func (f *diskFile) Close() error {
	f.once.Do(func() {
		err := f.disk.sync(f.File)
		if err != nil {
			err = fmt.Errorf("sync file: %w", err)
		}
		if f.ended = errors.Join(err, f.File.Close()); f.ended == nil {
			f.ended = f.disk.syncFolder(filepath.Dir(f.Name()))
		}
	})
	return f.ended
}
