// Package merge keeps the current table of a changelog: the rows that the fold
// of the changelog gives, brought up to date from what is new in it.
//
// In come the lake tables of a changelog and of its current rows
// (catalog.Table.Current); out go commits of the current table. Every run folds
// the keys that new files speak of anew, over the whole changelog, so that it
// may be repeated, and rows may arrive in any order. How far it has read is noted
// with the rows: in the same commit where the engine can (Local, Spark), just
// after it otherwise (Athena), which only makes the next run do work again.
//
// Three engines do the work: Local, in this process, with memory for the keys
// that are touched; Spark, by a script that reads the notes itself; Athena, by
// statements sent through the AWS SDK. Their notes are the same, so that one can
// go on where another has stopped.
//
// Nothing here shrinks a table: see artifact.Retention and the sink's
// maintenance. A rollback of the current table to an older snapshot is not
// noticed: Options.Rebuild puts it right.
package merge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	icecatalog "github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"

	"icehose/catalog"
	"icehose/catalog/artifact"
	lake "icehose/catalog/iceberg"
	"icehose/cdc"
)

// Tag is the tag that a merge leaves on the snapshot of the changelog up to
// which it has read, so that expiry keeps the list of its files for the next
// run, for as long as tagAge.
const Tag = "icehose_merged"

// tagAge is when a tag that no merge renews expires, in milliseconds: 30 days.
const tagAge = 30 * 24 * 60 * 60 * 1000

// ErrRefused is wrapped when a merge cannot know what is right. Nothing was
// changed, and the text says what to do.
var ErrRefused = errors.New("refused")

// Options are the settings of a run.
type Options struct {
	// Rebuild folds every key, whatever is noted, and removes rows that the
	// changelog does not have. A run does so by itself when the table has other
	// columns or defaults than before.
	Rebuild bool
	// Parts is in how many statements Athena does a first merge, one after the
	// other: it ends a statement after 30 minutes. Each reads the whole changelog.
	// Default 1.
	Parts int

	// whole says that the engine writes whole rows, and so needs a current table
	// that has no other columns than those of the changelog.
	whole bool
}

// A Result says what a run did to one table.
type Result struct {
	Table   string `json:"table"`   // database.table of the changelog
	Current string `json:"current"` // database.table of the current table
	From    int64  `json:"from"`    // snapshot of the changelog up to which was read before; 0 for none
	To      int64  `json:"to"`      // and now
	Read    int64  `json:"read"`    // rows of the changelog that are new since From
	Changed int64  `json:"changed"` // rows of the current table inserted or updated
	Deleted int64  `json:"deleted"` // rows of the current table deleted
	// Late counts rows read that lie at or below a position merged before.
	Late int64 `json:"late"`
	// Regressed counts changes that were committed well after the newest change
	// merged before, and yet lie below it: the source's numbering has restarted
	// and no epoch says so. Where one run has read both, a warning says so: within
	// a run it may be no more than a clock that was set back.
	Regressed int64 `json:"regressed,omitempty"`
	// Scanned is how many bytes Athena says it has read.
	Scanned int64 `json:"scanned_bytes,omitempty"`
	// Warnings are what failed without harm to the rows.
	Warnings []string `json:"warnings,omitempty"`
}

// A plan is what a run starts from.
type plan struct {
	t            *catalog.Table
	log, current *table.Table // current is nil if there is none yet
	from, to     int64        // snapshots of the changelog, 0 for none
	expected     int64        // newest snapshot of the current table, 0 for none
	noted        bool         // there is a note
	property     string       // PropertyMerged of the current table
	position     string       // greatest position merged before
	change       newest       // of the changes merged before
	rebuild      bool
	parts        int
	missing      []catalog.Column // that the current table has not yet
	moves        []lake.Action    // to be done with its columns before anything else
	placed       []place          // its columns after that
	scan         *table.Scan      // of the changelog at to
	tasks        []table.FileScanTask
	added        []table.FileScanTask // those of files with rows that from has not
	rewritten    []string             // files that from has not, whose rows it has
}

// saw notes the newest change of those that are new, and when the latest of them
// was committed; below counts those that lie at or below the newest one before,
// and were committed more than artifact.RegressSeconds after it. Commit times of one
// run that fall behind its positions are a warning: the source's clock may have
// been wrong, or a transaction long.
func (p *plan) saw(n newest, latest, below int64, result *Result) {
	result.Regressed += below
	if n.position > p.change.position {
		p.change = n
	}
	if below == 0 && p.change.position != "" && latest > p.change.seconds+artifact.RegressSeconds {
		result.Warnings = append(result.Warnings, outOfStep)
	}
}

// outOfStep warns of what one run alone cannot tell from a restarted numbering.
const outOfStep = "changes were committed more than 15 minutes after the newest one and yet lie below it: a clock that was wrong, or a long transaction; " +
	"if the source was restored or has failed over, put the time of it into epochs: of the pipeline file and deliver the changes since then again"

// newPlan reads the notes and finds what is new.
func newPlan(ctx context.Context, tables lake.Tables, t *catalog.Table, o Options) (*plan, error) {
	p := &plan{t: t, rebuild: o.Rebuild, parts: o.Parts, change: newest{seconds: never}}
	var err error
	if p.log, err = tables.LoadTable(ctx, icecatalog.ToIdentifier(t.Database(), t.Name())); err != nil {
		return nil, fmt.Errorf("load changelog: %w", err)
	}
	if err := checkColumns(p.log, t); err != nil {
		return nil, err
	}
	if err := lake.CheckMeaning(t, p.log); err != nil {
		return nil, fmt.Errorf("%w: the changelog: %w", ErrRefused, err)
	}
	current := t.Current()
	p.current, err = tables.LoadTable(ctx, icecatalog.ToIdentifier(current.Database(), current.Name()))
	if err != nil && !errors.Is(err, icecatalog.ErrNoSuchTable) && !errors.Is(err, icecatalog.ErrNoSuchNamespace) {
		return nil, fmt.Errorf("load current table: %w", err)
	}
	if err != nil {
		p.current = nil
	}
	if head := p.log.CurrentSnapshot(); head != nil {
		p.to = head.SnapshotID
	}
	if err := p.readNotes(o); err != nil {
		return nil, err
	}
	return p, p.findFiles(ctx)
}

// checkColumns refuses a changelog that has not the columns that a fold needs.
func checkColumns(log *table.Table, t *catalog.Table) error {
	columns, _ := t.LakeColumns()
	for _, c := range columns {
		if _, ok := log.Schema().FindFieldByName(c.Name); !ok {
			return fmt.Errorf("%w: the changelog has no column %s: icehose catalog apply adds it, or the table is no changelog", ErrRefused, c.Name)
		}
	}
	return nil
}

// checkKind refuses changes whose position is not of the table's kind, unless a
// later epoch has begun: stranger is the greatest of them, highest the greatest
// position of all that is new, each "" for none.
func (p *plan) checkKind(stranger, highest string) error {
	greatest := max(p.position, highest)
	if stranger == "" || cdc.Position(stranger).Epoch() < cdc.Position(greatest).Epoch() {
		return nil
	}
	return fmt.Errorf("%w: the changelog has changes with two kinds of position: %s is none of kind %s, which the pipeline file says, and the two do not compare: "+
		"delete the changes of the other kind, or give the newer ones an epoch (epochs: in the pipeline file) and deliver them again, then icehose merge --rebuild; "+
		"where an epoch has been given, wait for its first change",
		ErrRefused, stranger, p.t.Position)
}

// hasRows reports whether a snapshot may have rows: Trino begins a table with
// one that has none.
func hasRows(s *table.Snapshot) bool {
	return s != nil && summaryCount(s, "total-records") != 0
}

// done reports that nothing is new.
func (p *plan) done() bool { return p.to == 0 || p.to == p.from && !p.rebuild }

func (p *plan) result() *Result {
	name := func(t *catalog.Table) string { return t.Database() + "." + t.Name() }
	return &Result{Table: name(p.t), Current: name(p.t.Current()), From: p.from, To: p.to, Warnings: unfinished(p.t)}
}

// A committer is a catalog that takes changes of a table's metadata.
type committer interface {
	CommitTable(ctx context.Context, id table.Identifier, requirements []table.Requirement, updates []table.Update) (table.Metadata, string, error)
}

// tag keeps the snapshot that was merged from expiring, unless it or a newer one
// is tagged already. That it could not be set is no reason to say that the merge
// failed: the result warns, and the next run tries again, with nothing new too.
func (p *plan) tag(ctx context.Context, tables lake.Tables, result *Result) {
	c, ok := tables.(committer)
	if !ok || p.to == 0 {
		return
	}
	update := table.NewSetSnapshotRefUpdate(Tag, p.to, table.TagRef, tagAge, 0, 0)
	log := p.log
	for n := 1; ; n++ {
		var before *int64
		if at := log.SnapshotByName(Tag); at != nil {
			to := log.SnapshotByID(p.to)
			if at.SnapshotID == p.to || to != nil && at.SequenceNumber > to.SequenceNumber {
				return
			}
			before = &at.SnapshotID
		}
		_, _, err := c.CommitTable(ctx, log.Identifier(), []table.Requirement{table.AssertRefSnapshotID(Tag, before)}, []table.Update{update})
		if err == nil {
			return
		}
		if n == attempts || ctx.Err() != nil {
			result.Warnings = append(result.Warnings, fmt.Sprintf("the rows are merged, but snapshot %d of the changelog has no tag %s, so it may expire before the next run: %v", p.to, Tag, err))
			return
		}
		if loaded, err := tables.LoadTable(ctx, log.Identifier()); err == nil {
			log = loaded
		}
	}
}

// failed names the table in an error.
func failed(t *catalog.Table, err error) error {
	return fmt.Errorf("merge %s.%s: %w", t.Database(), t.Name(), err)
}

// unresolvedNames lists columns as the current table does.
func unresolvedNames(columns []catalog.Column, unknown []int) []byte {
	names := make([]string, 0, len(unknown))
	for _, i := range slices.Sorted(slices.Values(unknown)) {
		names = append(names, columns[i].Name)
	}
	if len(names) == 0 {
		return nil
	}
	return []byte(strings.Join(names, ","))
}
