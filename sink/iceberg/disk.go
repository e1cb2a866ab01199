package iceberg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	iceio "github.com/apache/iceberg-go/io"
)

// A disk is the local file system whose files are on the disk before a catalog
// can name them: iceberg-go's own leaves them in the system's cache. Once a file
// is closed it is forced, and its folder after it, since a file without an entry
// is lost as well. That happens beside what is written next; settle waits for
// it. Only a table's metadata file, which a catalog names right after, is on the
// disk when Close returns.
type disk struct {
	iceio.LocalFS
	sync  func(*os.File) error
	slots chan struct{} // bounds the files that are closed and not forced yet; nil lets Close force each

	mu      sync.Mutex
	pending map[*diskFile]struct{}
	failed  map[string]error // by path: files that could not be forced
}

func newDisk(o *Options) *disk {
	d := &disk{sync: o.Sync, pending: make(map[*diskFile]struct{}), failed: make(map[string]error)}
	if !o.SyncAtOnce {
		d.slots = make(chan struct{}, forcedBeside)
	}
	return d
}

// forcedBeside is how many files are forced at a time.
const forcedBeside = 8

// wait waits until every file closed so far is on the disk, or cannot be.
func (d *disk) wait() {
	d.mu.Lock()
	pending := slices.Collect(maps.Keys(d.pending))
	d.mu.Unlock()
	for _, f := range pending {
		<-f.forced
	}
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
	f, err := d.create(path + ".new")
	if err != nil {
		return err
	}
	f.now = true
	_, err = f.Write(content)
	if err := errors.Join(err, f.Close()); err != nil {
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
func (d *disk) Create(name string) (iceio.FileWriter, error) { return d.create(name) }

func (d *disk) create(name string) (*diskFile, error) {
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
	d.mu.Lock()
	delete(d.failed, path) // it gets another content
	d.mu.Unlock()
	return &diskFile{File: f, disk: d, now: strings.HasSuffix(path, ".metadata.json"), forced: make(chan struct{})}, nil
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

func (d *disk) syncFolder(path string) error { return ForceFolder(path, d.sync) }

// ForceFolder forces the entries of a folder to the disk: a file that is new is
// lost without its own.
func ForceFolder(path string, sync func(*os.File) error) error {
	if runtime.GOOS == "windows" {
		return nil // a folder cannot be forced there; NTFS logs its entries
	}
	folder, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	if err := errors.Join(sync(folder), folder.Close()); err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	return nil
}

// A diskFile is a file that is being written.
type diskFile struct {
	*os.File
	disk   *disk
	now    bool // Close waits until it is forced
	once   sync.Once
	ended  error
	forced chan struct{} // closed then
}

// ReadFrom implements io.ReaderFrom.
func (f *diskFile) ReadFrom(r io.Reader) (int64, error) { return f.File.ReadFrom(r) }

// Close ends the file: it and its folder are forced to the disk, now or beside
// what comes next. The library may call it twice: the second time it says what
// it said the first.
func (f *diskFile) Close() error {
	f.once.Do(func() {
		d := f.disk
		if f.now || d.slots == nil {
			f.ended = f.force()
			return
		}
		d.slots <- struct{}{}
		d.mu.Lock()
		d.pending[f] = struct{}{}
		d.mu.Unlock()
		go func() {
			err := f.force()
			d.mu.Lock()
			delete(d.pending, f)
			if err != nil {
				d.failed[f.Name()] = err
			}
			d.mu.Unlock()
			close(f.forced)
			<-d.slots
		}()
	})
	return f.ended
}

// force forces the file to the disk, closes it, and forces its folder.
func (f *diskFile) force() error {
	err := f.disk.sync(f.File)
	if err != nil {
		err = fmt.Errorf("sync file: %w", err)
	}
	if err = errors.Join(err, f.File.Close()); err != nil {
		return err
	}
	return f.disk.syncFolder(filepath.Dir(f.Name()))
}
