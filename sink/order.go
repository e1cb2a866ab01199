package sink

import "time"

// positionSlack is how much later than the newest change an older position may
// have been committed without suspicion: servers' clocks are set back, and when
// a position is that of the change and not of its commit, a long transaction's
// changes are committed late.
const positionSlack = 15 * time.Minute

// A watch sees whether positions still rise with commit time. When a source's
// numbering restarts (a restore, a failover) and no epoch says so, new changes
// have lower positions than old ones and would lose to them.
type watch struct {
	highest   packed // of the changes seen, with the time of its commit
	committed int64
	started   bool
}

// see notes a change and reports whether its position went back in time.
func (w *watch) see(p *packed, committed int64) (regressed bool) {
	if committed == noTime || p.head[rankByte] == 0 {
		return false // loads come at any time
	}
	if !w.started || p.compare(&w.highest) > 0 {
		w.highest, w.committed, w.started = *p, committed, true
		return false
	}
	return committed-w.committed > positionSlack.Microseconds()
}
