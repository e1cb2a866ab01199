// Package job is a comparison as a program runs it: what icehose reconcile and
// the reconcile Lambda have in common.
//
// In come the flags of a kong command, or the variables of a Lambda function,
// that say what the source is and how the sides are compared, a pipeline file
// and an open lake. Out go the source's Reader, the Report, and a page of the
// report beside the runs that the lake remembers. Each program does by itself
// what the other does not do: where reports and checkpoints lie, and who is told.
package job

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"icehose/catalog"
	icelake "icehose/catalog/iceberg"
	"icehose/internal/lakeplace"
	"icehose/reconcile"
	"icehose/reconcile/history"
	"icehose/reconcile/html"
	"icehose/reconcile/lake"
)

// Settings say how the sides are compared.
type Settings struct {
	Version     string        `name:"version-column" help:"A column that grows with every change of a row: a row that is older in the lake is stale, and by how much." placeholder:"COLUMN"`
	Settle      time.Duration `default:"30s" help:"Of a live source: how far the lake must have come past the last change of a row before a difference counts. More than shards are ever apart. 0: every difference counts at once."`
	SettleIdle  time.Duration `help:"The same for what says less: how long neither side must have moved, or by how much another table of the lake must be ahead. More than a table waits for its commit; default 15m. Of a --lake, or where icehose sink writes all tables, default --settle." placeholder:"DURATION"`
	Retries     int           `default:"20" help:"How many times keys that differ are looked at again: 2 or more."`
	Heartbeat   string        `help:"A table of the pipeline with a row for every shard, which somebody keeps updating: changes older than its oldest row have left every shard. Nothing that is younger counts as lost." placeholder:"TABLE"`
	SliceRows   int64         `default:"50000000" help:"Rows of a table that are read at one moment: a larger table is compared, and kept in the checkpoint, in slices."`
	MaxFindings int           `default:"1000" help:"Findings that are kept by key, of each table. All are counted."`
	Concurrency int           `default:"2" help:"Tables that are compared at a time."`

	Local bool `kong:"-"` // the lake is a folder that nobody but icehose writes
}

// defaultIdle is more than Firehose keeps rows of a table before it commits them.
const defaultIdle = 15 * time.Minute

// idle is SettleIdle or its default, of a lake of which no sink says how far all
// tables are.
func (s *Settings) idle() time.Duration {
	if s.SettleIdle > 0 || s.Local {
		return s.SettleIdle
	}
	return defaultIdle
}

// Check refuses what makes no sense.
func (s *Settings) Check() error {
	switch {
	case s.MaxFindings < 1 || s.Concurrency < 1:
		return errors.New("--max-findings and --concurrency: want 1 or more")
	case s.SettleIdle < 0:
		return errors.New("--settle-idle: want nothing negative")
	case s.Settle < 0 || s.Retries < 0 || s.SliceRows < 0:
		return errors.New("--settle, --retries and --slice-rows: want nothing negative")
	case s.Settle > 0 && s.Retries < 2:
		return errors.New("--retries: want 2 or more, since a key counts when two looks found it the same; --settle 0 looks once")
	}
	return nil
}

// A roleChecker is a source that can refuse what it is said to be, once it knows
// its heartbeat table.
type roleChecker interface {
	CheckRole(ctx context.Context) error
}

// Run compares the tables of p. o says what is compared, and what it may use,
// its clock too, and in Identity the place of the lake; the rest of it is filled
// in. A source that is not live is compared at once.
func (s *Settings) Run(ctx context.Context, p *catalog.Pipeline, source Reader, store lake.Store, o reconcile.Options) (*reconcile.Report, error) {
	o.Version, o.Settle, o.Retries, o.SliceRows = s.Version, s.Settle, s.Retries, s.SliceRows
	o.MaxFindings, o.Concurrency = s.MaxFindings, s.Concurrency
	if source.Rows > 0 {
		most := max(source.Rows/int64(max(s.Concurrency, 1)), 1)
		o.MaxRows = int(min(most, reconcile.DefaultMaxRows))
		if o.SliceRows == 0 || most < o.SliceRows {
			o.SliceRows = most
		}
	}
	o.Identity = strings.Join([]string{source.place, s.Heartbeat, s.idle().String(), o.Identity}, "\n")
	if s.Version != "" && !HasColumn(p, s.Version) {
		return nil, fmt.Errorf("--version-column: no table of the pipeline file has a column %s", s.Version)
	}
	if !source.Live {
		o.Settle = 0
	}
	reader := lake.Open(store)
	var beat *catalog.Table
	if s.Heartbeat != "" {
		at := slices.IndexFunc(p.Tables, func(t *catalog.Table) bool { return t.Source == s.Heartbeat })
		if at < 0 {
			return nil, fmt.Errorf("--heartbeat: the pipeline file has no table %q", s.Heartbeat)
		}
		beat = p.Tables[at]
		if follower, ok := source.Reader.(interface{ Heartbeat(t *catalog.Table) }); ok {
			follower.Heartbeat(beat)
		}
	}
	if source, ok := source.Reader.(roleChecker); ok {
		if err := source.CheckRole(ctx); err != nil {
			return nil, fmt.Errorf("--source-role: %w", err)
		}
	}
	if reached, _ := lake.Reached(ctx, store, p); reached == "" {
		o.Idle = s.idle()
	}
	o.Watermark = func(ctx context.Context) (w reconcile.Watermark, err error) {
		// The sink's record is evidence beside others: without it, they decide.
		w.Position, _ = lake.Reached(ctx, store, p)
		if beat != nil {
			if w.Time, err = reader.Oldest(ctx, beat); w.Time.IsZero() {
				w.Time = time.Unix(0, 0) // nothing has arrived: that is known
			}
		}
		return w, err
	}
	return reconcile.Run(ctx, p, source, reader, o)
}

// HasColumn reports whether a table of p has a column of this name in the lake.
func HasColumn(p *catalog.Pipeline, name string) bool {
	for _, t := range p.Tables {
		for _, c := range t.Columns {
			if c.Name == name && !c.Exclude {
				return true
			}
		}
	}
	return false
}

// Database is the database of the lake that remembers the runs of p.
func Database(p *catalog.Pipeline) string {
	if p.Database == "" && len(p.Tables) > 0 {
		return p.Tables[0].Database()
	}
	return p.Database
}

// Remember appends a report to the history in the database, beside whoever
// writes other tables. remembered says that it is there, whatever failed then.
func Remember(ctx context.Context, place *lakeplace.Flags, database string, r *reconcile.Report) (remembered bool, err error) {
	store, err := place.OpenBeside(ctx)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	id, err := history.Append(ctx, store.Tables(), database, r)
	return id != "", err
}

// pastRuns is how many runs a page shows, and pastTime how old they are at most.
const (
	pastRuns = 60
	pastTime = 120 * 24 * time.Hour
)

// Page returns a report as one HTML page under a name, beside the runs that
// the database remembers; remembered says that this one is among them.
func Page(ctx context.Context, l *icelake.Lake, database, name string, r *reconcile.Report, remembered bool) ([]byte, error) {
	runs, err := history.Read(ctx, l, database, pastRuns, r.Began.Add(-pastTime))
	if err != nil {
		return nil, err
	}
	if !remembered {
		runs = append(runs, history.Of(r))
	}
	var page bytes.Buffer
	if err := html.Write(&page, &html.Page{Report: r, Name: name, Runs: runs}); err != nil {
		return nil, err
	}
	return page.Bytes(), nil
}
