// Package iceberg is a lake of Apache Iceberg tables in one folder of the
// local file system: a SQLite catalog (catalog.db) and Parquet data
// (warehouse/).
//
// In come the batches of package sink; out go Iceberg v2 tables, each batch
// one atomic commit: Parquet data files for the rows, equality delete files
// for the keys whose earlier rows go, and the sink's notes as table
// properties. Readers get Arrow batches of one snapshot (Store.Scan).
//
// A folder has one writer at a time, which a lock enforces, or any number of
// readers.
//
// A commit survives a killed process and a power cut: every file that it names
// is forced to the disk, and the folder it is in, before the catalog names it,
// and so is the catalog (Options.Sync). Open replaces, for the process, what
// iceberg-go does with the scheme file; other users of the library notice
// nothing.
//
// The tables hold absolute paths, so the folder cannot be moved. The package
// compacts no data files.
package iceberg

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"

	"github.com/apache/iceberg-go"
	icecatalog "github.com/apache/iceberg-go/catalog"
	sqlcat "github.com/apache/iceberg-go/catalog/sql"
	"github.com/apache/iceberg-go/table"
	_ "modernc.org/sqlite" // the driver called sqlite

	"icehose/catalog"
	lake "icehose/catalog/iceberg"
	"icehose/sink"
)

// Options are the settings of a Store.
type Options struct {
	// ReadOnly opens an existing lake for reading.
	ReadOnly bool
	// Sync forces a file or a folder that was written to the disk; default
	// File.Sync. A lake that nobody will miss can do without.
	Sync func(*os.File) error
	// Log receives what maintenance did; default none.
	Log *slog.Logger
}

// A Store is an open lake folder. It may be used by several goroutines, each
// with its own tables.
type Store struct {
	dir      string
	readOnly bool
	disk     *disk
	log      *slog.Logger
	db       *sql.DB
	catalog  *lakeCatalog
	unlock   func() error
}

var _ sink.Store = (*Store)(nil)

// ErrLocked is wrapped when another process has the lake open for writing, or
// for reading while this one wants to write.
var ErrLocked = errors.New("lake is in use by another process")

// ErrNoLake is wrapped by a read-only Open of a folder that holds no lake.
var ErrNoLake = errors.New("no lake there")

// Names in the lake folder.
const (
	catalogFile   = "catalog.db"
	lockFile      = "lock.db"
	warehouse     = "warehouse"
	catalogName   = "icehose"
	catalogPragma = "_pragma=busy_timeout(10000)&_pragma=synchronous(FULL)&_txlock=immediate"
)

// Open opens the lake in dir and creates it if there is none.
func Open(ctx context.Context, dir string, o Options) (*Store, error) {
	s, err := open(ctx, dir, o)
	if err != nil {
		return nil, fmt.Errorf("open lake %s: %w", dir, oneLine(err))
	}
	return s, nil
}

func open(ctx context.Context, dir string, o Options) (*Store, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Sync == nil {
		o.Sync = (*os.File).Sync
	}
	useDisk()
	disk := &disk{sync: o.Sync}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if o.ReadOnly {
		if _, err := os.Stat(filepath.Join(dir, catalogFile)); errors.Is(err, os.ErrNotExist) {
			return nil, ErrNoLake
		}
	} else if err := disk.makeFolder(filepath.Join(dir, warehouse)); err != nil {
		return nil, err
	}
	s := &Store{dir: dir, readOnly: o.ReadOnly, disk: disk, log: o.Log}
	if s.unlock, err = lock(ctx, filepath.Join(dir, lockFile), o.ReadOnly); err != nil {
		return nil, err
	}
	if err := s.openCatalog(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Store) openCatalog(ctx context.Context) error {
	mode, create := "rwc", "true"
	if s.readOnly {
		mode, create = "ro", "false"
	}
	var err error
	if s.db, err = sql.Open("sqlite", dataSource(filepath.Join(s.dir, catalogFile), mode)+"&"+catalogPragma); err != nil {
		return fmt.Errorf("open catalog: %w", err)
	}
	var verdict string
	if err := s.db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&verdict); err != nil {
		return fmt.Errorf("open catalog: %w", err)
	}
	if verdict != "ok" {
		return errors.New("open catalog: " + catalogFile + " is damaged")
	}
	c, err := sqlcat.NewCatalog(catalogName, s.db, sqlcat.SQLite, iceberg.Properties{
		"init_catalog_tables": create,
		"warehouse":           fileURI(filepath.Join(s.dir, warehouse)),
	})
	if err != nil {
		return fmt.Errorf("open catalog: %w", err)
	}
	s.catalog = &lakeCatalog{Catalog: c, disk: s.disk}
	return nil
}

// Close gives the lake free for others. Tables of the store must not be used
// afterwards.
func (s *Store) Close() error {
	var errs []error
	if s.catalog != nil {
		errs = append(errs, s.catalog.Close())
	}
	if s.db != nil {
		errs = append(errs, s.db.Close())
	}
	if s.unlock != nil {
		errs = append(errs, s.unlock())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close lake %s: %w", s.dir, oneLine(err))
	}
	return nil
}

// Tables gives what creates and evolves tables access to the lake.
func (s *Store) Tables() *lake.Lake {
	return &lake.Lake{Tables: s.catalog, Location: fileURI(filepath.Join(s.dir, warehouse))}
}

// fileURI turns an absolute path into a URI.
func fileURI(path string) string {
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(path)}
	return u.String()
}

// dataSource names a SQLite database.
func dataSource(path, mode string) string {
	return fileURI(path) + "?mode=" + mode
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
	if err := lake.CheckSchema(current.Schema(), schema); err != nil {
		return nil, err
	}
	columns, _ := t.LakeColumns()
	return &lakeTable{store: s, definition: t, columns: columns}, nil
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
		if err := s.catalog.CreateNamespace(ctx, namespace, nil); err != nil {
			return nil, fmt.Errorf("create namespace %s: %w", t.Database(), err)
		}
	}
	created, err := s.catalog.CreateTable(ctx, identifier(t), schema,
		icecatalog.WithLocation(fileURI(filepath.Join(s.dir, warehouse, t.Database(), t.Name()))),
		icecatalog.WithProperties(lake.NewProperties()))
	if err != nil {
		return nil, fmt.Errorf("create table: %w", err)
	}
	return created, nil
}
