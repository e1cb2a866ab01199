package reconcile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"icehose/catalog"
)

// A Checkpoint keeps what a run has decided: finished tables with their
// reports, and of a table in slices the slices that are finished, each judged
// at its own moment. It holds the keys of findings, which are values of the
// source. A run that decides every table clears it.
type Checkpoint interface {
	// Load returns what was saved last, nil when there is nothing.
	Load(ctx context.Context) ([]byte, error)
	// Save replaces what was saved, all of it or nothing; nil removes it.
	Save(ctx context.Context, data []byte) error
}

// ErrOtherRun is wrapped when a checkpoint is of a run with another pipeline
// file, of other tables, source or lake, or with other options.
var ErrOtherRun = errors.New("the checkpoint is of another run")

const checkpointVersion = 1

// maxAge is how long after its beginning a run may go on: what was decided then
// is told as if it were of today. Longer than a few days of a daily schedule.
const maxAge = 7 * 24 * time.Hour

type savedState struct {
	Version int                    `json:"version"`
	Run     string                 `json:"run"` // fingerprint of pipeline file and options
	Began   time.Time              `json:"began"`
	Tables  map[string]*savedTable `json:"tables"`
}

type savedTable struct {
	Done   bool        `json:"done"`
	Next   int         `json:"next,omitempty"` // the first bucket that is not decided
	Report savedReport `json:"report"`
}

// A savedReport is a TableReport with the keys of its findings.
type savedReport struct {
	TableReport
	Keys [][]string `json:"keys,omitempty"`
}

func saveReport(r *TableReport) savedReport {
	s := savedReport{TableReport: *r}
	for _, f := range r.Findings {
		s.Keys = append(s.Keys, f.Key)
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

func loadCheckpoint(ctx context.Context, tables []*catalog.Table, o *Options) (*savedRun, error) {
	if o.Checkpoint == nil {
		return nil, nil
	}
	run, err := fingerprint(tables, o)
	if err != nil {
		return nil, err
	}
	s := &savedRun{store: o.Checkpoint, state: savedState{Version: checkpointVersion, Run: run, Tables: map[string]*savedTable{}}, all: len(tables)}
	if o.Now != nil {
		s.state.Began = o.Now()
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
	}
	return s, nil
}

// fingerprint tells runs apart whose decisions do not belong together.
func fingerprint(tables []*catalog.Table, o *Options) (string, error) {
	keys := map[string][][]string{}
	for name, k := range o.Keys {
		if keys[name] = nil; k != nil {
			keys[name] = k.texts
		}
	}
	text, err := json.Marshal(struct {
		Tables   []*catalog.Table
		Keys     map[string][][]string
		Since    *Since
		Sample   float64
		Version  string
		Settle   time.Duration
		Identity string
	}{tables, keys, o.Since, o.sampled(), o.Version, o.Settle, o.Identity})
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
		return &r
	}
	return nil
}

// partial returns what was decided of a table, nil for nothing.
func (s *savedRun) partial(table string) *savedTable {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.Tables[table]
}

// sliced notes that the buckets before next are decided, if they are.
func (s *savedRun) sliced(ctx context.Context, r *TableReport, next int) error {
	if s == nil || r.Unsettled+r.Undecided > 0 || next >= r.Buckets {
		return nil
	}
	return s.set(ctx, r.Table, &savedTable{Next: next, Report: saveReport(r)})
}

// decided notes that a table is decided. When all are, nothing is left to
// continue.
func (s *savedRun) decided(ctx context.Context, r *TableReport) error {
	if s == nil {
		return nil
	}
	return s.set(ctx, r.Table, &savedTable{Done: true, Report: saveReport(r)})
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
