package reconcile

import (
	"encoding/json"
	"fmt"
	"time"

	"icehose/catalog"
	"icehose/internal/canon"
)

// A Verdict is what Run says of a table.
type Verdict string

// The verdicts.
const (
	Equal        Verdict = "equal"
	Different    Verdict = "different"
	Inconclusive Verdict = "inconclusive" // not everything could be read
)

// A Kind is how a row of the lake fails its source.
type Kind string

// The kinds of findings.
const (
	Missing   Kind = "missing"   // the source has the row, the lake does not
	Extra     Kind = "extra"     // the lake has a key that the source does not have
	Differs   Kind = "differs"   // both have the key, with other values
	Stale     Kind = "stale"     // both have the key, the lake an older version of the row
	Duplicate Kind = "duplicate" // the lake has the key more often than the source
)

// A Finding is one key of which the sides differ. A key can have two: one
// row of it differs, another is a duplicate.
type Finding struct {
	Kind Kind `json:"kind"`
	// Key is the canonical text of each key column; of a table without a key
	// the row hash in hexadecimal. It is left out of JSON here: a Report
	// writes keys only when it was asked for them.
	Key  []string `json:"-"`
	Rows uint64   `json:"rows"`
	// Behind is set when the table has a version column and the lake's version
	// is older than the source's.
	Behind *Behind `json:"behind,omitempty"`
	// Unfit says that the source has a value which the type in the lake cannot
	// hold: no writing of the row makes the sides equal.
	Unfit bool `json:"unfit,omitempty"`
	// UnfitKey names the key columns that have such a value: of these Key has the
	// text that the source writes.
	UnfitKey []string `json:"unfit_key,omitempty"`
}

// Counts are rows by kind of finding. Of a table compared in full,
// lake rows = source rows - Missing + Extra + Duplicate.
type Counts struct {
	Missing   uint64 `json:"missing"`
	Extra     uint64 `json:"extra"`
	Differs   uint64 `json:"differs"`
	Stale     uint64 `json:"stale,omitempty"`
	Duplicate uint64 `json:"duplicate"`
}

func (c *Counts) add(kind Kind, rows uint64) error {
	switch kind {
	case Missing:
		c.Missing += rows
	case Extra:
		c.Extra += rows
	case Differs:
		c.Differs += rows
	case Stale:
		c.Stale += rows
	case Duplicate:
		c.Duplicate += rows
	default:
		return fmt.Errorf("count finding: no kind %q", kind)
	}
	return nil
}

// Total is how many rows findings were counted for.
func (c *Counts) Total() uint64 { return c.Missing + c.Extra + c.Differs + c.Stale + c.Duplicate }

// A Side is what was read of a table on one side.
type Side struct {
	Moment string  `json:"moment,omitempty"` // the moment that the rows are of; of a table in slices, that of the last
	Rows   *uint64 `json:"rows"`             // nil: not read to the end
	// Time is the moment by the source's clock; nil when the side has none.
	Time *time.Time `json:"time,omitempty"`
	// Through is of a source that follows another server: what was committed
	// there by then is in the rows. Nil when it follows none, or cannot tell.
	Through *time.Time `json:"through,omitempty"`
	// Doubt says why it cannot tell, or whether it follows one: then no
	// difference is proven while changes flow.
	Doubt string `json:"doubt,omitempty"`
	// Log is where the moment stands in the source's log: 32 hexadecimal
	// digits as in the pipeline file's floors, none when the side has no log.
	Log *LogText `json:"log,omitempty"`
	// Newest is the newest change that a lake holds of the table.
	Newest *NewestText `json:"newest,omitempty"`
}

// LogText is a LogRange as text.
type LogText struct {
	Low  string `json:"low,omitempty"` // empty: not known
	High string `json:"high"`
}

// NewestText is a Newest as text.
type NewestText struct {
	Position  string     `json:"cdc_position,omitempty"`
	Committed *time.Time `json:"cdc_committed_at,omitempty"`
}

// pin notes the moment of a view.
func (s *Side) pin(p Pinned) {
	s.Moment, s.Doubt = p.Moment, p.Doubt
	s.Time, s.Through, s.Log, s.Newest = nil, p.Through, nil, nil
	if p.Through != nil && p.Through.IsZero() {
		s.Through = nil
	}
	if !p.Time.IsZero() {
		s.Time = &p.Time
	}
	if p.Log != nil {
		s.Log = &LogText{High: p.Log.High.String()}
		if p.Log.Low != nil {
			s.Log.Low = p.Log.Low.String()
		}
	}
	if p.Newest != (Newest{}) {
		s.Newest = &NewestText{Position: string(p.Newest.Position)}
		if !p.Newest.Committed.IsZero() {
			s.Newest.Committed = &p.Newest.Committed
		}
	}
}

// count adds the rows of some buckets.
func (s *Side) count(digests []canon.Digest) {
	var rows uint64
	for _, d := range digests {
		rows += d.Count
	}
	s.add(rows)
}

func (s *Side) add(rows uint64) {
	if s.Rows != nil {
		rows += *s.Rows
	}
	s.Rows = &rows
}

// A TableReport is the verdict on one table, and what it stands on.
type TableReport struct {
	Table   string   `json:"table"` // schema.table of the source
	Target  string   `json:"target,omitempty"`
	Key     []string `json:"key,omitempty"` // names of the key columns; none: rows are told apart by their hash
	Verdict Verdict  `json:"verdict"`
	Why     string   `json:"why,omitempty"` // what could not be read or told
	// Scope says which rows were meant, when not all were: a verdict is about
	// these rows only.
	Scope string `json:"scope,omitempty"`
	// Sampled is the fraction of the keys that was compared, chosen by their
	// hash; 0: all of them.
	Sampled float64 `json:"sampled,omitempty"`
	Source  Side    `json:"source"`
	Lake    Side    `json:"lake"`
	// CommitLag is how many seconds the newest change in the lake table is
	// older than the source's clock at its moment. It is large for a table
	// that nobody changes. Nil: not known.
	CommitLag        *float64 `json:"commit_lag_seconds,omitempty"`
	Buckets          int      `json:"buckets"`
	DifferingBuckets int      `json:"differing_buckets"`
	UnreadBuckets    int      `json:"unread_buckets"` // of those that differ; when not 0, Counts are lower bounds
	Counts           Counts   `json:"counts"`
	// Unfit are rows of the source, of those that Counts counts, with a value
	// which the type in the lake cannot hold.
	Unfit uint64 `json:"unfit,omitempty"`
	// UnfitKeys are those of Unfit that have such a value in their key. Rows of the
	// lake that are Extra may be theirs, under another key.
	UnfitKeys uint64 `json:"unfit_keys,omitempty"`
	// Unknown are columns of the source that the pipeline file does not have: they
	// are not compared.
	Unknown []string `json:"unknown_columns,omitempty"`
	// InFlight are keys that differed and then agreed.
	InFlight int `json:"in_flight,omitempty"`
	// Unsettled are keys that kept changing while they were looked at.
	Unsettled int `json:"unsettled,omitempty"`
	// Undecided are keys that differ, and whose changes may still be on their way.
	Undecided int `json:"undecided,omitempty"`
	// Findings are the first that were found: stale ones first, the oldest
	// first, the others in the order of canonical key bytes among those of
	// buckets that were compared together.
	Findings []Finding `json:"findings,omitempty"`
	// Losses are what the pipeline file allows to be lost, by column.
	Losses  map[string][]catalog.Loss `json:"allowed_losses,omitempty"`
	Seconds float64                   `json:"seconds,omitempty"`
	// DecidedAt is when the verdict was reached: before the run began, if
	// another run did that and this one continued. Zero without Options.Now.
	DecidedAt time.Time `json:"decided_at,omitzero"`
	// Told says that a run before told the verdict (Told).
	Told bool `json:"-"`
}

// Partial reports whether the verdict is about some rows only.
func (t *TableReport) Partial() bool { return t.Scope != "" || t.Sampled > 0 }

// A Report is the outcome of Run, its tables in the order of the pipeline file.
type Report struct {
	Tables []TableReport
	// ShowKeys makes the report name the keys of findings when it is written.
	ShowKeys bool
	// Sample is the fraction of the keys that was asked for; 0: all of them.
	Sample float64
	// Only are the tables that were asked for, by Options.Tables or Options.Keys;
	// nil: all of the pipeline file.
	Only []string
	// Later are tables of the run that were left out of the report: a run that
	// goes on with them tells of them.
	Later []string
	// Began and Ended time the run; zero without Options.Now.
	Began, Ended time.Time
}

// Verdict is that of the whole: different if any table is, else inconclusive
// if any table is, else equal.
func (r Report) Verdict() Verdict {
	verdict := Equal
	for i := range r.Tables {
		switch r.Tables[i].Verdict {
		case Different:
			return Different
		case Equal:
		case Inconclusive:
			verdict = Inconclusive
		default: // a table without a verdict was not compared
			verdict = Inconclusive
		}
	}
	return verdict
}

// ExitStatus is that of diff(1): 0 if every table is equal, 1 if any is
// different, else 2.
func (r Report) ExitStatus() int {
	switch r.Verdict() {
	case Equal:
		return 0
	case Different:
		return 1
	case Inconclusive:
		return 2
	}
	return 2
}

// MarshalJSON implements json.Marshaler. Findings are written only with their
// keys, and those only with ShowKeys.
func (r Report) MarshalJSON() ([]byte, error) {
	type finding struct {
		Finding
		Key []string `json:"key"`
	}
	type table struct {
		TableReport
		Findings []finding `json:"findings,omitempty"`
	}
	out := struct {
		Verdict Verdict    `json:"verdict"`
		Sample  float64    `json:"sample,omitempty"`
		Began   *time.Time `json:"began,omitempty"`
		Ended   *time.Time `json:"ended,omitempty"`
		Only    []string   `json:"only,omitempty"`
		Later   []string   `json:"later,omitempty"`
		Tables  []table    `json:"tables"`
	}{Verdict: r.Verdict(), Sample: r.Sample, Only: r.Only, Later: r.Later, Tables: make([]table, len(r.Tables))}
	if !r.Began.IsZero() {
		out.Began, out.Ended = &r.Began, &r.Ended
	}
	for i, t := range r.Tables {
		out.Tables[i].TableReport = t
		if !r.ShowKeys {
			continue
		}
		for _, f := range t.Findings {
			out.Tables[i].Findings = append(out.Tables[i].Findings, finding{f, f.Key})
		}
	}
	text, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("write report: %w", err)
	}
	return text, nil
}
