// Package iceberg is a lake of Apache Iceberg tables: in one folder of the local
// file system (Open), in a SQLite catalog and any storage (OpenSQLite), or
// behind a catalog that is a server (OpenLake).
//
// In come the batches of package sink; out go Iceberg v2 tables, each batch
// one atomic commit: Parquet data files for the rows, and for the keys whose
// earlier rows go, equality delete files or data files written anew
// (catalog.Table.DeleteFormat), with the sink's notes as table properties.
// Columns and partitions that the definition gained come in the commit of the
// first rows. Readers get Arrow batches of one snapshot (Store.Scan).
//
// A SQLite catalog has one writer at a time, which a lock enforces, or any
// number of readers. Behind a server nothing is locked: a second sink is
// noticed by the sink's own notes (sink.ErrFenced).
//
// On the local file system a commit survives a killed process and a power cut:
// every file that it names is forced to the disk, and the folder it is in,
// before the catalog names it, and so is the catalog (Options.Sync). Open
// replaces, for the process, what iceberg-go does with the schemes file, s3 and
// s3a; other users of the library notice nothing.
//
// The tables hold absolute paths, so a folder cannot be moved.
package iceberg

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/apache/iceberg-go"
	icecatalog "github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"

	"icehose/catalog"
	lake "icehose/catalog/iceberg"
	"icehose/sink"
)

// Options are the settings of a Store.
type Options struct {
	// ReadOnly opens an existing lake for reading.
	ReadOnly bool
	// Beside takes no lock. It reads beside a writer: every snapshot is whole,
	// but a scan fails when the writer expires its snapshot meanwhile. Without
	// ReadOnly it may write tables that no sink writes, through Store.Tables.
	Beside bool
	// Sync forces a file or a folder that was written to the disk; default
	// File.Sync. A lake that nobody will miss can do without: with a Sync that
	// is given, a SQLite catalog is not forced to the disk either.
	Sync func(*os.File) error
	// SyncAtOnce lets files be forced to the disk when they are closed, one after
	// the other, and not beside what is written next. A Sync that writes to the lake
	// itself needs it: a commit waits for all files that are being forced.
	SyncAtOnce bool
	// Parquet holds table properties that the sink's data files are written
	// with where the table does not say otherwise; default DefaultParquet().
	// They do not become properties of the table.
	Parquet map[string]string
	// Warehouse is the URI below which OpenSQLite creates tables, as
	// database/table; default the folder warehouse beside the catalog.
	Warehouse string
	// Properties are given to the storage of OpenSQLite in iceberg-go's words,
	// such as s3.endpoint.
	Properties map[string]string
	// LockWait is how long opening a SQLite catalog, and each statement to it,
	// waits for another process that has it locked; default 10 s.
	LockWait time.Duration
	// Retention says which snapshots stay when commits expire old ones.
	Retention Retention
	// Log receives what maintenance did; default none.
	Log *slog.Logger
}

func (o *Options) defaults() {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Sync == nil {
		o.Sync = (*os.File).Sync
	}
	if o.LockWait <= 0 {
		o.LockWait = 10 * time.Second
	}
	if o.Parquet == nil {
		o.Parquet = DefaultParquet()
	}
}

// DefaultParquet returns the properties that make commits quick: small files
// that compaction writes anew need not be squeezed, no two rows of a file share
// a position, and pages of 1 MiB, the default, are buffers that grow long and
// are cleared each time: a twentieth of what an append costs.
func DefaultParquet() map[string]string {
	return map[string]string{
		table.ParquetCompressionLevelKey:      "1",
		table.ParquetPageSizeBytesKey:         "131072",
		dictionaryOf + catalog.ColumnPosition: "false",
	}
}

// tuned returns the table with the properties of Options.Parquet, and of those
// given, that it lacks.
func (s *Store) tuned(t *table.Table, more iceberg.Properties) (*table.Table, error) {
	missing := make(iceberg.Properties)
	for _, properties := range []map[string]string{more, s.parquet} {
		for name, value := range properties {
			if _, ok := t.Properties()[name]; !ok {
				missing[name] = value
			}
		}
	}
	if len(missing) == 0 {
		return t, nil
	}
	tx := t.NewTransaction()
	if err := tx.SetProperties(missing); err != nil {
		return nil, err
	}
	staged, err := tx.StagedTable()
	if err != nil {
		return nil, err
	}
	return staged.Table, nil
}

// A Store is an open lake. It may be used by several goroutines, each with its
// own tables.
type Store struct {
	name       string // for errors
	dir        string // that the SQLite catalog is in; empty behind a server
	location   string // URI below which tables are created; empty if the catalog places them
	properties map[string]string
	readOnly   bool
	beside     bool // no lock
	disk       *disk
	unsynced   bool          // the SQLite catalog is not forced to the disk
	lockWait   time.Duration // for whoever has the SQLite catalog locked
	parquet    map[string]string
	retention  Retention
	log        *slog.Logger
	db         *sql.DB // nil behind a server
	catalog    *lakeCatalog
	unlock     func() error
}

var (
	_ sink.Store        = (*Store)(nil)
	_ sink.Checkpointer = (*Store)(nil)
)

// ErrLocked is wrapped when another process has the lake open for writing, or
// for reading while this one wants to write.
var ErrLocked = errors.New("lake is in use by another process")

// ErrNoLake is wrapped by a read-only Open of a folder that holds no lake.
var ErrNoLake = errors.New("no lake there")

// Names in the lake folder.
const (
	catalogFile = "catalog.db"
	lockFile    = "lock.db"
	warehouse   = "warehouse"
	catalogName = "icehose"
)

func newStore(name string, o Options) *Store {
	o.defaults()
	useDisk()
	useBuckets()
	return &Store{name: name, readOnly: o.ReadOnly, beside: o.Beside, disk: newDisk(&o), lockWait: o.LockWait, parquet: o.Parquet, retention: o.Retention, properties: o.Properties, log: o.Log}
}

// Open opens the lake in dir and creates it if there is none.
func Open(ctx context.Context, dir string, o Options) (*Store, error) {
	return openFile(ctx, dir, filepath.Join(dir, catalogFile), filepath.Join(dir, lockFile), o)
}

// OpenSQLite opens the lake whose catalog is the SQLite database at path, and
// creates it if there is none. Its lock stands beside it, with .lock behind the
// name.
func OpenSQLite(ctx context.Context, path string, o Options) (*Store, error) {
	return openFile(ctx, path, path, path+".lock", o)
}

// OpenLake opens a lake behind a catalog of iceberg-go that is open already,
// such as package catalog/iceberg/remote returns.
func OpenLake(l *lake.Lake, name string, o Options) (*Store, error) {
	c, ok := l.Tables.(icecatalog.Catalog)
	if !ok {
		return nil, fmt.Errorf("open lake %s: catalog cannot commit", name)
	}
	s := newStore(name, o)
	s.location = strings.TrimRight(l.Location, "/")
	s.catalog = &lakeCatalog{Catalog: c, disk: s.disk}
	return s, nil
}

func openFile(ctx context.Context, name, path, lockPath string, o Options) (*Store, error) {
	s := newStore(name, o)
	s.unsynced = o.Sync != nil
	err := s.openFile(ctx, path, lockPath, o.Warehouse)
	if err != nil {
		return nil, fmt.Errorf("open lake %s: %w", name, oneLine(err))
	}
	return s, nil
}

func (s *Store) openFile(ctx context.Context, path, lockPath, location string) (err error) {
	if path, err = filepath.Abs(path); err != nil {
		return err
	}
	s.dir, s.location = filepath.Dir(path), strings.TrimRight(location, "/")
	needed := s.dir
	if s.location == "" {
		needed = filepath.Join(s.dir, warehouse)
		s.location = fileURI(needed)
	}
	if s.readOnly {
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			return ErrNoLake
		}
	} else if err := s.disk.makeFolder(needed); err != nil {
		return err
	}
	if lockPath, err = filepath.Abs(lockPath); err != nil {
		return err
	}
	if !s.beside {
		if s.unlock, err = lock(ctx, lockPath, s.readOnly); err != nil {
			return err
		}
	}
	if _, missing := os.Stat(path); location == "" && errors.Is(missing, os.ErrNotExist) {
		err = checkLost(path, needed)
	}
	if err == nil {
		err = s.openCatalog(ctx, path)
	}
	if err != nil {
		return errors.Join(err, s.Close())
	}
	return nil
}

// checkLost refuses to begin a catalog beside a folder of tables that another
// one names: they would look empty, and their files like orphans.
func checkLost(catalog, folder string) error {
	found, err := fs.Glob(os.DirFS(folder), "*/*/metadata/*.metadata.json")
	if err != nil || len(found) == 0 {
		return err
	}
	return fmt.Errorf("catalog %s is missing or empty, although %s holds tables: restore it, or choose another place", filepath.Base(catalog), folder)
}

// Close gives the lake free for others. Tables of the store must not be used
// afterwards.
func (s *Store) Close() error {
	var errs []error
	s.disk.wait()
	if s.catalog != nil {
		if c, ok := s.catalog.Catalog.(io.Closer); ok {
			errs = append(errs, c.Close())
		}
	}
	if s.db != nil {
		errs = append(errs, s.db.Close())
	}
	if s.unlock != nil {
		errs = append(errs, s.unlock())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close lake %s: %w", s.name, oneLine(err))
	}
	return nil
}

// Tables gives what creates and evolves tables access to the lake.
func (s *Store) Tables() *lake.Lake {
	return &lake.Lake{Tables: s.catalog, Location: s.location}
}

// fileURI turns an absolute path into a URI.
func fileURI(path string) string {
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(path)}
	return u.String()
}

// identifier is the table's name in the catalog.
func identifier(t *catalog.Table) table.Identifier {
	return icecatalog.ToIdentifier(t.Database(), t.Name())
}

// OpenTable implements sink.Store.
func (s *Store) OpenTable(ctx context.Context, t *catalog.Table) (sink.Table, error) {
	opened, err := s.openTable(ctx, t)
	if err != nil {
		return nil, oneLine(err)
	}
	return opened, nil
}

func (s *Store) openTable(ctx context.Context, t *catalog.Table) (*lakeTable, error) {
	schema, err := lake.SchemaOf(t)
	if err != nil {
		return nil, err
	}
	current, err := s.catalog.LoadTable(ctx, identifier(t))
	if errors.Is(err, icecatalog.ErrNoSuchTable) || errors.Is(err, icecatalog.ErrNoSuchNamespace) {
		current, err = s.create(ctx, t, schema)
	}
	if err != nil {
		return nil, err
	}
	columns, _ := t.LakeColumns()
	opened := &lakeTable{store: s, definition: t, columns: columns, dataFiles: -1, deleteFiles: -1}
	pending, err := differs(ctx, t, current)
	if err != nil {
		return nil, err
	}
	opened.pending.Store(pending)
	opened.newest.Store(current)
	return opened, nil
}

func (s *Store) create(ctx context.Context, t *catalog.Table, schema *iceberg.Schema) (*table.Table, error) {
	if s.readOnly {
		return nil, errors.New("create table: lake is open for reading only")
	}
	namespace := icecatalog.ToIdentifier(t.Database())
	exists, err := s.catalog.CheckNamespaceExists(ctx, namespace)
	if err != nil {
		return nil, fmt.Errorf("create table: %w", err)
	}
	if !exists {
		if err := s.catalog.CreateNamespace(ctx, namespace, nil); err != nil && !errors.Is(err, icecatalog.ErrNamespaceAlreadyExists) {
			return nil, fmt.Errorf("create namespace %s: %w", t.Database(), err)
		}
	}
	spec, err := lake.SpecOf(t, schema)
	if err != nil {
		return nil, fmt.Errorf("create table: %w", err)
	}
	options := []icecatalog.CreateTableOpt{icecatalog.WithPartitionSpec(spec), icecatalog.WithProperties(lake.NewProperties(t))}
	if s.location != "" {
		options = append(options, icecatalog.WithLocation(s.location+"/"+t.Database()+"/"+t.Name()))
	}
	created, err := s.catalog.CreateTable(ctx, identifier(t), schema, options...)
	if err != nil {
		return nil, fmt.Errorf("create table: %w", err)
	}
	return created, nil
}
