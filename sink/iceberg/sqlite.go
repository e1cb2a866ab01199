package iceberg

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/apache/iceberg-go"
	sqlcat "github.com/apache/iceberg-go/catalog/sql"
	"modernc.org/sqlite"
)

// openStep is how long a statement waits for a lock while a catalog is opened.
// The library runs some of those with a context that never ends: no interrupt
// ends their wait, so it must be short, and all of them are tried again.
const openStep = 200 * time.Millisecond

// A dialer opens the connections to a SQLite catalog. The settings of one may
// have to wait for whoever has the catalog locked: unlike those of a data source
// name they wait no longer than the context allows.
type dialer struct {
	driver.Connector
	unsynced bool
	wait     atomic.Int64 // milliseconds that a statement waits for a lock
}

// Connect implements driver.Connector.
func (d *dialer) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := d.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	synchronous := "PRAGMA synchronous = FULL"
	if d.unsynced {
		synchronous = "PRAGMA synchronous = OFF"
	}
	for _, setting := range []string{d.waiting(), synchronous} {
		e, ok := conn.(driver.ExecerContext)
		if !ok {
			return nil, errors.Join(errors.New("open catalog: driver cannot be set"), conn.Close())
		}
		if _, err := e.ExecContext(ctx, setting, nil); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	return conn, nil
}

// waiting is the statement that sets how long a connection waits.
func (d *dialer) waiting() string {
	return "PRAGMA busy_timeout = " + strconv.FormatInt(d.wait.Load(), 10)
}

// openCatalog opens the SQLite database at path, and waits up to s.lockWait, or
// until ctx is done, for another process that has it locked.
func (s *Store) openCatalog(ctx context.Context, path string) error {
	mode := "rwc"
	if s.readOnly {
		mode = "ro"
	}
	connector, err := sqlite.NewConnector(dataSource(path, mode) + "&_txlock=immediate")
	if err != nil {
		return fmt.Errorf("open catalog: %w", err)
	}
	d := &dialer{Connector: connector, unsynced: s.unsynced}
	d.wait.Store(min(openStep, s.lockWait).Milliseconds())
	s.db = sql.OpenDB(d)
	s.db.SetMaxOpenConns(1) // whose wait can be set below
	var busy error          // of the last attempt that met a lock
	for began := now(); ; {
		if err = s.readCatalog(ctx, path); err == nil {
			break
		}
		if isBusy(err) {
			busy = fmt.Errorf("%w: another process has %s locked: wait until it has ended, or stop it", err, filepath.Base(path))
		}
		switch {
		case ctx.Err() != nil && busy != nil:
			return errors.Join(busy, context.Cause(ctx))
		case !isBusy(err):
			return err
		case now().Sub(began) >= s.lockWait:
			return busy
		}
		timer := time.NewTimer(openStep / 10)
		select {
		case <-ctx.Done():
			timer.Stop()
		case <-timer.C:
		}
	}
	d.wait.Store(s.lockWait.Milliseconds())
	if _, err := s.db.ExecContext(ctx, d.waiting()); err != nil {
		return fmt.Errorf("open catalog: %w", err)
	}
	s.db.SetMaxOpenConns(0)
	return nil
}

// readCatalog checks the database and makes the catalog of it. It may be called
// again after an error.
func (s *Store) readCatalog(ctx context.Context, path string) error {
	var verdict string
	if err := s.db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&verdict); err != nil {
		return fmt.Errorf("open catalog: %s: %w", filepath.Base(path), err)
	}
	if verdict != "ok" {
		return errors.New("open catalog: " + filepath.Base(path) + " is damaged")
	}
	var begun bool
	if err := s.db.QueryRowContext(ctx, "SELECT count(*) > 0 FROM sqlite_master WHERE name = 'iceberg_tables'").Scan(&begun); err != nil {
		return fmt.Errorf("open catalog: %w", err)
	}
	if folder := filepath.Join(s.dir, warehouse); !begun && s.location == fileURI(folder) {
		if err := checkLost(path, folder); err != nil {
			return err
		}
	}
	properties := iceberg.Properties{"init_catalog_tables": strconv.FormatBool(!s.readOnly), "warehouse": s.location}
	maps.Copy(properties, s.properties)
	c, err := sqlcat.NewCatalog(catalogName, s.db, sqlcat.SQLite, properties)
	if err != nil {
		return fmt.Errorf("open catalog: %w", err)
	}
	s.catalog = &lakeCatalog{Catalog: c, disk: s.disk, locate: s.locate}
	if s.location == fileURI(filepath.Join(s.dir, warehouse)) {
		s.catalog.folder = s.dir
	}
	return nil
}

// dataSource names a SQLite database.
func dataSource(path, mode string) string {
	return fileURI(path) + "?mode=" + mode
}
