package iceberg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/apache/iceberg-go/table"

	"icehose/catalog"
	"icehose/sink"
)

// Maintenance says how tables are kept small and quick to plan. The zero value
// means the defaults.
type Maintenance struct {
	// TargetFileSize is the size in bytes that data files are put together to;
	// default 128 MiB. Files of three quarters of it are left alone.
	TargetFileSize int64
	// MinFiles is how many small data files of a partition make a rewrite
	// worthwhile; default 8.
	MinFiles int
	// DeleteFiles is how many delete files of a partition make one; default 8.
	DeleteFiles int
	// DeleteRatio is the part of a partition's rows, from 0 to 1, that delete
	// files must speak of before even large files are rewritten; default 0.2.
	DeleteRatio float64
	// MaxRewrite bounds the bytes of data files that one commit rewrites;
	// default 1 GiB. What is left is the next run's.
	MaxRewrite int64
	// Retention says which snapshots stay.
	Retention Retention
	// OrphanAge is how old a file that nothing speaks of must be before it is
	// removed: a younger one may belong to a load or a commit that is being made.
	// Default 72 hours, at least MinOrphanAge.
	OrphanAge time.Duration
	// Every is how many files a table gains between two runs of a Maintainer;
	// default 32.
	Every int
	// SkipCompact, SkipExpire and SkipOrphans leave a step out.
	SkipCompact, SkipExpire, SkipOrphans bool
	// Plan changes nothing: the report says what would be done.
	Plan bool
	// Progress is told of each data file that was rewritten.
	Progress func(files int, bytes int64)

	planned func() // called when orphans were looked for, before any is removed
	loose   bool   // sizes and ratios may be what makes no sense
}

// MinOrphanAge is the least Maintenance.OrphanAge. A load of a large table
// writes files for hours before its only commit names them; one that takes
// longer than this notices at that commit that they are gone.
const MinOrphanAge = 24 * time.Hour

func (m *Maintenance) defaults() error {
	setDefault(&m.TargetFileSize, 128<<20)
	setDefault(&m.MinFiles, 8)
	setDefault(&m.DeleteFiles, 8)
	setDefault(&m.DeleteRatio, 0.2)
	setDefault(&m.MaxRewrite, 1<<30)
	setDefault(&m.OrphanAge, 72*time.Hour)
	setDefault(&m.Every, 32)
	switch {
	case m.TargetFileSize < 1<<20 && !m.loose:
		return errors.New("target file size: want 1 MiB or more")
	case m.MinFiles < 2 || m.DeleteFiles < 1 || m.Every < 1:
		return errors.New("files that make a rewrite: want 2 or more; delete files and files between runs: 1 or more")
	case m.DeleteRatio <= 0 || m.DeleteRatio > 1 && !m.loose:
		return errors.New("delete ratio: want a number above 0, up to 1")
	case m.MaxRewrite < m.TargetFileSize:
		return errors.New("bytes to rewrite in one commit: want the target file size or more")
	case m.OrphanAge < MinOrphanAge:
		return fmt.Errorf("orphan age: want %s or more, since a younger file may belong to a load or a commit that is being made", MinOrphanAge)
	}
	return m.Retention.Check()
}

// Check reports what is wrong with the settings.
func (m Maintenance) Check() error { return m.defaults() }

func setDefault[T int | int64 | float64 | time.Duration](value *T, standard T) {
	if *value == 0 {
		*value = standard
	}
}

// A MaintenanceReport says what was done to a table, or would be (Planned).
type MaintenanceReport struct {
	Table            string     `json:"table"` // database.table
	Planned          bool       `json:"planned"`
	Before           Layout     `json:"before"`
	After            *Layout    `json:"after,omitempty"` // nil when Planned
	Rewrites         []Rewrite  `json:"rewrites"`
	Manifests        int        `json:"manifests_rewritten"`
	ExpiredSnapshots int        `json:"expired_snapshots"`
	Orphans          []Leftover `json:"orphans"`

	files int64 // summaryFiles afterwards
}

// A Rewrite is one commit that replaced files by fewer.
type Rewrite struct {
	Why         RewriteReason `json:"why"`
	Partition   string        `json:"partition,omitempty"`
	DataFiles   int           `json:"data_files"`   // replaced
	DeleteFiles int           `json:"delete_files"` // removed
	Bytes       int64         `json:"bytes"`        // of the data files replaced
	Rows        int64         `json:"rows"`         // in them, deleted ones included
	// Carried says that older data files stay, and the deletes that act on them
	// were put together.
	Carried bool `json:"carried,omitempty"`
}

// A RewriteReason says why files are rewritten.
type RewriteReason string

// The reasons.
const (
	SmallFiles  RewriteReason = "small_files"  // many small data files, or many delete files
	DeletedRows RewriteReason = "deleted_rows" // too large a part of the rows is deleted
	DeadDeletes RewriteReason = "dead_deletes" // delete files that no data file is old enough for
	// OldPartitions are data files of a former partitioning, in which equality
	// deletes of the newest find no row.
	OldPartitions RewriteReason = "old_partitions"
)

// A Leftover is a file that nothing speaks of.
type Leftover struct {
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
}

// Maintain compacts t, expires its snapshots and removes orphans. Every commit
// of it keeps the sink's notes, so a sink that goes on afterwards is not
// fenced, and leaves the rows as they are: whatever interrupts it, the table is
// valid, and a file that was written in vain is an orphan.
//
// A rival writer that commits in between makes it plan anew, a few times;
// then it gives up with an error that wraps sink.ErrConflict. What was
// committed until then stays.
func (s *Store) Maintain(ctx context.Context, t *catalog.Table, m Maintenance) (*MaintenanceReport, error) {
	report, err := s.maintainTable(ctx, t, m)
	if err != nil {
		return report, fmt.Errorf("maintain table %s.%s: %w", t.Database(), t.Name(), oneLine(err))
	}
	return report, nil
}

func (s *Store) maintainTable(ctx context.Context, t *catalog.Table, m Maintenance) (*MaintenanceReport, error) {
	if err := m.defaults(); err != nil {
		return nil, err
	}
	if s.readOnly && !m.Plan {
		return nil, errors.New("lake is open for reading only")
	}
	k := &keeper{store: s, table: t, m: m, done: make(map[string]bool), whole: make(map[string]bool), report: &MaintenanceReport{Table: t.Database() + "." + t.Name(), Planned: m.Plan, Rewrites: []Rewrite{}, Orphans: []Leftover{}}}
	if err := k.layout(ctx, &k.report.Before); err != nil {
		return nil, err
	}
	for _, step := range []struct {
		skip bool
		run  func(context.Context) error
	}{{m.SkipCompact, k.compact}, {m.SkipCompact, k.mergeManifests}, {m.SkipExpire, k.expire}, {m.SkipOrphans, k.removeOrphans}} {
		if step.skip {
			continue
		}
		if err := step.run(ctx); err != nil {
			return k.report, err
		}
	}
	if m.Plan {
		return k.report, nil
	}
	after := Layout{}
	if err := k.layout(ctx, &after); err != nil {
		return k.report, err
	}
	k.report.After = &after
	return k.report, nil
}

// A keeper is one run of maintenance over one table.
type keeper struct {
	store  *Store
	table  *catalog.Table
	m      Maintenance
	report *MaintenanceReport
	done   map[string]bool // by partition: its small files were put together
	whole  map[string]bool // manifests that checkSnapshots has read
	seen   *liveFiles      // of the snapshot that was read last
	seenID int64
}

func (k *keeper) current(ctx context.Context) (*table.Table, error) {
	current, err := k.store.catalog.LoadTable(ctx, identifier(k.table))
	if err != nil {
		return nil, fmt.Errorf("load table: %w", err)
	}
	return current, nil
}

// live reads the files of the newest snapshot, or gives them again: what a
// snapshot has never changes.
func (k *keeper) live(ctx context.Context, current *table.Table) (*liveFiles, error) {
	id := snapshotID(current)
	if k.seen != nil && k.seenID == id {
		return k.seen, nil
	}
	live, err := readLive(ctx, current)
	if err != nil {
		return nil, err
	}
	k.seen, k.seenID = live, id
	return live, nil
}

// read reads the table and its files as they are now.
func (k *keeper) read(ctx context.Context) (*table.Table, *liveFiles, error) {
	current, err := k.current(ctx)
	if err != nil {
		return nil, nil, err
	}
	live, err := k.live(ctx, current)
	return current, live, err
}

// layout reads the layout as it is now.
func (k *keeper) layout(ctx context.Context, l *Layout) error {
	current, live, err := k.read(ctx)
	if err != nil {
		return err
	}
	*l, k.report.files = live.layout(current), summaryFiles(current)
	return nil
}

// maintenanceID is the property, in the summary of a snapshot that maintenance
// made, that tells such snapshots from those of a sink.
const maintenanceID = sink.PropertyPrefix + "maintenance-id"

// manifestsAt is the number of manifests of a snapshot at which they are merged.
const manifestsAt = 16

func (k *keeper) mergeManifests(ctx context.Context) error {
	current, live, err := k.read(ctx) // checked
	if err != nil || live.manifests < manifestsAt {
		return err
	}
	k.report.Manifests = live.manifests
	if k.m.Plan {
		return nil
	}
	_, err = mergeManifests(ctx, current)
	return err
}

// rewriteManifests merges the data manifests of the current snapshot, unless one
// is damaged: what it has lost would be lost for good.
func rewriteManifests(ctx context.Context, current *table.Table) (*table.Table, error) {
	if _, err := readLive(ctx, current); err != nil {
		return nil, fmt.Errorf("rewrite manifests: %w", err)
	}
	return mergeManifests(ctx, current)
}

func mergeManifests(ctx context.Context, current *table.Table) (*table.Table, error) {
	tx := current.NewTransaction()
	if _, err := tx.RewriteManifests(ctx); err != nil {
		return nil, fmt.Errorf("rewrite manifests: %w", err)
	}
	current, err := tx.Commit(ctx)
	if err != nil {
		return nil, fmt.Errorf("rewrite manifests: %w", conflict(err))
	}
	return current, nil
}

func (k *keeper) expire(ctx context.Context) error {
	current, err := k.current(ctx)
	if err != nil {
		return err
	}
	if k.m.Plan {
		// The library knows which snapshots are kept: ask a transaction that is not committed.
		tx := current.NewTransaction()
		e := k.m.Retention.expiry(current, now())
		if err := e.stage(tx); err != nil {
			return fmt.Errorf("expire snapshots: %w", err)
		}
		staged, err := tx.StagedTable()
		if err != nil {
			return fmt.Errorf("expire snapshots: %w", err)
		}
		k.report.ExpiredSnapshots = len(current.Metadata().Snapshots()) - len(staged.Metadata().Snapshots())
		return nil
	}
	k.report.ExpiredSnapshots, err = expireSnapshots(ctx, current, k.m.Retention, now())
	return err
}

// conflict marks an error of the library as the sink's, where it says that
// nothing was committed because somebody else had changed the table.
func conflict(err error) error {
	if errors.Is(err, table.ErrCommitFailed) {
		return fmt.Errorf("%w: %w", sink.ErrConflict, err)
	}
	return err
}

// A Maintainer keeps the tables of a store small while a sink writes them. Its
// Run must not overlap a commit of the same tables.
type Maintainer struct {
	store   *Store
	tables  []*catalog.Table
	m       Maintenance
	files   []int64 // per table: summaryFiles after its last run
	orphans bool    // orphans were looked for
}

// NewMaintainer returns a Maintainer of the tables.
func (s *Store) NewMaintainer(tables []*catalog.Table, m Maintenance) (*Maintainer, error) {
	if err := m.defaults(); err != nil {
		return nil, fmt.Errorf("maintain tables: %w", err)
	}
	return &Maintainer{store: s, tables: tables, m: m, files: make([]int64, len(tables))}, nil
}

// Run maintains the tables that have gained Maintenance.Every files since the
// last run, or have many snapshots to expire, and logs what it did. It looks for orphans
// in its first run only. All tables are tried; a conflict with another writer
// is no error, since the next run comes. A done context ends it between two
// commits.
func (m *Maintainer) Run(ctx context.Context) error {
	var all error
	for i, t := range m.tables {
		if ctx.Err() != nil {
			break // what was begun is whole
		}
		all = errors.Join(all, m.runTable(ctx, i, t))
	}
	m.orphans = true
	return all
}

func (m *Maintainer) runTable(ctx context.Context, i int, t *catalog.Table) error {
	current, err := m.store.catalog.LoadTable(ctx, identifier(t))
	if err != nil {
		return fmt.Errorf("maintain table %s.%s: %w", t.Database(), t.Name(), oneLine(err))
	}
	// Compaction by another, and totals that another counts otherwise, may make it less.
	files := summaryFiles(current)
	m.files[i] = min(m.files[i], files)
	due := files-m.files[i] >= int64(m.m.Every) || m.m.Retention.expiry(current, now()).gone >= expireEvery
	if !due && m.orphans {
		return nil
	}
	settings := m.m
	settings.SkipOrphans = settings.SkipOrphans || m.orphans
	settings.SkipCompact = settings.SkipCompact || !due
	settings.SkipExpire = settings.SkipExpire || !due
	report, err := m.store.Maintain(ctx, t, settings)
	switch {
	case errors.Is(err, sink.ErrConflict), err != nil && ctx.Err() != nil:
		m.store.log.InfoContext(ctx, "maintenance put off", slog.String("table", t.Database()+"."+t.Name()), slog.String("error", err.Error()))
		return nil //nolint:nilerr // the next run comes
	case err != nil:
		return err
	}
	m.files[i] = report.files
	m.store.log.InfoContext(ctx, "table maintained", slog.String("table", report.Table), slog.Int("rewrites", len(report.Rewrites)),
		slog.Int("data_files", report.After.DataFiles), slog.Int("delete_files", report.After.DeleteFiles),
		slog.Int("expired_snapshots", report.ExpiredSnapshots), slog.Int("orphans", len(report.Orphans)))
	return nil
}
