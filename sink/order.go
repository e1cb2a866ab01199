package sink

import (
	"encoding/json"
	"fmt"
	"time"

	"icehose/cdc"
)

// positionSlack is how much later than the newest change an older position may
// have been committed without suspicion: servers' clocks are set back, and when
// a position is that of the change and not of its commit, a long transaction's
// changes are committed late.
const positionSlack = 15 * time.Minute

// A watch sees whether positions still rise with commit time. When a source's
// numbering restarts (a restore, a failover) and no epoch says so, new changes
// have lower positions than old ones and would lose to them. What it has seen is
// noted in the table, so that it also sees what happened while no sink ran.
type watch struct {
	highest   packed // of the changes seen, with the time of its commit
	committed int64
	started   bool
	moved     bool // since the table was opened
}

// see notes a change and reports whether its position went back in time.
func (w *watch) see(p *packed, committed int64) (regressed bool) {
	if committed == noTime || p.head[rankByte] == 0 {
		return false // loads come at any time
	}
	if !w.started || p.compare(&w.highest) > 0 {
		w.highest, w.committed, w.started, w.moved = *p, committed, true, true
		return false
	}
	return committed-w.committed > positionSlack.Microseconds()
}

// highestState is PropertyHighest.
type highestState struct {
	Position    cdc.Position `json:"position"`
	CommittedAt time.Time    `json:"committed_at"`
}

// text renders the watch, empty before it has seen anything.
func (w *watch) text() (string, error) {
	if !w.started {
		return "", nil
	}
	text, err := json.Marshal(highestState{w.highest.text(), time.UnixMicro(w.committed).UTC()})
	if err != nil {
		return "", fmt.Errorf("write highest position: %w", err)
	}
	return string(text), nil
}

// read takes over what text wrote.
func (w *watch) read(text string) error {
	*w = watch{}
	if text == "" {
		return nil
	}
	var s highestState
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return fmt.Errorf("read table property %s: %w", PropertyHighest, err)
	}
	if w.highest, w.started = pack([]byte(s.Position)); !w.started {
		return fmt.Errorf("read table property %s: it has no position", PropertyHighest)
	}
	w.committed = s.CommittedAt.UnixMicro()
	return nil
}
