// Package history keeps the outcomes of reconcile runs in the lake itself, as
// an Iceberg table that any engine can read.
//
// In comes the Report of a run, out goes one commit that appends a row for each
// of its tables to icehose_reconcile_runs; Read gives the runs back, added up
// over their tables. The table holds counts, times and reasons, and never a key
// or a value of a row.
//
// Runs may be appended by several at once, beside a sink: a commit that lost
// the race for the table is made anew. When the table has many small files they
// are put together, and runs of more than a year ago go.
package history

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	iceberglib "github.com/apache/iceberg-go"
	icecatalog "github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"

	"icehose/catalog"
	lake "icehose/catalog/iceberg"
	"icehose/internal/canon/canonarrow"
	"icehose/reconcile"
)

// Name is the name of the table, in the database of the pipeline file.
const Name = "icehose_reconcile_runs"

// A Run is one run, over all of its tables.
type Run struct {
	ID      string
	Began   time.Time
	Ended   time.Time
	Verdict reconcile.Verdict
	// Tables, Different and Inconclusive count tables; Findings counts the rows
	// of all findings.
	Tables, Different, Inconclusive int
	Findings                        uint64
	// Partial says that of some table not all rows were meant: a sample, or
	// chosen keys.
	Partial bool
}

// Of returns what Read will give back of a report.
func Of(r *reconcile.Report) Run {
	run := Run{Began: r.Began, Ended: r.Ended, Verdict: r.Verdict()}
	for i := range r.Tables {
		run.add(r.Tables[i].Verdict, r.Tables[i].Counts.Total(), r.Tables[i].Partial())
	}
	return run
}

func (r *Run) add(verdict reconcile.Verdict, findings uint64, partial bool) {
	r.Tables++
	r.Partial = r.Partial || partial
	r.Findings += findings
	switch verdict {
	case reconcile.Different:
		r.Different++
	case reconcile.Equal:
	case reconcile.Inconclusive:
		r.Inconclusive++
	default: // a table that was not compared
		r.Inconclusive++
	}
}

// attempts is how often a commit is made anew because another one came first.
const attempts = 10

// Append adds a run to the table of database, which is created if there is
// none, and puts the table's files together when there are many. It returns the
// run's id, which is not empty when the run was appended, whatever came after.
// The report must have its times (reconcile.Options.Now).
func Append(ctx context.Context, l *lake.Lake, database string, r *reconcile.Report) (id string, err error) {
	if r.Began.IsZero() {
		return "", errors.New("append to history: the report has no times")
	}
	id = rand.Text()
	for n := 1; ; n++ {
		if err = appendRun(ctx, l, database, id, r); err == nil {
			if err = tidy(ctx, l, database, r.Ended); err != nil {
				err = fmt.Errorf("tidy history %s.%s: %w", database, Name, err)
			}
			return id, err
		}
		if n == attempts || !errors.Is(err, table.ErrCommitFailed) {
			return "", fmt.Errorf("append to history %s.%s: %w", database, Name, err)
		}
	}
}

func appendRun(ctx context.Context, l *lake.Lake, database, id string, r *reconcile.Report) error {
	target, err := open(ctx, l, database)
	if err != nil {
		return err
	}
	arrowSchema, err := table.SchemaToArrowSchema(target.Schema(), nil, false, false)
	if err != nil {
		return fmt.Errorf("make rows: %w", err)
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrowSchema)
	defer b.Release()
	for i := range r.Tables {
		values := rowOf(id, r, &r.Tables[i])
		for at, field := range arrowSchema.Fields() {
			c := slices.IndexFunc(columns, func(c column) bool { return c.name == field.Name })
			if c < 0 { // a newer program has more columns
				b.Field(at).AppendNull()
				continue
			}
			if err := canonarrow.AppendToBuilder(b.Field(at), catalog.Type{Kind: columns[c].kind}, values[c]); err != nil {
				return fmt.Errorf("make rows: column %s: %w", field.Name, err)
			}
		}
	}
	batch := b.NewRecordBatch()
	defer batch.Release()
	rows, err := array.NewRecordReader(arrowSchema, []recordBatch{batch})
	if err != nil {
		return fmt.Errorf("make rows: %w", err)
	}
	defer rows.Release()
	_, err = target.Append(ctx, rows, iceberglib.Properties{"icehose.reconcile-run": id})
	return err
}

// open loads the table, or creates it.
func open(ctx context.Context, l *lake.Lake, database string) (*table.Table, error) {
	name := icecatalog.ToIdentifier(database, Name)
	opened, err := l.Tables.LoadTable(ctx, name)
	if err == nil {
		return evolve(ctx, opened)
	}
	if !missing(err) {
		return nil, fmt.Errorf("load table: %w", err)
	}
	namespace := icecatalog.ToIdentifier(database)
	exists, err := l.Tables.CheckNamespaceExists(ctx, namespace)
	if err == nil && !exists {
		if err = l.Tables.CreateNamespace(ctx, namespace, nil); errors.Is(err, icecatalog.ErrNamespaceAlreadyExists) {
			err = nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("create namespace: %w", err)
	}
	options := []icecatalog.CreateTableOpt{icecatalog.WithProperties(iceberglib.Properties{
		table.PropertyFormatVersion: "2", table.MetadataDeleteAfterCommitEnabledKey: "true", table.MetadataPreviousVersionsMaxKey: "20",
	})}
	if l.Location != "" {
		options = append(options, icecatalog.WithLocation(l.Location+"/"+database+"/"+Name))
	}
	opened, err = l.Tables.CreateTable(ctx, name, schema(), options...)
	if errors.Is(err, icecatalog.ErrTableAlreadyExists) {
		return l.Tables.LoadTable(ctx, name)
	}
	if err != nil {
		return nil, fmt.Errorf("create table: %w", err)
	}
	return opened, nil
}

func missing(err error) bool {
	return errors.Is(err, icecatalog.ErrNoSuchTable) || errors.Is(err, icecatalog.ErrNoSuchNamespace)
}

// evolve adds the columns that a table of an older program does not have.
func evolve(ctx context.Context, opened *table.Table) (*table.Table, error) {
	tx := opened.NewTransaction()
	update := tx.UpdateSchema(true, false)
	lacks := false
	for _, c := range columns {
		if _, ok := opened.Schema().FindFieldByName(c.name); !ok {
			update.AddColumn([]string{c.name}, icebergType(c.kind), c.doc, false, nil)
			lacks = true
		}
	}
	if !lacks {
		return opened, nil
	}
	if err := update.Commit(); err != nil {
		return nil, fmt.Errorf("add columns: %w", err)
	}
	opened, err := tx.Commit(ctx)
	if err != nil {
		return nil, fmt.Errorf("add columns: %w", err)
	}
	return opened, nil
}

// Read returns the newest runs that began since then, the oldest of them first;
// none if there is no table yet.
func Read(ctx context.Context, l *lake.Lake, database string, limit int, since time.Time) ([]Run, error) {
	opened, err := l.Tables.LoadTable(ctx, icecatalog.ToIdentifier(database, Name))
	if missing(err) {
		return nil, nil
	}
	var runs map[string]*Run
	if err == nil && opened.CurrentSnapshot() != nil {
		runs, err = scan(ctx, opened, since)
	}
	if err != nil {
		return nil, fmt.Errorf("read history %s.%s: %w", database, Name, err)
	}
	sorted := make([]Run, 0, len(runs))
	for _, run := range runs {
		sorted = append(sorted, *run)
	}
	slices.SortFunc(sorted, func(a, b Run) int { return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.ID, b.ID)) })
	return sorted[max(0, len(sorted)-limit):], nil
}

// scan adds up the rows of each run.
func scan(ctx context.Context, t *table.Table, since time.Time) (map[string]*Run, error) {
	names := make([]string, len(readColumns))
	for i, c := range readColumns {
		names[i] = c.Name
	}
	_, batches, err := t.Scan(table.WithSelectedFields(names...), table.WithRowFilter(from(since)), table.WithMaxConcurrency(1)).ToArrowRecords(ctx)
	if err != nil {
		return nil, err
	}
	runs := map[string]*Run{}
	reader := canonarrow.NewRowReader(readColumns)
	for batch, err := range batches {
		if err != nil {
			return nil, err
		}
		for row, err := range reader.Rows(batch) {
			if err != nil {
				return nil, err
			}
			if err := count(runs, row); err != nil {
				return nil, err
			}
		}
	}
	return runs, nil
}
