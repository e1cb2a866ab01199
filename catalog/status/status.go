// Package status tells how a pipeline is: where changes wait, what fails, what the
// last reconcile said, and what to do about each.
//
// In comes what was observed of a pipeline (by catalog/status/aws, or of a lake);
// out come lines with a light and, for each that is red, the next step. It is
// pure: the caller says what time it is. What could not be observed is a line
// too, never a gap.
package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Light says how a part is.
type Light string

// The lights.
const (
	OK      Light = "ok"
	Red     Light = "red"
	Unknown Light = "unknown" // it could not be observed
)

// A Line is one part of the pipeline, at one moment.
type Line struct {
	Part  string `json:"part"`  // source, task, stream, transform, delivery, sink, table, reconcile or verdict
	Name  string `json:"name"`  // of the resource or table
	What  string `json:"what"`  // what was observed
	Value string `json:"value"` // for people; units are in it
	Light Light  `json:"light"`
	// Next is what to do, when Light is not OK.
	Next string `json:"next,omitempty"`
}

// A Report is everything, in the order in which changes flow.
type Report struct {
	At    time.Time `json:"at"`
	Light Light     `json:"light"`
	Lines []Line    `json:"lines"`
}

// Limits are what is still well.
type Limits struct {
	Behind  time.Duration // that a reader, DMS or a commit may be
	Slot    int64         // bytes of log that a slot may keep
	Verdict time.Duration // age of the last reconcile
	// Window is the time that failures are counted over.
	Window time.Duration
}

// DefaultLimits suit a pipeline whose alarms have their defaults.
func DefaultLimits() Limits {
	return Limits{Behind: 15 * time.Minute, Slot: 20 << 30, Verdict: 24 * time.Hour, Window: time.Hour}
}

// Observed is what was seen of a pipeline. A nil or empty part was not asked for.
type Observed struct {
	Source     *Source
	Task       *Task
	Stream     *Stream
	Deliveries []Delivery
	Shards     []Shard
	Tables     []Table
	Reconcile  *Reconcile
	// Sources are the source tables of the pipeline file, as schema.table, each of
	// which a report should have; nil: not known.
	Sources []string
	// Unread are parts that could not be observed.
	Unread []Unread
}

// An Unread is a part that could not be observed.
type Unread struct {
	Part, Name string
	Err        error
}

// A Source is the database that changes come from.
type Source struct {
	Name string
	Slot *int64 // bytes of log that its replication slots keep; nil: no data
}

// A Task is the DMS task.
type Task struct {
	Name, State    string // in DMS's words
	StopReason     string
	Source, Target *time.Duration // how far it is behind the source, and the stream behind it; nil: no data
	Suspended      []string       // tables that DMS gave up
}

// A Stream is the Kinesis stream.
type Stream struct {
	Name, State string
	Retention   time.Duration
	Age         *time.Duration // of the oldest record that some reader has not read; nil: no data
}

// A Delivery is a Firehose delivery stream with its transform.
type Delivery struct {
	Name, State string
	Fresh       *time.Duration // age of the oldest record that is not committed; nil: no data
	Refused     float64        // rows that Iceberg refused within the window
	ErrorBucket string         // empty: not known
	Failures    []Failure
}

// A Failure counts records that the transform failed, within the window.
type Failure struct {
	Table, Reason string
	Records       float64
}

// A Shard is how far our own sink is with a shard of the stream.
type Shard struct {
	Name      string
	Records   uint64     // from its start on, that every table has noted
	Committed *time.Time // commit time in the source of the newest of them
	Behind    uint64     // changes that came after one at a higher position
}

// A Table is a table of the lake.
type Table struct {
	Name    string    // database.table
	Commit  time.Time // of the newest snapshot; zero: none
	Missing bool      // the catalog does not have it
}

// Judge makes the report.
func Judge(o *Observed, now time.Time, limits Limits) Report {
	j := &judge{now: now, limits: limits}
	if o.Source != nil {
		j.source(o.Source)
	}
	if o.Task != nil {
		j.task(o.Task)
	}
	if o.Stream != nil {
		j.stream(o.Stream)
	}
	for i := range o.Deliveries {
		j.delivery(&o.Deliveries[i])
	}
	for i := range o.Shards {
		j.shard(&o.Shards[i])
	}
	for i := range o.Tables {
		j.table(&o.Tables[i], o.Reconcile)
	}
	if o.Reconcile != nil {
		j.reconcile(o.Reconcile, o.Sources)
	}
	for _, u := range o.Unread {
		j.line(u.Part, u.Name, "read", u.Err.Error(), Unknown, "see what it says: a name, a permission, or the network")
	}
	order := []string{"source", "task", "stream", "transform", "delivery", "sink", "table", "reconcile", "verdict"}
	slices.SortStableFunc(j.lines, func(a, b Line) int { return cmp.Compare(slices.Index(order, a.Part), slices.Index(order, b.Part)) })
	r := Report{At: now.UTC(), Light: OK, Lines: j.lines}
	for _, l := range j.lines {
		if l.Light == Red || l.Light == Unknown && r.Light == OK {
			r.Light = l.Light
		}
	}
	return r
}

type judge struct {
	now    time.Time
	limits Limits
	lines  []Line
}

func (j *judge) line(part, name, what, value string, light Light, next string) {
	if light == OK {
		next = ""
	}
	j.lines = append(j.lines, Line{Part: part, Name: name, What: what, Value: value, Light: light, Next: next})
}

// lag adds a line about a delay. No data is fine where nothing flows: the part's
// state is a line of its own.
func (j *judge) lag(part, name, what string, d *time.Duration, next string) {
	if d == nil {
		j.line(part, name, what, "no data", OK, "")
		return
	}
	light := OK
	if *d > j.limits.Behind {
		light = Red
	}
	j.line(part, name, what, d.Round(time.Second).String(), light, next)
}

func (j *judge) source(s *Source) {
	if s.Slot == nil {
		j.line("source", s.Name, "log kept for slots", "no data", OK, "")
		return
	}
	light := OK
	if *s.Slot > j.limits.Slot {
		light = Red
	}
	j.line("source", s.Name, "log kept for slots", size(*s.Slot), light,
		"resume the DMS task; if nobody reads the slot any more, drop it before the disk is full: icehose preflight names it")
}

func (j *judge) task(t *Task) {
	light, next := Red, ""
	switch t.State {
	case "running":
		light = OK
	case "stopped", "failed":
		next = "mend what the stop reason says, then resume it (make start; never restart: that makes a new slot and loses what was between)"
	case "ready", "created":
		next = "it was never started: make start, when the delivery streams are ACTIVE"
	default:
		next = "wait for it; nothing is read from the source meanwhile"
	}
	value := t.State
	if t.StopReason != "" && light != OK {
		value += ": " + t.StopReason
	}
	j.line("task", t.Name, "state", value, light, next)
	j.lag("task", t.Name, "behind the source", t.Source, "a long transaction in the source, or an instance that is too small: see its CPU and swap")
	j.lag("task", t.Name, "stream behind it", t.Target, "the stream refuses writes: more shards (icehose lint --rate), or a hot key")
	if len(t.Suspended) > 0 {
		j.line("task", t.Name, "suspended tables", strings.Join(t.Suspended, ", "), Red,
			"nothing comes of them any more: aws dms describe-table-statistics says why; mend it, then icehose resync start TABLE and reload the table")
	}
}

func (j *judge) stream(s *Stream) {
	light := OK
	if s.State != "ACTIVE" && s.State != "UPDATING" {
		light = Red
	}
	j.line("stream", s.Name, "state", s.State, light, "nothing can be written: see aws kinesis describe-stream-summary")
	next := "a reader is behind: see the delivery streams below"
	if s.Age != nil && s.Retention > 0 && *s.Age > s.Retention/2 {
		next = fmt.Sprintf("records are lost at %s: raise the retention now (aws kinesis increase-stream-retention-period), then see the delivery streams below", s.Retention)
	}
	j.lag("stream", s.Name, "slowest reader behind", s.Age, next)
}

func (j *judge) delivery(d *Delivery) {
	light := OK
	if d.State != "ACTIVE" {
		light = Red
	}
	j.line("delivery", d.Name, "state", d.State, light, "nothing is delivered: aws firehose describe-delivery-stream says why (FailureDescription)")
	j.lag("delivery", d.Name, "oldest not committed", d.Fresh, "see its log group for refused commits, and Lambda's throttles")
	bucket := "its error bucket"
	if d.ErrorBucket != "" {
		bucket = "s3://" + d.ErrorBucket
	}
	light = OK
	if d.Refused > 0 {
		light = Red
	}
	j.line("delivery", d.Name, "rows refused by Iceberg", j.within(d.Refused), light,
		"icehose catalog drift says what differs; then icehose redrive "+bucket+"/iceberg-failed/")
	slices.SortFunc(d.Failures, func(a, b Failure) int {
		return cmp.Or(cmp.Compare(b.Records, a.Records), strings.Compare(a.Table, b.Table), strings.Compare(a.Reason, b.Reason))
	})
	if len(d.Failures) == 0 {
		j.line("transform", d.Name, "records failed", j.within(0), OK, "")
	}
	for _, f := range d.Failures {
		j.line("transform", d.Name, "failed "+f.Reason+" of "+f.Table, j.within(f.Records), Red, stepFor(f.Reason)+"; then icehose redrive "+bucket+"/processing-failed/")
	}
}

func (j *judge) within(n float64) string { return fmt.Sprintf("%.0f in %s", n, short(j.limits.Window)) }

// stepFor says what mends a reason of the transform.
func stepFor(reason string) string {
	switch reason {
	case "unknown_table":
		return "icehose catalog discover adds the table to the pipeline file (or exclude: it); deploy"
	case "no_position", "missing_column":
		return "icehose lint names the endpoint setting, or icehose catalog diff the column that went"
	case "no_key", "missing_key", "partial_row":
		return "make the table a changelog in the pipeline file, or mend its key; deploy"
	case "damaged_number":
		return "set UseLargeIntegerValue on the target endpoint (DMS 3.5.4 or later), then icehose resync start TABLE"
	case "response_too_large":
		return "lower the transform's BufferSizeInMBs; deploy"
	case "invalid_base64", "invalid_json":
		return "find who else writes to the stream"
	}
	return "icehose transform --explain on one of them names the column; widen it, or allow_lossy; deploy"
}

func (j *judge) shard(s *Shard) {
	value := fmt.Sprintf("%d records", s.Records)
	if s.Committed != nil {
		value += ", up to " + s.Committed.UTC().Format(time.RFC3339)
	}
	if s.Behind > 0 {
		value += fmt.Sprintf(", %d of them behind their order", s.Behind)
	}
	j.line("sink", s.Name, "in every table", value, OK, "")
}

func (j *judge) table(t *Table, last *Reconcile) {
	switch {
	case t.Missing:
		j.line("table", t.Name, "last commit", "no such table", Red, "icehose catalog apply creates it")
	case t.Commit.IsZero() && j.isEmpty(t.Name, last):
		j.line("table", t.Name, "last commit", "none: the source has no rows of it either", OK, "")
	case t.Commit.IsZero():
		j.line("table", t.Name, "last commit", "none", Red,
			"nothing was ever delivered: is its load done, and is its name right in the pipeline file? If its source has no rows, a report of icehose reconcile says so (--report)")
	default:
		j.line("table", t.Name, "last commit", t.Commit.UTC().Format(time.RFC3339), OK, "")
	}
}

// size is a number of bytes for people.
func size(n int64) string {
	for _, unit := range []struct {
		bytes int64
		name  string
	}{{1 << 30, "GB"}, {1 << 20, "MB"}, {1 << 10, "KB"}} {
		if n >= unit.bytes {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(unit.bytes), unit.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}

// short is a duration without zeros at its end.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}
