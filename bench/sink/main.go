// Command sink measures what the sink's targets speak of: appending changes to
// a changelog, and applying them to a mirror, beside Spark's MERGE INTO and
// PyIceberg's upsert of the same changes into tables with the same rows.
//
// In come flags; out comes a table of changes a second and of peak memory. All
// run one after the other on this machine, each in processes of its own whose
// start does not count; that the sink opens its lake and reads the keys of a
// mirror counts in a column of its own. The sink gets rows as JSON, as transform makes them,
// and forces every commit to the disk; the engines read the changes from an
// Iceberg table that the sink has written, and take the newest of each key.
// Every mirror is compared, in all columns, with what the changes make of its rows.
package main

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"icehose/bench/sink/stream"
	"icehose/catalog"
	"icehose/cdc"
	"icehose/internal/canon"
	"icehose/internal/canon/canonarrow"
	"icehose/sink/iceberg"
)

func main() {
	b := &bench{out: os.Stdout}
	var part string
	var table stream.Table
	flag.IntVar(&b.rows, "rows", 1_000_000, "rows of each table")
	flag.IntVar(&b.changes, "changes", 1_000_000, "changes of them")
	flag.IntVar(&b.appends, "appends", 4_000_000, "rows that are appended to a changelog of their own, so that the first buffer and the last commit, beside which nothing runs, count little")
	flag.IntVar(&b.commits, "commits", 2, "commits of 100,000 changes that the engines make, where they make such; a whole run of these takes long")
	flag.StringVar(&b.python, "python", "", "Python that has the packages of interop/requirements.txt; none: only the sink is measured")
	flag.StringVar(&b.jars, "jars", "", "comma-separated jars for Spark: Iceberg's runtime and SQLite's driver")
	flag.StringVar(&b.dir, "dir", "", "folder for the lake; default that for temporary files")
	flag.StringVar(&part, "deliver", "", "only deliver this part into the lake in -dir: what the benchmark runs")
	flag.StringVar(&table.Name, "table", "", "with -deliver: the table")
	flag.StringVar(&table.Mode, "mode", "", "with -deliver: its mode")
	flag.StringVar(&table.Reader, "reader", "", "with -deliver: its reader")
	flag.Parse()
	ctx := context.Background()
	var err error
	if part != "" {
		err = deliver(ctx, b.dir, part, table, b.out)
	} else {
		err = b.run(ctx)
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "bench sink:", err)
		os.Exit(1) //nolint:forbidigo // a program of its own
	}
}

type bench struct {
	rows, changes, appends, commits int
	python, jars                    string
	dir                             string // of the lake
	out                             io.Writer
	basePart, mixedPart             string
}

// The tables. All but the changelog are filled with the same rows.
var (
	changelog = stream.Table{Name: "changes", Mode: "changelog"}                  //nolint:gochecknoglobals // a constant
	appended  = stream.Table{Name: "appended", Mode: "changelog"}                 //nolint:gochecknoglobals // a constant
	equality  = stream.Table{Name: "equality", Mode: "mirror", Reader: "icehose"} //nolint:gochecknoglobals // a constant
	copied    = stream.Table{Name: "copied", Mode: "mirror", Reader: "pyiceberg"} //nolint:gochecknoglobals // a constant
)

func (b *bench) run(ctx context.Context) (err error) {
	if min(b.rows, b.changes, b.appends, b.commits) < 1 {
		return errors.New("-rows, -changes, -appends and -commits: want 1 or more")
	}
	if b.dir, err = os.MkdirTemp(b.dir, "bench-sink-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	b.basePart, b.mixedPart = filepath.Join(b.dir, "base"), filepath.Join(b.dir, "mixed")
	if err := errors.Join(writePart(b.basePart, equality, b.base), writePart(b.mixedPart, equality, b.mixed)); err != nil {
		return err
	}
	b.print("%d changes (80 %% updates, 10 %% inserts, 10 %% deletes) of tables of %d rows and ten columns; %s, %d cores of %s\n\n",
		b.changes, b.rows, runtime.Version(), runtime.NumCPU(), cmp.Or(told("/proc/cpuinfo", "model name"), runtime.GOARCH))
	b.print("| | changes a commit | seconds | changes/s | opening, seconds | changes/s with opening | peak MB |\n|---|---|---|---|---|---|---|\n")
	if err := errors.Join(b.append(ctx, changelog, b.changes), b.append(ctx, appended, b.appends)); err != nil {
		return err
	}
	for _, m := range []struct {
		name  string
		table stream.Table
	}{{"icehose, mirror, equality deletes", equality}, {"icehose, mirror, copy-on-write", copied}} {
		if err := b.mirror(ctx, m.name, m.table); err != nil {
			return err
		}
	}
	if b.python == "" {
		return nil
	}
	if err := b.engines(ctx); err != nil {
		return err
	}
	b.print("\nOpening is the sink's: it opens the lake and reads the keys of a mirror, %d here. The engines read the table in every commit, and their start does not count.\n"+
		"A late change does not undo a later one: the sink sees to it, and Spark by a condition in its MERGE; PyIceberg's upsert has no such guard.\n", b.rows)
	return nil
}

// sinkRows is how many changes a commit of the sink has; its default.
const sinkRows = 100_000

// append measures an append of mixed changes to a changelog.
func (b *bench) append(ctx context.Context, t stream.Table, count int) (err error) {
	part := filepath.Join(b.dir, "entries")
	defer func() { err = errors.Join(err, os.Remove(part)) }()
	if err := writePart(part, t, func(yield func(*stream.Change) error) error { return b.mix(count, yield) }); err != nil {
		return err
	}
	d, err := b.sink(ctx, part, t)
	if err != nil {
		return err
	}
	b.report(fmt.Sprintf("icehose, append of %d to a changelog", count), sinkRows, count, d)
	return nil
}

// mirror fills a mirror and measures the changes.
func (b *bench) mirror(ctx context.Context, name string, t stream.Table) error {
	if _, err := b.sink(ctx, b.basePart, t); err != nil {
		return err
	}
	d, err := b.sink(ctx, b.mixedPart, t)
	if err != nil {
		return err
	}
	b.report(name, sinkRows, b.changes, d)
	return b.check(ctx, t, b.changes)
}

func (b *bench) print(format string, args ...any) {
	_, _ = fmt.Fprintf(b.out, format, args...) // a line that is lost is seen
}

func (b *bench) report(name string, commit, changes int, d delivered) {
	memory, opening, rate := "-", "-", "-"
	if d.Peak > 0 {
		memory = fmt.Sprint(d.Peak)
	}
	if d.Open > 0 {
		opening, rate = fmt.Sprintf("%.1f", d.Open), fmt.Sprintf("%.0f", float64(changes)/(d.Open+d.Seconds))
	}
	b.print("| %s | %d | %.1f | %.0f | %s | %s | %s |\n", name, min(commit, changes), d.Seconds, float64(changes)/d.Seconds, opening, rate, memory)
}

// check compares a mirror with the changes made so far: each row must be that of
// the newest change of its key, in every column.
func (b *bench) check(ctx context.Context, t stream.Table, changes int) (err error) {
	newest := make(map[string]uint64, b.rows) // number of the change
	left := b.rows + changes
	see := func(c *stream.Change) error {
		if left--; left < 0 {
			return nil
		}
		if id := fmt.Sprint(c.ID); c.Operation == cdc.Delete {
			delete(newest, id)
		} else {
			newest[id] = c.N
		}
		return nil
	}
	if err := errors.Join(b.base(see), b.mixed(see)); err != nil {
		return err
	}
	p, err := stream.Pipeline(t)
	if err != nil {
		return err
	}
	store, err := iceberg.Open(ctx, b.dir, iceberg.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	columns, _ := p.Tables[0].LakeColumns()
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.Name
	}
	r := canonarrow.NewRowReader(columns)
	wrong := 0
	for batch, err := range store.Scan(ctx, p.Tables[0], 0, names) {
		if err != nil {
			return err
		}
		for row, err := range r.RowsInOrder(batch) {
			if err != nil {
				return err
			}
			id := string(row[0])
			n, ok := newest[id]
			if ok {
				if ok, err = isRow(&t, columns, row, n); err != nil {
					return err
				}
			}
			if !ok {
				wrong++
			}
			delete(newest, id)
		}
	}
	if wrong+len(newest) > 0 {
		return fmt.Errorf("table %s: %d rows are not what the newest change makes of them, %d are missing", t.Name, wrong, len(newest))
	}
	return nil
}

// isRow reports whether a row, whose first value is its key, is what the change
// of a number makes of it.
func isRow(t *stream.Table, columns []catalog.Column, row [][]byte, n uint64) (bool, error) {
	id, err := strconv.Atoi(string(row[0]))
	if err != nil {
		return false, err
	}
	var want map[string]json.RawMessage
	if err := json.Unmarshal(t.Append(nil, &stream.Change{N: n, ID: id, Operation: cdc.Update}), &want); err != nil {
		return false, err
	}
	for i := range columns {
		text, err := canon.Append(nil, &columns[i], canon.Delivered, bytes.Trim(want[columns[i].Name], `"`)) // no text has quotes
		if err != nil {
			return false, fmt.Errorf("column %s: %w", columns[i].Name, err)
		}
		if !bytes.Equal(text, row[i]) {
			return false, nil
		}
	}
	return true, nil
}

// shared lets Spark use the catalog: its driver leaves statements open, which
// only this mode of SQLite lets be.
func (b *bench) shared(ctx context.Context) error {
	db, err := sql.Open("sqlite", filepath.Join(b.dir, "catalog.db"))
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, "PRAGMA journal_mode = WAL")
	return errors.Join(err, db.Close())
}
