// Package repair makes a lake table equal its source again, key by key.
//
// In comes the Report of a reconcile run. NewPlan says of every finding what is
// to be done: a line for a person to read, with the key and no other value.
// Run does it through the sink, Statements writes SQL that does it elsewhere.
//
// Either way the source's current row of each key is read anew, at a moment
// whose place in the source's log is known, and gets a position of that place,
// as a row of a load has: it wins over every change that the moment reflects,
// and loses to every later one, whenever that comes. So a repair is right while
// changes go on, may be repeated, and may be cut off. Of a dump, which has no
// place in a log and is the source's last state, the position is just above
// everything that the lake holds of the table.
//
// Run compares the keys before it writes them and after, until they agree: a
// row that changed in between is read and written once more. It needs the lake
// for itself. Statements cannot look again: the keys of the plan are given to
// another run of reconcile afterwards.
//
// A table without a key cannot be repaired by key: it is to be loaded anew.
package repair

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"icehose/catalog"
	"icehose/reconcile"
)

// An Action is what is done about a finding.
type Action string

// The actions.
const (
	Upsert Action = "upsert" // the source's row is written, whatever the lake has of the key
	Delete Action = "delete" // the rows of the key go; of a changelog a delete is appended
)

// A Step is what is done about one finding. Its JSON is a line of the plan and
// of a file of keys.
type Step struct {
	Table   string         `json:"table"` // schema.table of the source
	Kind    reconcile.Kind `json:"kind"`
	Rows    uint64         `json:"rows"`
	Action  Action         `json:"action"`
	Columns []string       `json:"columns"` // of the key
	Key     []string       `json:"key"`     // canonical texts
}

// A Left is what of a table is not repaired, and why.
type Left struct {
	Table string `json:"table"`
	Rows  uint64 `json:"rows"` // that findings were counted for
	Why   string `json:"why"`
}

// An Undecided is a table that was not decided wholly, whatever was found of it:
// there may be more that differs.
type Undecided struct {
	Table string `json:"table"`
	Why   string `json:"why"`
}

// A Plan is what is to be done, in the order of the report. The action is that
// of the moment: a repair does what the source's row asks for by then.
type Plan struct {
	Steps []Step
	Left  []Left
	// Undecided are tables of which not even the whole plan puts everything right.
	Undecided []Undecided
}

// NewPlan makes a plan of the findings of a report about tables of p.
func NewPlan(p *catalog.Pipeline, r *reconcile.Report) (*Plan, error) {
	plan := &Plan{}
	for i := range r.Tables {
		if err := plan.add(p, &r.Tables[i]); err != nil {
			return nil, fmt.Errorf("plan repair of %s: %w", r.Tables[i].Table, err)
		}
		if why := undecided(&r.Tables[i]); why != "" {
			plan.Undecided = append(plan.Undecided, Undecided{Table: r.Tables[i].Table, Why: why})
		}
	}
	return plan, nil
}

// undecided says why not all of a table that was meant was decided, nothing if it
// was. A table can be different for what was found of it, and yet be unread, or
// have keys that could not be told.
func undecided(r *reconcile.TableReport) string {
	switch {
	case r.Why != "":
		return r.Why
	case r.UnreadBuckets > 0:
		return fmt.Sprintf("differing buckets not read: %d", r.UnreadBuckets)
	case r.Unsettled+r.Undecided > 0:
		return fmt.Sprintf("keys that could not be told: %d", r.Unsettled+r.Undecided)
	case r.Verdict != reconcile.Equal && r.Verdict != reconcile.Different:
		return "it has no verdict"
	}
	return ""
}

func (p *Plan) add(pipeline *catalog.Pipeline, r *reconcile.TableReport) error {
	total := r.Counts.Total()
	at := slices.IndexFunc(pipeline.Tables, func(t *catalog.Table) bool { return t.Source == r.Table })
	switch {
	case total == 0 && r.Verdict != reconcile.Different:
		return nil
	case at < 0:
		return fmt.Errorf("the pipeline file has no table %q", r.Table)
	case r.Verdict != reconcile.Different:
		p.leave(r.Table, total, "the table is inconclusive: "+r.Why)
		return nil
	}
	if why := unrepairable(pipeline.Tables[at]); why != "" {
		p.leave(r.Table, total, why)
		return nil
	}
	var named, unfit, doubtful uint64
	for _, f := range r.Findings {
		named += f.Rows
		switch {
		case f.Unfit:
			unfit += f.Rows
			continue
		case f.Kind == reconcile.Extra && r.UnfitKeys > 0:
			doubtful += f.Rows
			continue
		}
		action, err := actionOf(f.Kind)
		if err != nil {
			return err
		}
		p.Steps = append(p.Steps, Step{Table: r.Table, Kind: f.Kind, Rows: f.Rows, Action: action, Columns: r.Key, Key: f.Key})
	}
	if unfit > 0 {
		p.leave(r.Table, unfit, "the source has values that the lake's type cannot hold: give the column another type, or allow_lossy")
	}
	if doubtful > 0 {
		p.leave(r.Table, doubtful, "the source has keys that the lake's type cannot hold, and rows of the lake that are extra may be theirs: give the key column another type")
	}
	switch {
	case r.UnreadBuckets > 0:
		p.leave(r.Table, total-named, "buckets that differ were not read: repair what is named, then compare again")
	case total > named:
		p.leave(r.Table, total-named, "rows that the report does not name: keep more findings (--max-findings), or repair what is named, then compare again")
	}
	return nil
}

func (p *Plan) leave(table string, rows uint64, why string) {
	p.Left = append(p.Left, Left{Table: table, Rows: rows, Why: why})
}

// unrepairable says why no row of a table can be repaired; nothing if they can.
func unrepairable(t *catalog.Table) string {
	if len(t.Key) == 0 {
		return "a table without a key cannot be repaired by key: load it anew (icehose resync, icehose load)"
	}
	return ""
}

func actionOf(kind reconcile.Kind) (Action, error) {
	switch kind {
	case reconcile.Missing, reconcile.Differs, reconcile.Stale, reconcile.Duplicate:
		return Upsert, nil
	case reconcile.Extra:
		return Delete, nil
	}
	return "", fmt.Errorf("no action for kind %q", kind)
}

// Write writes the steps, one JSON object a line.
func (p *Plan) Write(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for i := range p.Steps {
		if err := enc.Encode(&p.Steps[i]); err != nil {
			return fmt.Errorf("write plan: %w", err)
		}
	}
	return nil
}

// keysOf returns the keys of a table in a plan, each once, and which of them
// the lake has more than once.
func (p *Plan) keysOf(table string) (keys [][]string, again map[string]bool) {
	seen := map[string]bool{}
	again = map[string]bool{}
	for i := range p.Steps {
		s := &p.Steps[i]
		if s.Table != table {
			continue
		}
		id := identify(s.Key)
		if s.Kind == reconcile.Duplicate {
			again[id] = true
		}
		if !seen[id] {
			seen[id] = true
			keys = append(keys, s.Key)
		}
	}
	return keys, again
}

// identify makes one text of a key that no other key has.
func identify(key []string) string {
	text, _ := json.Marshal(key) // texts can always be written
	return string(text)
}

// A TableResult is what became of a table.
type TableResult struct {
	Table string `json:"table"`
	Keys  int    `json:"keys"` // of the plan
	// Agreed are keys that agreed before they were written.
	Agreed int `json:"agreed"`
	// Upserted and Deleted count what was written, a key that changed meanwhile
	// once for each time.
	Upserted int `json:"upserted"`
	Deleted  int `json:"deleted"`
	Rounds   int `json:"rounds"` // how many times the keys were written
	// Left are keys that differ still.
	Left int    `json:"left"`
	Why  string `json:"why,omitempty"` // they do
}

// A Result is the outcome of a repair, tables in the order of the plan.
type Result struct {
	Tables []TableResult `json:"tables"`
	// NotPlanned is what the plan left out.
	NotPlanned []Left `json:"not_planned,omitempty"`
	// Statements counts statements that were written and not run.
	Statements int `json:"statements,omitempty"`
}

// Repaired reports whether nothing is left.
func (r *Result) Repaired() bool {
	return len(r.NotPlanned) == 0 && !slices.ContainsFunc(r.Tables, func(t TableResult) bool { return t.Left > 0 })
}
