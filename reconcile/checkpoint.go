package reconcile

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"icehose/catalog"
	"icehose/cdc"
)

// A Checkpoint keeps what a run has decided: finished tables with their
// reports, and of a table in slices the slices that are finished, each judged
// at its own moment, with the keys that differ and could not be told yet. It
// holds these keys and those of findings, which are values of the source. A run
// that decides every table clears it.
type Checkpoint interface {
	// Load returns what was saved last, nil when there is nothing.
	Load(ctx context.Context) ([]byte, error)
	// Save replaces what was saved, all of it or nothing; nil removes it.
	Save(ctx context.Context, data []byte) error
}

// ErrOtherRun is wrapped when a checkpoint is of a run with another pipeline
// file, of other tables, source or lake, or with other options.
var ErrOtherRun = errors.New("the checkpoint is of another run")

const checkpointVersion = 2

// maxAge is how long after its beginning a run may go on: what was decided then
// is told as if it were of today. Longer than a few days of a daily schedule.
const maxAge = 7 * 24 * time.Hour

type savedState struct {
	Version int                    `json:"version"`
	Run     string                 `json:"run"` // fingerprint of pipeline file and options
	Began   time.Time              `json:"began"`
	Since   *time.Time             `json:"since,omitempty"` // Options.Since.From of the first run
	Tables  map[string]*savedTable `json:"tables"`
}

type savedTable struct {
	Done   bool           `json:"done"`
	Told   bool           `json:"told,omitempty"`
	Next   int            `json:"next,omitempty"` // the first bucket that was not read
	Report savedReport    `json:"report"`
	Left   []savedSuspect `json:"left,omitempty"`  // of the buckets before Next, and of Begun
	Begun  *savedSlice    `json:"begun,omitempty"` // the slice from Next on, when not all of it was read
	Stays  int            `json:"stays,omitempty"` // how many runs left Next where it was
	Marks  [2]string      `json:"marks,omitzero"`  // of source and lake at the last look,
	Quiet  time.Time      `json:"quiet,omitzero"`  // and since when they were so
}

// A savedSlice is what was counted of a table before a slice.
type savedSlice struct {
	Source    *uint64 `json:"source,omitempty"`
	Lake      *uint64 `json:"lake,omitempty"`
	Differing int     `json:"differing,omitempty"`
}

// A savedSuspect is a suspect as the last look found it.
type savedSuspect struct {
	Key       []byte    `json:"key"`
	State     []byte    `json:"state"`
	Lake      []byte    `json:"lake"`
	Since     time.Time `json:"since"`
	Log       string    `json:"log,omitempty"` // LogRange.High of since; empty: none
	Looks     int       `json:"looks"`
	Moved     bool      `json:"moved,omitempty"`
	LakeSince time.Time `json:"lake_since,omitzero"`
	Passed    time.Time `json:"passed,omitzero"`
	PassedOwn State     `json:"passed_own,omitzero"`
}

func saveSuspect(s *suspect) savedSuspect {
	saved := savedSuspect{
		Key: s.key, State: []byte(s.state), Lake: []byte(s.lake), Since: s.since.at, Looks: s.looks, Moved: s.moved, LakeSince: s.lakeSince,
		Passed: s.passed, PassedOwn: s.passedOwn,
	}
	if s.since.log != nil {
		saved.Log = s.since.log.High.String()
	}
	return saved
}

func (s *savedSuspect) suspect() *suspect {
	r := &suspect{
		key: s.Key, state: string(s.State), lake: string(s.Lake), since: moment{at: s.Since}, looks: s.Looks, moved: s.Moved, lakeSince: s.LakeSince,
		passed: s.Passed, passedOwn: s.PassedOwn, restored: true,
	}
	if high, err := cdc.ParseBody(s.Log); err == nil {
		r.since.log = &LogRange{High: high}
	}
	return r
}

// restore gives a comparison what it could not tell.
func (t *savedTable) restore(c *comparison) {
	c.left, c.marks, c.quiet, c.begun = nil, t.Marks, t.Quiet, t.Begun
	for i := range t.Left {
		c.left = append(c.left, t.Left[i].suspect())
	}
}

// A savedReport is a TableReport with the keys of its findings.
type savedReport struct {
	TableReport
	Keys [][]string `json:"keys,omitempty"`
	Seen []string   `json:"seen,omitempty"` // what the rows of each are like (suspect.seen); empty: not known
}

// saveReport keeps a report; seen has what the rows of findings are like, by
// canonical key bytes.
func saveReport(r *TableReport, seen map[string]string) savedReport {
	s := savedReport{TableReport: *r}
	for _, f := range r.Findings {
		s.Keys = append(s.Keys, f.Key)
		key, _ := f.keyBytes(r.Key) // of one that is none nothing is known
		s.Seen = append(s.Seen, seen[string(key)])
	}
	return s
}

func (s savedReport) report() TableReport {
	r := s.TableReport
	r.Findings = append([]Finding(nil), r.Findings...)
	for i := range r.Findings {
		if i < len(s.Keys) {
			r.Findings[i].Key = s.Keys[i]
		}
	}
	return r
}

// A savedRun is the checkpoint of a run; nil when it has none.
type savedRun struct {
	mu    sync.Mutex
	store Checkpoint
	state savedState
	all   int // tables of the run
}

func loadCheckpoint(ctx context.Context, p *catalog.Pipeline, tables []*catalog.Table, o *Options) (*savedRun, error) {
	if o.Checkpoint == nil {
		return nil, nil
	}
	run, err := fingerprint(p, tables, o)
	if err != nil {
		return nil, err
	}
	s := &savedRun{store: o.Checkpoint, state: savedState{Version: checkpointVersion, Run: run, Tables: map[string]*savedTable{}}, all: len(tables)}
	if o.Now != nil {
		s.state.Began = o.Now()
	}
	if o.Since != nil {
		s.state.Since = &o.Since.From
	}
	data, err := o.Checkpoint.Load(ctx)
	if err != nil {
		return nil, fmt.Errorf("load checkpoint: %w", err)
	}
	if data == nil {
		return s, nil
	}
	var old savedState
	if err := json.Unmarshal(data, &old); err != nil {
		return nil, fmt.Errorf("load checkpoint: %w", err)
	}
	if old.Version != checkpointVersion || old.Run != run {
		return nil, fmt.Errorf("load checkpoint: %w: remove it to begin anew", ErrOtherRun)
	}
	if s.state.Began.Sub(old.Began) <= maxAge && old.Tables != nil {
		s.state.Began, s.state.Tables = old.Began, old.Tables
		if o.Since != nil && old.Since != nil {
			s.state.Since = old.Since
			o.Since = &Since{Column: o.Since.Column, From: *old.Since, Text: o.Since.Text}
		}
	}
	return s, nil
}

// Told notes in a checkpoint that a report was told, which has its finished
// tables, and those that are different so far: the report of a run that
// continues says so of them (TableReport.Told).
func Told(ctx context.Context, store Checkpoint, r *Report) error {
	data, err := store.Load(ctx)
	if err != nil {
		return fmt.Errorf("load checkpoint: %w", err)
	}
	if data == nil {
		return nil
	}
	var state savedState
	if err := json.Unmarshal(data, &state); err != nil {
		return fmt.Errorf("load checkpoint: %w", err)
	}
	for _, t := range state.Tables {
		t.Told = t.Told || t.Done
	}
	for i := range r.Tables {
		if t := &r.Tables[i]; t.Verdict == Different && state.Tables != nil {
			if state.Tables[t.Table] == nil {
				state.Tables[t.Table] = &savedTable{}
			}
			state.Tables[t.Table].Told = true
		}
	}
	if data, err = json.Marshal(state); err != nil {
		return fmt.Errorf("save checkpoint: %w", err)
	}
	if err := store.Save(ctx, data); err != nil {
		return fmt.Errorf("save checkpoint: %w", err)
	}
	return nil
}

// fingerprint tells runs apart whose decisions do not belong together.
func fingerprint(p *catalog.Pipeline, tables []*catalog.Table, o *Options) (string, error) {
	keys := map[string][][]string{}
	for name, k := range o.Keys {
		if keys[name] = nil; k != nil {
			keys[name] = k.texts
		}
	}
	targets := make([]string, len(tables)) // a database that is the file's default is in no table
	for i, t := range tables {
		targets[i] = target(t)
	}
	var since [2]string
	if o.Since != nil {
		since = [2]string{o.Since.Column, cmp.Or(o.Since.Text, o.Since.From.UTC().Format(time.RFC3339Nano))}
	}
	text, err := json.Marshal(struct {
		Source   catalog.Source
		Epochs   []catalog.Epoch
		Targets  []string
		Tables   []*catalog.Table
		Keys     map[string][][]string
		Since    [2]string
		Sample   float64
		Version  string
		Settle   time.Duration
		Identity string
	}{p.Source, p.Epochs, targets, tables, keys, since, o.sampled(), o.Version, o.Settle, o.Identity})
	if err != nil {
		return "", fmt.Errorf("identify run: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// done returns the report of a table that was decided before.
func (s *savedRun) done(table string) *TableReport {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.state.Tables[table]; t != nil && t.Done {
		r := t.Report.report()
		r.Told = t.Told
		return &r
	}
	return nil
}

// told reports whether a run before told that a table is different.
func (s *savedRun) told(table string) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.state.Tables[table]
	return t != nil && t.Told
}

// isRead reports whether nothing of a table is left to be read.
func (s *savedRun) isRead(table string) bool {
	t := s.partial(table)
	return t != nil && (t.Done || t.Next >= t.Report.Buckets)
}

// entry returns what is kept of a table, nil for nothing.
func (s *savedRun) entry(table string) *savedTable {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.Tables[table]
}

// replace puts something else in its place, which the next save keeps.
func (s *savedRun) replace(table string, t *savedTable) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Tables[table] = t
}

// partial returns what was decided of a table, nil for nothing.
func (s *savedRun) partial(table string) *savedTable {
	if t := s.entry(table); t != nil && t.Report.Buckets > 0 {
		return t
	}
	return nil
}

// maxStays is how many runs in a row may add nothing but looks to what is kept
// of a table. What they cannot tell is then told as such.
const maxStays = 3

// sliced notes that the buckets before next were read, and what of them could
// not be told.
func (s *savedRun) sliced(ctx context.Context, r *TableReport, next int, c *comparison) error {
	if s == nil || next >= r.Buckets && len(c.left) == 0 {
		return nil
	}
	t := &savedTable{Told: r.Told, Next: next, Report: saveReport(r, c.found), Begun: c.begun, Marks: c.marks, Quiet: c.quiet}
	if old := c.resumed; old != nil && old.Report.Buckets == r.Buckets && next <= old.Next && (next < r.Buckets || len(c.left) >= len(old.Left)) {
		if t.Stays = old.Stays + 1; t.Stays > maxStays {
			return nil
		}
	}
	for _, left := range c.left {
		t.Left = append(t.Left, saveSuspect(left))
	}
	return s.set(ctx, r.Table, t)
}

// decided notes that a table is decided. When all are, nothing is left to
// continue.
func (s *savedRun) decided(ctx context.Context, r *TableReport, seen map[string]string) error {
	if s == nil {
		return nil
	}
	return s.set(ctx, r.Table, &savedTable{Done: true, Told: r.Told, Report: saveReport(r, seen)})
}

func (s *savedRun) set(ctx context.Context, table string, t *savedTable) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Tables[table] = t
	done := 0
	for _, t := range s.state.Tables {
		if t.Done {
			done++
		}
	}
	var data []byte
	if done < s.all {
		var err error
		if data, err = json.Marshal(s.state); err != nil {
			return fmt.Errorf("save checkpoint: %w", err)
		}
	}
	if err := s.store.Save(ctx, data); err != nil {
		return fmt.Errorf("save checkpoint: %w", err)
	}
	return nil
}
