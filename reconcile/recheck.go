package reconcile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// seen is a text of the rows of a finding on both sides, which is the same for two
// readings only if nothing has changed.
func (s *suspect) seen() string {
	sum := sha256.Sum256([]byte(s.state + "\n" + s.lake))
	return hex.EncodeToString(sum[:16])
}

// reopen looks again at what a run before found of a table that it decided, and
// reports whether the verdict no longer stands. Then the findings whose rows have
// changed are to be told anew, or if that is not all there was, the whole table.
func (c *comparison) reopen(ctx context.Context, done *TableReport) bool {
	old := c.saved.entry(c.table.Source)
	if !c.options.Recheck || old == nil || done.Verdict != Different {
		return false
	}
	c.rechecked = true
	r := old.Report.report()
	again, err := c.recheck(ctx, &r, old)
	switch {
	case err != nil:
		done.Why = join(done.Why, uncheckedText+err.Error())
		return false
	case again == nil:
		return false
	}
	reopened := &savedTable{Told: old.Told}
	if r.Why == "" && r.UnreadBuckets == 0 && r.named() {
		reopened.Next, reopened.Report = r.Buckets, saveReport(&r, c.found)
		reopened.Left = again.changed
	}
	c.saved.replace(c.table.Source, reopened)
	return true
}

// resumable is what a run before kept of a table of which slices are missing, its
// findings looked at again; nil if the table is to be compared anew.
func (c *comparison) resumable(ctx context.Context) *savedTable {
	old := c.saved.partial(c.table.Source)
	if old == nil || c.rechecked || !c.options.Recheck {
		return old
	}
	r := old.Report.report()
	again, err := c.recheck(ctx, &r, old)
	if err != nil {
		c.unchecked = errors.New(uncheckedText + err.Error())
		return old
	}
	switch {
	case again == nil:
		return old
	case !r.named():
		return nil // of findings without a key nobody knows
	}
	resumed := *old
	resumed.Report = saveReport(&r, c.found)
	resumed.Left = append(append([]savedSuspect{}, old.Left...), again.changed...)
	if old.Begun != nil {
		begun := *old.Begun
		begun.Lake = moved(begun.Lake, again.before)
		resumed.Begun = &begun
	}
	return &resumed
}

const uncheckedText = "findings of a run before are told as they were, since their keys could not be looked at again: "

// named reports whether the report has the keys of all that it counts.
func (r *TableReport) named() bool {
	var named uint64
	for _, f := range r.Findings {
		named += f.Rows
	}
	return named == r.Counts.Total()
}

// rechecked is what became of findings.
type rechecked struct {
	changed []savedSuspect // keys that differ, with other rows than they had
	before  int64          // rows of the lake that are more, of keys of buckets before Next
}

// recheck looks at the keys of the findings that a run before kept of a table, and
// takes out of the report those whose rows have changed: what agrees by now, and
// what may be on its way. Nil: none has.
func (c *comparison) recheck(ctx context.Context, r *TableReport, old *savedTable) (*rechecked, error) {
	if len(r.Findings) == 0 {
		return nil, nil //nolint:nilnil // nothing was found
	}
	keys := make([][]byte, len(r.Findings))
	for i, f := range r.Findings {
		var err error
		if keys[i], err = f.keyBytes(c.table.Key); err != nil {
			return nil, err
		}
	}
	differ, err := c.differing(ctx, r, keys)
	if err != nil {
		return nil, err
	}
	var again rechecked
	var found []*suspect
	findings := r.Findings
	r.Findings = nil
	told := make(map[string]bool)
	for i, f := range findings {
		key := string(keys[i])
		now := differ[key]
		if now != nil && i < len(old.Report.Seen) && now.seen() == old.Report.Seen[i] {
			r.Findings = append(r.Findings, f)
			c.note(now)
			continue
		}
		rows := r.drop(&f)
		if bucketOfKey(keys[i], len(c.table.Key), max(r.Buckets, 1)) < old.Next {
			again.before += rows
		}
		switch {
		case told[key]:
		case now == nil:
			r.InFlight++
		case c.options.Settle > 0 && !isUnfitKey(keys[i], len(c.table.Key)):
			r.Undecided++
			again.changed = append(again.changed, saveSuspect(now))
		default:
			found = append(found, now)
		}
		told[key] = true
	}
	if len(told) == 0 {
		return nil, nil //nolint:nilnil // all are as they were
	}
	for _, s := range found {
		if err := c.find(r, s); err != nil {
			return nil, err
		}
	}
	return &again, nil
}

// differing reads some keys from the source, then from the lake, and returns those
// that differ.
func (c *comparison) differing(ctx context.Context, r *TableReport, keys [][]byte) (map[string]*suspect, error) {
	set, err := keysOf(c.table, keys)
	if err != nil {
		return nil, err
	}
	part := Part{Buckets: max(r.Buckets, 1), Keys: set, Version: c.version}
	for try := 1; ; try++ {
		differ, err := c.readDiffering(ctx, part)
		if try == momentTries || !errors.Is(err, ErrMomentGone) {
			return differ, err
		}
	}
}

func (c *comparison) readDiffering(ctx context.Context, part Part) (map[string]*suspect, error) {
	s := settling{comparison: c}
	source, at, err := s.read(ctx, c.source, part)
	if err != nil {
		return nil, fmt.Errorf("read source: %w", err)
	}
	lake, _, err := s.read(ctx, c.lake, part)
	if err != nil {
		return nil, fmt.Errorf("read lake: %w", err)
	}
	differ := make(map[string]*suspect)
	for p := range pairs(source, lake) {
		if !agree(p.source, p.lake) {
			differ[string(p.key)] = c.suspect(source, lake, p, c.momentOf(&at))
		}
	}
	return differ, nil
}

// note keeps what the rows of a finding are like, for a run that continues.
func (c *comparison) note(s *suspect) {
	if c.saved == nil {
		return
	}
	if c.found == nil {
		c.found = make(map[string]string)
	}
	c.found[string(s.key)] = s.seen()
}

// drop takes a finding off the counts. It returns how many rows more the lake
// has, by what its rows and counts say of each other.
func (r *TableReport) drop(f *Finding) (rows int64) {
	count := &r.Counts.Differs
	switch f.Kind {
	case Differs:
	case Stale:
		count = &r.Counts.Stale
	case Missing:
		count, rows = &r.Counts.Missing, int64(f.Rows)
	case Extra:
		count, rows = &r.Counts.Extra, -int64(f.Rows)
	case Duplicate:
		count, rows = &r.Counts.Duplicate, -int64(f.Rows)
	}
	*count -= min(*count, f.Rows)
	if f.Unfit && rows >= 0 {
		r.Unfit -= min(r.Unfit, f.Rows)
		if len(f.UnfitKey) > 0 {
			r.UnfitKeys -= min(r.UnfitKeys, f.Rows)
		}
	}
	r.Lake.Rows = moved(r.Lake.Rows, rows)
	return rows
}

// moved is a number of rows and some more; nil is not known.
func moved(rows *uint64, by int64) *uint64 {
	if rows == nil {
		return nil
	}
	n := uint64(max(int64(*rows)+by, 0))
	return &n
}

// keyBytes makes canonical key bytes of the texts that keyTexts has made of them.
func (f *Finding) keyBytes(columns []string) ([]byte, error) {
	if len(columns) == 0 && len(f.Key) == 1 {
		key, err := hex.DecodeString(f.Key[0])
		if err != nil || len(key) != 16 {
			return nil, errors.New("read key: not a row hash")
		}
		return key, nil
	}
	if len(columns) == 0 || len(f.Key) != len(columns) {
		return nil, errors.New("read key: not as many texts as key columns")
	}
	var key []byte
	for i, text := range f.Key {
		if slices.Contains(f.UnfitKey, columns[i]) {
			key = append(key, unfitField[0])
		}
		key = strconv.AppendInt(key, int64(len(text)), 10)
		key = append(append(key, ':'), text...)
	}
	return key, nil
}

func join(why, more string) string {
	if why == "" {
		return more
	}
	return why + "; " + more
}
