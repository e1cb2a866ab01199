package inspect

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"icehose/cdc"
)

// A Severity says how much a finding matters.
type Severity string

// The severities.
const (
	Problem Severity = "problem" // rows of some consumer end up wrong or missing
	Warning Severity = "warning" // rows can end up wrong, or something was not looked at
	Note    Severity = "note"    // good to know
)

// A Finding is something that will matter to a consumer.
type Finding struct {
	ID          string   `json:"id"` // of a closed list, snake_case
	Severity    Severity `json:"severity"`
	Table       string   `json:"table,omitempty"` // empty: the whole stream
	Count       int64    `json:"count,omitempty"`
	What        string   `json:"what"`
	Consequence string   `json:"consequence"`
	Fix         string   `json:"fix"`
	Examples    []string `json:"examples,omitempty"` // record ids or names, never values
}

// A Setting is what the stream tells about a setting of endpoint or task.
type Setting struct {
	Name     string `json:"name"`
	Value    string `json:"value"`
	Evidence string `json:"evidence"`
}

// A Reading says which of the two numbers of a PostgreSQL stream position
// follows the order of commits.
type Reading string

// The readings.
const (
	ReadingNone    Reading = "none"    // no two positions on the chain to compare
	ReadingSecond  Reading = "second"  // only the second never falls
	ReadingFirst   Reading = "first"   // only the first never falls
	ReadingBoth    Reading = "both"    // neither falls: this capture cannot tell
	ReadingNeither Reading = "neither" // both fall
)

// Operations are records by operation.
type Operations struct {
	Load    int64 `json:"load"`
	Insert  int64 `json:"insert"`
	Update  int64 `json:"update"`
	Delete  int64 `json:"delete"`
	Control int64 `json:"control"`
}

func (o *Operations) add(op cdc.Operation) {
	switch op {
	case cdc.Load:
		o.Load++
	case cdc.Insert:
		o.Insert++
	case cdc.Update:
		o.Update++
	case cdc.Delete:
		o.Delete++
	case cdc.Control:
		o.Control++
	}
}

// A ShardReport is what one shard has of a table.
type ShardReport struct {
	Shard string `json:"shard"` // "-" when the capture does not tell
	Operations
}

// A TableReport is what was seen of one table.
type TableReport struct {
	Table      string           `json:"table"`
	Internal   bool             `json:"internal,omitempty"` // one of the task's own
	Key        []string         `json:"key,omitempty"`
	Position   string           `json:"position"` // declared or told from the records; none; - when there are no changes
	Shards     []ShardReport    `json:"shards"`
	LoadKeys   map[string]int64 `json:"load_key_types,omitempty"`   // partition-key-type of loads
	ChangeKeys map[string]int64 `json:"change_key_types,omitempty"` // of inserts, updates and deletes
	MaxBytes   int              `json:"max_bytes"`                  // of a record and its partition key
	KeysSeen   int64            `json:"keys_followed"`
	// KeysSplit are keys with records on several shards, KeysLoadSplit those
	// of them whose load is on another shard than changes.
	KeysSplit     int64 `json:"keys_on_several_shards"`
	KeysLoadSplit int64 `json:"keys_loaded_on_another_shard"`
	// Inversions are changes that arrived after a newer change of their key:
	// on the same shard, and on others.
	InversionsInShard int64 `json:"inversions_in_shard"`
	InversionsAcross  int64 `json:"inversions_across_shards"`
	LateLoads         int64 `json:"loads_after_changes"` // of their key
	LoadedAgain       int64 `json:"loaded_again"`
	Duplicates        int64 `json:"duplicates"`
}

// A ChainReport is what following the previous transactions showed.
type ChainReport struct {
	Changes      int64   `json:"changes"` // that carry a number
	Links        int64   `json:"links"`
	Starts       int64   `json:"starts"` // changes without a predecessor: starts of the task
	Gaps         int64   `json:"gaps"`   // changes whose predecessor is not in the capture
	Heads        int64   `json:"heads"`  // the same, of chains that no other one can have led to
	Forks        int64   `json:"forks"`  // changes whose predecessor another change names too
	Compared     int64   `json:"links_between_transactions"`
	Ordered      int64   `json:"links_of_other_positions"` // between transactions, with one number, such as MySQL's
	OrderedFalls int64   `json:"other_position_falls"`
	SecondFalls  int64   `json:"second_number_falls"`
	FirstFalls   int64   `json:"first_number_falls"`
	CommitFalls  int64   `json:"commit_time_falls"`
	CommitNumber Reading `json:"commit_number"`
}

// A Report is what an Inspector found.
type Report struct {
	Records  int64         `json:"records"`
	Bytes    int64         `json:"bytes"`
	Invalid  int64         `json:"invalid"` // records that could not be decoded
	Shards   int           `json:"shards"`
	Tables   []TableReport `json:"tables"`
	Chain    ChainReport   `json:"chain"`
	Settings []Setting     `json:"settings"`
	Findings []Finding     `json:"findings"`
}

// Problems reports whether a finding is a problem.
func (r *Report) Problems() bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Severity == Problem })
}

// Report says what was found so far. Equal streams give equal reports.
func (i *Inspector) Report() *Report {
	r := &Report{Records: i.records, Bytes: i.bytes, Shards: len(i.shardNames), Tables: []TableReport{}, Settings: i.facts.settings()}
	for _, n := range i.invalid {
		r.Invalid += n
	}
	for _, name := range slices.Sorted(maps.Keys(i.tables)) {
		r.Tables = append(r.Tables, i.tableReport(i.tables[name]))
	}
	ch := &i.chain
	missing, heads := ch.gaps()
	r.Chain = ChainReport{
		Changes: ch.records, Links: ch.links, Starts: ch.starts, Gaps: int64(len(missing)), Heads: int64(len(heads)), Forks: ch.forks,
		Compared: ch.compared, Ordered: ch.ordered, OrderedFalls: ch.fell,
		SecondFalls: ch.secondBack, FirstFalls: ch.firstBack, CommitFalls: ch.commitBack, CommitNumber: ch.reading(),
	}
	r.Findings = i.findings(r)
	return r
}

func (i *Inspector) tableReport(t *table) TableReport {
	out := TableReport{
		Table: t.name, Internal: t.internal, Key: t.key, LoadKeys: t.loadKeys, ChangeKeys: t.changeKeys, MaxBytes: t.maxBytes,
		KeysSeen: t.tracked, KeysSplit: t.split, KeysLoadSplit: t.loadSplit, InversionsInShard: t.inShard, InversionsAcross: t.across,
		LateLoads: t.loadInShard + t.loadAcross, LoadedAgain: t.loadedAgain, Duplicates: t.duplicates, Position: "-",
	}
	if t.changes > 0 {
		out.Position = cdc.PositionKind{Source: cdc.SourceNone}.String()
	}
	if kind := (cdc.PositionKind{Source: t.guessed}); t.guessed != 0 {
		out.Position = kind.String()
	}
	if t.kind.Source != 0 {
		out.Position = t.kind.String()
	}
	for shard, ops := range t.shards {
		out.Shards = append(out.Shards, ShardReport{i.shardNames[shard], *ops})
	}
	slices.SortFunc(out.Shards, func(a, b ShardReport) int { return strings.Compare(a.Shard, b.Shard) })
	return out
}

// WriteJSON writes the report as one JSON object.
func (r *Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// WriteText writes the report for people.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%d records, %d bytes, %d shards, %d tables", r.Records, r.Bytes, r.Shards, len(r.Tables))
	if r.Invalid > 0 {
		fmt.Fprintf(&b, ", %d records could not be decoded", r.Invalid)
	}
	b.WriteString("\n\n")
	err := r.writeTables(&b)
	c := r.Chain
	fmt.Fprintf(&b, "\nchain of changes: %d numbered, %d links, %d starts, %d gaps, %d forks; commit number of positions: %s"+
		" (of %d links between transactions the second number falls along %d, the first along %d)\n",
		c.Changes, c.Links, c.Starts, c.Gaps, c.Forks, c.CommitNumber, c.Compared, c.SecondFalls, c.FirstFalls)
	b.WriteString("\nsettings, as far as records show them\n")
	var settings strings.Builder
	for _, s := range r.Settings {
		fmt.Fprintf(&settings, "  %s\t%s\t%s\n", s.Name, s.Value, s.Evidence)
	}
	err = errors.Join(err, align(&b, settings.String()))
	r.writeFindings(&b)
	if err == nil {
		_, err = io.WriteString(w, b.String())
	}
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// writeTables writes what was seen of each table.
func (r *Report) writeTables(b *strings.Builder) error {
	var text strings.Builder
	text.WriteString("table\tshard\tload\tinsert\tupdate\tdelete\tcontrol\tload key\tchange key\tposition\n")
	for _, t := range r.Tables {
		for i, s := range t.Shards {
			name, load, change, position := t.Table, keyTypes(t.LoadKeys), keyTypes(t.ChangeKeys), t.Position
			if i > 0 {
				name, load, change, position = "", "", "", ""
			}
			fmt.Fprintf(&text, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%s\n", name, s.Shard, s.Load, s.Insert, s.Update, s.Delete, s.Control, load, change, position)
		}
	}
	text.WriteString("\ntable\tkeys followed\ton several shards\tinversions in a shard\tacross shards\tlate loads\tloaded again\tduplicates\tlargest record\n")
	for _, t := range r.Tables {
		fmt.Fprintf(&text, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", t.Table, t.KeysSeen, t.KeysSplit, t.InversionsInShard, t.InversionsAcross,
			t.LateLoads, t.LoadedAgain, t.Duplicates, t.MaxBytes)
	}
	return align(b, text.String())
}

// align writes lines of cells between tabs in columns.
func align(b *strings.Builder, cells string) error {
	out := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	if _, err := io.WriteString(out, cells); err != nil {
		return err
	}
	return out.Flush()
}

// writeFindings writes findings of one kind together: what to do is the same.
func (r *Report) writeFindings(b *strings.Builder) {
	count := make(map[Severity]int)
	for n, f := range r.Findings {
		count[f.Severity]++
		if n == 0 || r.Findings[n-1].ID != f.ID || r.Findings[n-1].Severity != f.Severity {
			fmt.Fprintf(b, "\n%s %s\n", f.Severity, f.ID)
		}
		what := f.What
		if f.Table != "" {
			what = f.Table + ": " + what
		}
		fmt.Fprintf(b, "  %s\n", what)
		if len(f.Examples) > 0 {
			fmt.Fprintf(b, "    such as: %s\n", strings.Join(f.Examples, ", "))
		}
		if n == len(r.Findings)-1 || r.Findings[n+1].ID != f.ID || r.Findings[n+1].Severity != f.Severity {
			fmt.Fprintf(b, "  consequence: %s\n  fix: %s\n", f.Consequence, f.Fix)
		}
	}
	fmt.Fprintf(b, "\n%d problems, %d warnings, %d notes\n", count[Problem], count[Warning], count[Note])
}

// keyTypes lists partition key types, the most frequent first.
func keyTypes(m map[string]int64) string {
	names := slices.SortedFunc(maps.Keys(m), func(a, b string) int { return cmp.Or(cmp.Compare(m[b], m[a]), strings.Compare(a, b)) })
	for i, n := range names {
		names[i] = cmp.Or(n, "none")
		if len(names) > 1 {
			names[i] += " " + strconv.FormatInt(m[n], 10)
		}
	}
	return cmp.Or(strings.Join(names, ", "), "-")
}
