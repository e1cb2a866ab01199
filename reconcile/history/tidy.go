package history

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"time"

	iceberglib "github.com/apache/iceberg-go"
	icecatalog "github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"

	"icehose/catalog"
	lake "icehose/catalog/iceberg"
)

const (
	// filesAt is how many data files the table may have.
	filesAt = 64
	// keptFor is for how long runs stay.
	keptFor = 400 * 24 * time.Hour
	// keptSnapshots and snapshotAge say which snapshots stay: nobody reads old
	// ones for long.
	keptSnapshots = 20
	snapshotAge   = 24 * time.Hour
)

// from selects the rows of runs that began since then.
func from(since time.Time) iceberglib.BooleanExpression {
	if since.IsZero() {
		return iceberglib.AlwaysTrue{}
	}
	return iceberglib.GreaterThanEqual(iceberglib.Reference("began_at"), timeText(since))
}

// tidy puts the data files together when there are too many, without the runs
// that are too old, and lets old snapshots go. It gives up when somebody else
// commits meanwhile: a later run does it.
func tidy(ctx context.Context, l *lake.Lake, database string, now time.Time) error {
	current, err := l.Tables.LoadTable(ctx, icecatalog.ToIdentifier(database, Name))
	if err != nil {
		return fmt.Errorf("load table: %w", err)
	}
	snapshot := current.CurrentSnapshot()
	if snapshot == nil || snapshot.Summary == nil {
		return nil
	}
	// A writer that does not count files is one that does not tidy up either.
	if n, _ := strconv.Atoi(snapshot.Summary.Properties["total-data-files"]); n <= filesAt {
		return nil
	}
	if current, err = merge(ctx, current, now.Add(-keptFor)); err == nil {
		err = expire(ctx, current)
	}
	if errors.Is(err, table.ErrCommitFailed) {
		return nil
	}
	return err
}

// merge replaces all data files by one with the rows since then.
func merge(ctx context.Context, current *table.Table, since time.Time) (*table.Table, error) {
	tasks, err := lake.Files(ctx, current.Scan())
	if err != nil {
		return nil, fmt.Errorf("plan files: %w", err)
	}
	old := make([]iceberglib.DataFile, len(tasks))
	for i, task := range tasks {
		old[i] = task.File
	}
	schema, rows, err := current.Scan(table.WithRowFilter(from(since)), table.WithMaxConcurrency(1)).ToArrowRecords(ctx)
	if err != nil {
		return nil, fmt.Errorf("read rows: %w", err)
	}
	var merged []iceberglib.DataFile
	for file, err := range table.WriteRecords(ctx, current, schema, rows) {
		if err != nil {
			return nil, fmt.Errorf("write rows: %w", err)
		}
		merged = append(merged, file)
	}
	tx := current.NewTransaction()
	if err := tx.ReplaceDataFilesWithDataFiles(ctx, old, merged, nil); err != nil {
		return nil, fmt.Errorf("replace files: %w", err)
	}
	if current, err = tx.Commit(ctx); err != nil {
		return nil, fmt.Errorf("replace files: %w", err)
	}
	return current, nil
}

func expire(ctx context.Context, current *table.Table) error {
	tx := current.NewTransaction()
	if err := tx.ExpireSnapshots(table.WithRetainLast(keptSnapshots), table.WithOlderThan(snapshotAge)); err != nil {
		return fmt.Errorf("expire snapshots: %w", err)
	}
	// Files are removed after the commit.
	if expired, err := tx.Commit(ctx); err != nil && (expired == nil || !errors.Is(err, fs.ErrNotExist)) {
		return fmt.Errorf("expire snapshots: %w", err)
	}
	return nil
}

// Table describes the table of a database to who maintains tables; nil when
// there is none yet.
func Table(ctx context.Context, l *lake.Lake, database string) (*catalog.Table, error) {
	if _, err := l.Tables.LoadTable(ctx, icecatalog.ToIdentifier(database, Name)); missing(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("find history %s.%s: %w", database, Name, err)
	}
	text := "version: 1\ndatabase: " + strconv.Quote(database) + "\nsource: {engine: postgresql, position: none}\ntables:\n" +
		"  - {source: icehose.runs, target: " + Name + ", mode: changelog, columns: [{name: run_id, type: string}]}\n"
	p, err := catalog.Parse(Name, []byte(text))
	if err != nil {
		return nil, fmt.Errorf("describe history %s.%s: %w", database, Name, err)
	}
	return p.Tables[0], nil
}
