package inspect

import (
	"strings"
	"time"

	"icehose/cdc"
	"icehose/cdc/capture"
)

// A chain follows the metadata's prev-transaction-id and
// prev-transaction-record-id: each change names the change that the task wrote
// before it, whatever table and shard that went to. Only open ends are kept:
// changes whose successor was not seen, and changes whose predecessor was not;
// and of what was followed the names of the last, to tell a fork from a gap.
type chain struct {
	limit    int
	tails    map[link]node   // seen, not yet followed
	awaited  map[link][]node // not yet seen, followed by these
	followed window[link]    // seen, and followed
	full     bool            // an open end was left out

	records, links, starts, forks int64
	forked                        []node // the first that made a fork
	first                         node   // the change that was built first of all
	hasFirst                      bool

	compared                    int64 // links between transactions of which both positions were read
	secondBack, firstBack       int64 // of them, links along which that number of the position falls
	secondSteady, firstSteady   int64 // links inside a transaction along which only the other number moves
	ordered, fell               int64 // links between transactions with positions of another kind; of them, those along which it falls
	columns                     map[string]*columnOrder
	commitBack, commitsCompared int64
}

// A columnOrder is what the chain showed of a position that is a column of its
// table, which need not number the changes of other tables.
type columnOrder struct{ compared, fell int64 }

// A link names a change.
type link struct{ transaction, record uint64 }

// A node is a change of the chain.
type node struct {
	link
	prev           link
	hasPrev        bool
	first, second  uint64 // the numbers of a PostgreSQL stream position
	hasPosition    bool
	at             place // of the table's declared or guessed kind
	kind           cdc.PositionKind
	table          string
	built, commit  time.Time
	shard, idOfRec string
}

func newChain(limit int) chain {
	return chain{
		limit: limit, tails: make(map[link]node), awaited: make(map[link][]node), followed: window[link]{size: limit},
		columns: make(map[string]*columnOrder),
	}
}

// add takes in a change that is no duplicate and not of the task's own tables,
// which have a chain of their own. at is its position, of the given kind.
func (ch *chain) add(r *capture.Record, c *cdc.Change, t *table, at place, kind cdc.PositionKind) {
	if !c.HasTransactionID || !c.HasRecordID {
		return
	}
	n := node{
		link: link{c.TransactionID, c.TransactionRecordID}, prev: link{c.PrevTransactionID, c.PrevRecordID}, hasPrev: c.HasPrev,
		built: c.BuiltAt, commit: c.CommittedAt, shard: r.Origin.Shard, idOfRec: strings.Clone(r.ID),
		at: at, kind: kind, table: t.name,
	}
	if body, err := (cdc.PositionKind{Source: cdc.SourcePostgres}).BodyOf(c); err == nil {
		n.first, n.second, n.hasPosition = body.Lo, body.Hi, true
	}
	ch.records++
	if !ch.hasFirst || n.built.Before(ch.first.built) {
		ch.first, ch.hasFirst = n, true
	}
	ch.backwards(n)
	ch.forwards(n)
}

// backwards joins n to its predecessor.
func (ch *chain) backwards(n node) {
	if !n.hasPrev {
		ch.starts++
		return
	}
	if prev, ok := ch.tails[n.prev]; ok {
		delete(ch.tails, n.prev)
		ch.followed.add(n.prev)
		ch.join(prev, n)
		return
	}
	if ch.followed.has(n.prev) || len(ch.awaited[n.prev]) > 0 {
		if ch.forks++; len(ch.forked) < maxExamples {
			ch.forked = append(ch.forked, n)
		}
	}
	if ch.followed.has(n.prev) {
		return
	}
	if len(ch.awaited) >= ch.limit {
		ch.full = true
		return
	}
	ch.awaited[n.prev] = append(ch.awaited[n.prev], n)
}

// forwards joins n to its successors.
func (ch *chain) forwards(n node) {
	if next, ok := ch.awaited[n.link]; ok {
		delete(ch.awaited, n.link)
		ch.followed.add(n.link)
		for _, after := range next {
			ch.join(n, after)
		}
		return
	}
	if len(ch.tails) >= ch.limit {
		ch.full = true
		return
	}
	ch.tails[n.link] = n
}

// join compares two changes of which the second was written after the first.
func (ch *chain) join(a, b node) {
	ch.links++
	if !a.commit.IsZero() && !b.commit.IsZero() && a.transaction != b.transaction {
		ch.commitsCompared++
		if b.commit.Before(a.commit) {
			ch.commitBack++
		}
	}
	ch.compare(a, b)
	if !a.hasPosition || !b.hasPosition {
		return
	}
	if a.transaction == b.transaction {
		switch {
		case a.second == b.second && a.first != b.first:
			ch.secondSteady++
		case a.first == b.first && a.second != b.second:
			ch.firstSteady++
		}
		return
	}
	ch.compared++
	if b.second < a.second {
		ch.secondBack++
	}
	if b.first < a.first {
		ch.firstBack++
	}
}

// compare compares positions of one kind between transactions. The two numbers
// of PostgreSQL's are compared one by one, see reading. Inside a transaction
// the record number orders.
func (ch *chain) compare(a, b node) {
	if !a.at.ok || !b.at.ok || a.transaction == b.transaction || a.kind != b.kind || a.kind.Source == cdc.SourcePostgres {
		return
	}
	falls := b.at.body.Compare(a.at.body) < 0
	if a.kind.Source != cdc.SourceColumn {
		ch.ordered++
		if falls {
			ch.fell++
		}
		return
	}
	if a.table != b.table {
		return
	}
	order := ch.columns[a.table]
	if order == nil {
		order = &columnOrder{}
		ch.columns[a.table] = order
	}
	order.compared++
	if falls {
		order.fell++
	}
}

// gaps returns the changes whose predecessor never came. That of the change
// that was built first of all precedes the capture and is none. Where a change
// is missing in the middle, what came before it was built earlier and is left
// without a successor: a head that no such open end precedes begins a chain of
// its own, such as that of another task.
func (ch *chain) gaps() (missing, heads []node) {
	var earliest time.Time // of the open ends
	for _, n := range ch.tails {
		if earliest.IsZero() || n.built.Before(earliest) {
			earliest = n.built
		}
	}
	for _, waiting := range ch.awaited {
		for _, n := range waiting {
			switch {
			case n.link == ch.first.link:
			case earliest.Before(n.built) || n.built.IsZero():
				missing = append(missing, n)
			default:
				heads = append(heads, n)
			}
		}
	}
	return missing, heads
}

// reading says which of the two numbers of a PostgreSQL stream position is
// the commit's.
func (ch *chain) reading() Reading {
	switch {
	case ch.compared == 0 && ch.secondSteady+ch.firstSteady == 0:
		return ReadingNone
	case ch.secondBack > 0 && ch.firstBack > 0:
		return ReadingNeither
	case ch.firstBack > 0:
		return ReadingSecond
	case ch.secondBack > 0:
		return ReadingFirst
	case ch.secondSteady > 0 && ch.firstSteady == 0:
		return ReadingSecond
	case ch.firstSteady > 0 && ch.secondSteady == 0:
		return ReadingFirst
	}
	return ReadingBoth
}
