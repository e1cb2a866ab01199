package repair

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/reconcile"
)

// A row is what the source has of one key.
type row struct {
	key    []string
	values [][]byte // nil when the row is gone; valid until the next row
}

// A moment is where the rows of a reading stand.
type moment struct {
	position cdc.Position
	at       time.Time
}

// read reads the source's rows of some keys at one moment, and then tells of
// those that have none. known returns the greatest position that the lake
// holds of the table, for a source without a log.
func read(ctx context.Context, p *catalog.Pipeline, source reconcile.Reader, t *catalog.Table, keys [][]string, now time.Time,
	known func(context.Context) (cdc.Position, error), use func(moment, row) error,
) error {
	view, err := source.Open(ctx, t, true)
	if err != nil {
		return fmt.Errorf("read source: %w", err)
	}
	defer func() { _ = view.Close() }() // it only read
	values, ok := view.(reconcile.ValueView)
	if !ok {
		return errors.New("read source: it does not give values")
	}
	m := moment{at: view.Pinned().Time}
	if m.at.IsZero() {
		m.at = now
	}
	if m.position, err = positionOf(ctx, p, t, view.Pinned(), m.at, known); err != nil {
		return err
	}
	set, err := reconcile.NewKeys(t, keys)
	if err != nil {
		return err
	}
	gone := make(map[string]bool, len(keys))
	for _, key := range keys {
		gone[identify(key)] = true
	}
	at := keyPlaces(t)
	key := make([]string, len(at))
	for texts, err := range values.Values(ctx, reconcile.Part{Buckets: 1, Keys: set}) {
		if err != nil {
			return fmt.Errorf("read source: %w", err)
		}
		for n, i := range at {
			key[n] = string(texts[i])
		}
		id := identify(key)
		if !gone[id] {
			return errors.New("read source: it has a key twice: the key of the pipeline file is not unique")
		}
		delete(gone, id)
		if err := use(m, row{key: key, values: texts}); err != nil {
			return err
		}
	}
	for _, key := range keys {
		if !gone[identify(key)] {
			continue
		}
		if err := use(m, row{key: key}); err != nil {
			return err
		}
	}
	return nil
}

// keyPlaces returns where the key columns are among the lake's columns.
func keyPlaces(t *catalog.Table) []int {
	columns, _ := t.LakeColumns()
	at := make([]int, len(t.Key))
	for n, name := range t.Key {
		at[n] = slices.IndexFunc(columns, func(c catalog.Column) bool { return c.Name == name })
	}
	return at
}

// positionOf returns the position of rows that were read at a moment: that of
// a load whose floor the moment is.
func positionOf(ctx context.Context, p *catalog.Pipeline, t *catalog.Table, pinned reconcile.Pinned, at time.Time,
	known func(context.Context) (cdc.Position, error),
) (cdc.Position, error) {
	kind := t.Position.Source
	switch {
	case kind == cdc.SourceNone:
		return "", errors.New("the table's changes have no position: nothing says which of two rows is the later one")
	case pinned.Log == nil && pinned.Through == nil:
		return aboveAll(ctx, p, at, known)
	case pinned.Log == nil && pinned.Doubt != "":
		return "", errors.New("the source's place in its log is not known: " + pinned.Doubt)
	case pinned.Log == nil:
		return "", errors.New("the source follows another server and has a log of its own: repair from the server whose log the stream is read from")
	case kind != cdc.SourcePostgres && kind != cdc.SourceMySQL:
		return "", fmt.Errorf("a position of kind %s cannot be read from a live source: repair from a dump (--final)", t.Position)
	case pinned.Log.Low == nil:
		return "", errors.New("the source's place in its log is not known: a transaction runs on, or MySQL does not tell which do (want gtid_mode ON, or the right PROCESS): try again when it has ended")
	}
	return cdc.LoadPosition(p.EpochAt(at), *pinned.Log.Low, at, cdc.Origin{})
}

// aboveAll returns a position above everything that the lake holds.
func aboveAll(ctx context.Context, p *catalog.Pipeline, at time.Time, known func(context.Context) (cdc.Position, error)) (cdc.Position, error) {
	highest, err := known(ctx)
	if err != nil {
		return "", err
	}
	epoch := p.EpochAt(at)
	var body cdc.Body
	if highest != "" {
		n, err := strconv.ParseUint(highest.Epoch(), 16, 16)
		if err != nil {
			return "", errors.New("the newest position of the lake has no epoch")
		}
		epoch = uint16(n)
		if body, err = cdc.ParseBody(highest.Body()); err != nil {
			return "", fmt.Errorf("the newest position of the lake: %w", err)
		}
		if body.Lo++; body.Lo == 0 {
			body.Hi++
		}
	}
	return cdc.LoadPosition(epoch, body, at, cdc.Origin{})
}

// newest returns the newest position of a lake's current rows.
func newest(ctx context.Context, lake reconcile.Reader, t *catalog.Table) (cdc.Position, error) {
	view, err := lake.Open(ctx, t, true)
	if err != nil {
		return "", fmt.Errorf("read lake: %w", err)
	}
	defer func() { _ = view.Close() }() // it only read
	return view.Pinned().Newest.Position, nil
}
