package iceberg_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"icehose/sink"
	"icehose/sink/iceberg"
)

// hang is how long a test waits for what is to end at once, before it says that
// it does not.
const hang = 30 * time.Second

// lockCatalog locks the catalog at path for everybody else, until release.
func lockCatalog(t *testing.T, path string) (release func()) {
	t.Helper()
	other, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() }) // read and rolled back only
	other.SetMaxOpenConns(1)
	if _, err := other.ExecContext(t.Context(), "BEGIN EXCLUSIVE"); err != nil {
		t.Fatal(err)
	}
	return func() {
		if _, err := other.ExecContext(context.WithoutCancel(t.Context()), "ROLLBACK"); err != nil {
			t.Error(err)
		}
	}
}

// ends wants f to end although its lock is waited for much longer.
func ends(t *testing.T, what string, f func() error) error {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- f() }()
	select {
	case err := <-ended:
		return err
	case <-time.After(hang):
		t.Fatalf("%s: does not end once its context is done", what)
		return nil
	}
}

// TestOpenLocked: whoever opens a lake whose catalog somebody else has locked
// waits for it as long as was asked, and no longer than the context is good for.
func TestOpenLocked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	closeStore(t, openUnsynced(t, dir))
	path := filepath.Join(dir, "catalog.db")
	for _, tt := range []struct {
		name string
		o    iceberg.Options
		open func(context.Context, iceberg.Options) (*iceberg.Store, error)
	}{
		{"to write", iceberg.Options{}, nil},
		{"to read", iceberg.Options{ReadOnly: true}, nil},
		{"beside a writer", iceberg.Options{Beside: true}, nil},
		{"a catalog alone", iceberg.Options{}, func(ctx context.Context, o iceberg.Options) (*iceberg.Store, error) {
			return iceberg.OpenSQLite(ctx, path, o)
		}},
	} {
		open := tt.open
		if open == nil {
			open = func(ctx context.Context, o iceberg.Options) (*iceberg.Store, error) { return iceberg.Open(ctx, dir, o) }
		}
		release := lockCatalog(t, path)

		ctx, interrupt := context.WithCancel(t.Context())
		time.AfterFunc(2*time.Millisecond, interrupt)
		o := tt.o
		o.LockWait = time.Hour
		err := ends(t, tt.name, func() error { _, err := open(ctx, o); return err })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s, interrupted: %v", tt.name, err)
		}

		o.LockWait = 50 * time.Millisecond
		_, err = open(t.Context(), o)
		if err == nil || !iceberg.MayPass(err) || !strings.Contains(err.Error(), "another process has catalog.db locked: wait until it has ended, or stop it") {
			t.Errorf("%s, in time: %v", tt.name, err)
		}

		o.LockWait = time.Hour
		time.AfterFunc(time.Millisecond, release)
		store, err := open(t.Context(), o)
		if err != nil {
			t.Fatalf("%s, after the lock: %v", tt.name, err)
		}
		closeStore(t, store)
	}
}

// TestStopsWhileLocked: what an open lake waits for ends with its context too,
// also where a connection has to be opened first.
func TestStopsWhileLocked(t *testing.T) {
	t.Parallel()
	p, err := pipeline()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	store, err := iceberg.Open(t.Context(), dir, iceberg.Options{LockWait: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore(t, store)
	s, err := sink.Open(t.Context(), p, store, sink.Options{RetryFor: time.Hour, Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Deliver(t.Context(), []sink.Delivery{itemDelivery(0)}); err != nil {
		t.Fatal(err)
	}
	release := lockCatalog(t, filepath.Join(dir, "catalog.db"))
	defer release()
	for name, step := range map[string]func(context.Context) error{
		"commit": s.Flush,
		"look":   func(ctx context.Context) error { _, err := store.OpenTable(ctx, p.Tables[0]); return err },
		"looks, by several": func(ctx context.Context) error {
			errs := make(chan error, 4)
			for range cap(errs) {
				go func() { _, err := store.OpenTable(ctx, p.Tables[0]); errs <- err }()
			}
			var err error
			for range cap(errs) {
				err = <-errs
			}
			return err
		},
	} {
		ctx, interrupt := context.WithCancel(t.Context())
		time.AfterFunc(2*time.Millisecond, interrupt)
		if err := ends(t, name, func() error { return step(ctx) }); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
