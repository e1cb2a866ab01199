package sink

import (
	"time"

	"icehose/cdc"
)

// TableStats counts what became of the rows of one table since Open.
// Delivered is the sum of Applied, Collapsed, Superseded, Skipped, Rejected and
// the rows still buffered.
type TableStats struct {
	Database, Table string
	Delivered       int64 // rows handed to Deliver
	Applied         int64 // committed, deletes included
	Collapsed       int64 // replaced by a later change of the key before they were committed
	Superseded      int64 // older than, or the same as, what the table holds or held
	Skipped         int64 // of a record handled before
	Rejected        int64
	// Regressed counts changes that were committed later than others at higher
	// positions: the source's numbering has restarted and no epoch says so.
	Regressed int64
	Commits   int64
	Rows      int64         // rows in the table, -1 if unknown
	Busy      time.Duration // time spent on this table, if Options.Now is set
	// Committing is the part of Busy that went into commits.
	Committing time.Duration
	// Newest is the greatest commit time of a change delivered; zero if none
	// had one. Position is the greatest position of a change committed since
	// Open, that of a load aside; empty if there was none.
	Newest   time.Time
	Position cdc.Position
	// IndexMemory and IndexDisk are the bytes that the positions of a mirror's
	// keys take, as of the last commit.
	IndexMemory, IndexDisk int64
	// DataFiles and DeleteFiles count the files of the table, after a commit
	// of a Table that tells (FileCounter); else -1.
	DataFiles, DeleteFiles int64
	// Retried counts attempts to write the table that failed and were made
	// again (Options.RetryFor); Retrying says that one is waited for now.
	Retried  int64
	Retrying bool
}

// Stats returns the counts of each table in the order of the pipeline file.
func (s *Sink) Stats() []TableStats {
	stats := make([]TableStats, len(s.writers))
	for i, w := range s.writers {
		stats[i] = TableStats{
			Database: w.table.Database(), Table: w.table.Name(),
			Delivered: w.delivered.Load(), Applied: w.applied.Load(), Collapsed: w.collapsed.Load(),
			Superseded: w.superseded.Load(), Skipped: w.skipped.Load(), Rejected: w.rejected.Load(), Regressed: w.regressed.Load(),
			Commits: w.commits.Load(), Rows: w.rows.Load(), Busy: time.Duration(w.busy.Load()), Committing: time.Duration(w.committing.Load()),
			DataFiles: w.dataFiles.Load(), DeleteFiles: w.deleteFiles.Load(), IndexMemory: w.indexMemory.Load(), IndexDisk: w.indexDisk.Load(),
			Retried: w.retried.Load(), Retrying: w.retrying.Load(),
		}
		if newest := w.newest.Load(); newest != noTime {
			stats[i].Newest = time.UnixMicro(newest).UTC()
		}
		if position := w.highest.Load(); position != nil {
			stats[i].Position = *position
		}
	}
	return stats
}
