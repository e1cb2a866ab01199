package status

import (
	"fmt"
	"slices"
	"time"
)

// A Reconcile is the last report of icehose reconcile.
type Reconcile struct {
	From   string    // where the report lies
	At     time.Time // when it was made; zero: not known
	Tables []Verdict
	Only   []string // the tables that the run was asked for, when not all
	Later  []string // the tables that the run goes on with
}

// A Verdict is what it says of a table.
type Verdict struct {
	Table   string `json:"table"`   // schema.table of the source
	Target  string `json:"target"`  // database.table
	Verdict string `json:"verdict"` // equal, different or inconclusive
	Why     string `json:"why"`
	// Scope and Sampled say which rows it is about, when not all: in words, or as
	// a fraction of the keys.
	Scope   string  `json:"scope"`
	Sampled float64 `json:"sampled"`
	Source  Rows    `json:"source"`
	Lake    Rows    `json:"lake"`
	// DecidedAt is when it was reached, which may be long before the report was
	// made; zero: not known.
	DecidedAt time.Time `json:"decided_at"`
}

// Rows is how many rows a side has; nil: not known.
type Rows struct {
	Rows *uint64 `json:"rows"`
}

// partial says which rows a verdict is about, empty for all.
func (v *Verdict) partial() string {
	switch {
	case v.Scope != "":
		return v.Scope
	case v.Sampled > 0:
		return fmt.Sprintf("sample of %.3g%%", 100*v.Sampled)
	}
	return ""
}

// old reports whether something that was found at a time proves nothing any more;
// false when the time is not known.
func (j *judge) old(at time.Time) bool { return !at.IsZero() && j.now.Sub(at) > j.limits.Verdict }

// ago is how long ago a time was.
func (j *judge) ago(at time.Time) string { return short(j.now.Sub(at).Round(time.Minute)) + " ago" }

// isEmpty reports whether a verdict that still counts is that a table has no rows
// on either side.
func (j *judge) isEmpty(name string, r *Reconcile) bool {
	if r == nil {
		return false
	}
	zero := func(side Rows) bool { return side.Rows != nil && *side.Rows == 0 }
	return slices.ContainsFunc(r.Tables, func(v Verdict) bool {
		at := v.DecidedAt
		if at.IsZero() {
			at = r.At
		}
		return v.Target == name && v.Verdict == "equal" && v.partial() == "" && zero(v.Source) && zero(v.Lake) && !at.IsZero() && !j.old(at)
	})
}

const tooOld = "it is too old to prove anything: icehose reconcile, or invoke the Lambda, whose log says why it did not run"

// reconcile adds a line for the report, and one for each table: those of the
// pipeline file that the report does not have too.
func (j *judge) reconcile(r *Reconcile, sources []string) {
	light, age := OK, "time not known"
	if !r.At.IsZero() {
		age = j.ago(r.At)
		if j.old(r.At) {
			light = Red
		}
	}
	j.line("reconcile", r.From, "last report", age, light, tooOld)
	told := make(map[string]bool, len(r.Tables))
	for i := range r.Tables {
		told[r.Tables[i].Table] = true
		j.verdict(&r.Tables[i], light == OK)
	}
	for _, name := range append(slices.Clone(r.Later), sources...) {
		if told[name] {
			continue
		}
		told[name] = true
		value, next := "not in the report", "nothing is known of the table: icehose reconcile compares it"
		switch {
		case slices.Contains(r.Later, name):
			value, next = "not decided yet", "the run goes on with the table: see the next report"
		case len(r.Only) > 0 && !slices.Contains(r.Only, name):
			value, next = "not compared: the report is of chosen tables", "icehose reconcile without --tables and --keys compares it"
		}
		j.line("verdict", name, "verdict", value, Unknown, next)
	}
}

// verdict adds the line of a table. fresh says that the report is not too old: if
// it is, that is said once, and not of every table.
func (j *judge) verdict(v *Verdict, fresh bool) {
	value, part := v.Verdict, v.partial()
	if part != "" {
		value += " (" + part + ")"
	}
	if v.Why != "" {
		value += ": " + v.Why
	}
	light, next := Red, ""
	switch {
	case v.Verdict == "different":
		next = "icehose reconcile --show-keys names the rows; a stale mirror is repaired by a plan, a gap by icehose resync"
	case v.Verdict != "equal":
		next = "reconcile again when it has caught up: nothing is known of the table"
	case fresh && j.old(v.DecidedAt):
		value, next = value+", decided "+j.ago(v.DecidedAt), tooOld
	case part != "":
		light, next = Unknown, "only a part of the table was compared: icehose reconcile without --keys, --since and --sample compares it whole"
	default:
		light = OK
	}
	j.line("verdict", v.Table, "verdict", value, light, next)
}
