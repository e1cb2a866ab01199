package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/cdc/capture"
	"icehose/transform"
)

// errFound ends the reading of records when the one to explain was found.
var errFound = errors.New("found")

// explain finds one record and tells its story.
func (cmd *transformCmd) explain(ctx context.Context, env *environment, global *cli, t *transform.Transformer) error {
	want := cmd.Record
	if want < 0 {
		return errors.New("--record: want 1 or more")
	}
	if want == 0 && cmd.ID == "" {
		want = 1
	}
	count := 0
	var found capture.Record
	err := readCaptures(ctx, env, cmd.Files, cmd.Format, func(r capture.Record) error {
		count++
		if count == want || cmd.ID != "" && (r.ID == cmd.ID || r.Origin.Sequence == cmd.ID) {
			found = r
			return errFound
		}
		return nil
	})
	switch {
	case err == nil && cmd.ID != "":
		return fmt.Errorf("explain record: none of %d records has the id %q", count, cmd.ID)
	case err == nil:
		return fmt.Errorf("explain record: there are %d records, no number %d", count, want)
	case !errors.Is(err, errFound):
		return err
	}
	s := newStory(t, found, count, !cmd.NoValues)
	if global.JSON {
		enc := json.NewEncoder(env.stdout)
		enc.SetIndent("", "  ")
		err = enc.Encode(s)
	} else {
		err = s.writeText(env.stdout)
	}
	if err != nil {
		return fmt.Errorf("explain record: %w", err)
	}
	if s.Outcome == transform.ProcessingFailed {
		return exitError(exitDifferent)
	}
	return nil
}

// A story is an explanation as it is printed.
type story struct {
	Record       int               `json:"record"`
	ID           string            `json:"id"`
	Line         int               `json:"line"`
	Bytes        int               `json:"bytes"`
	Shard        string            `json:"shard,omitempty"`
	Sequence     string            `json:"sequence,omitempty"`
	PartitionKey string            `json:"partition_key,omitempty"`
	DecodeError  string            `json:"decode_error,omitempty"`
	Change       *storyChange      `json:"change,omitempty"`
	Rule         transform.Rule    `json:"rule,omitempty"`
	Routed       string            `json:"routed,omitempty"`
	Position     *storyPosition    `json:"position,omitempty"`
	Columns      []storyColumn     `json:"columns,omitempty"`
	Ignored      []string          `json:"ignored_fields,omitempty"`
	Outcome      transform.Outcome `json:"outcome"`
	Reason       transform.Reason  `json:"reason,omitempty"`
	Column       string            `json:"column,omitempty"`
	Operation    string            `json:"operation,omitempty"`
	Database     string            `json:"database,omitempty"`
	Table        string            `json:"table,omitempty"`
	OldKeyLeft   bool              `json:"old_key_left,omitempty"`
	Drift        *driftLine        `json:"drift,omitempty"`
	Hint         string            `json:"hint,omitempty"`
}

// A storyChange is what was decoded.
type storyChange struct {
	Operation      string     `json:"operation"`
	Control        string     `json:"control,omitempty"`
	Table          string     `json:"source_table"`
	BuiltAt        *time.Time `json:"built_at,omitempty"`
	CommittedAt    *time.Time `json:"committed_at,omitempty"`
	Transaction    *uint64    `json:"transaction_id,omitempty"`
	Record         *uint64    `json:"transaction_record_id,omitempty"`
	Prev           []uint64   `json:"previous,omitempty"` // transaction and record
	StreamPosition string     `json:"stream_position,omitempty"`
	KeyType        string     `json:"partition_key_type,omitempty"`
	Columns        int        `json:"columns"`
	BeforeColumns  *int       `json:"before_columns,omitempty"`
}

// A storyPosition is a position by its parts.
type storyPosition struct {
	Text  string `json:"text"`
	Epoch string `json:"epoch"`
	Body  string `json:"body"`
	Rank  string `json:"rank"`
	Tie   string `json:"tie"`
}

// A storyColumn is what became of one column.
type storyColumn struct {
	Column   string             `json:"column"`
	Type     string             `json:"type"`
	Field    string             `json:"field,omitempty"`
	Key      bool               `json:"key,omitempty"`
	Kind     string             `json:"kind"`
	Handling transform.Handling `json:"handling"`
	Reason   transform.Reason   `json:"reason,omitempty"`
	Value    *string            `json:"value,omitempty"` // the record's JSON
	Row      *string            `json:"row,omitempty"`   // the row's JSON
}

func newStory(t *transform.Transformer, r capture.Record, number int, values bool) *story {
	e := t.Explain(transformRecord(r))
	s := &story{
		Record: number, ID: r.ID, Line: r.Line, Bytes: len(r.Data), Shard: r.Origin.Shard, Sequence: r.Origin.Sequence, Rule: e.Rule,
		Outcome: e.Result.Outcome, Reason: e.Result.Reason, Column: e.Result.Column, OldKeyLeft: e.Result.OldKeyLeft, Drift: lineOfDrift(e.Result.Drift),
		Ignored: e.Ignored, Hint: hint(e.Result.Reason),
	}
	if values {
		s.PartitionKey = r.PartitionKey
	}
	switch {
	case e.Decode != nil:
		s.DecodeError = e.Decode.Error()
	case r.Fault == capture.BadJSON:
		s.DecodeError = "no whole JSON object of the format begins there"
	case r.Fault == capture.BadBase64:
		s.DecodeError = "the event has no data for it, or not in base64"
	}
	if e.Result.Outcome == transform.Ok {
		row := e.Result.Row
		s.Operation, s.Database, s.Table = row.Operation.String(), row.Table.Database(), row.Table.Name()
	}
	if e.Change != nil {
		s.Change = describeChange(e.Change)
		s.Routed = describeRoute(&e)
	}
	if p := e.Position; p != "" {
		s.Position = &storyPosition{Text: string(p), Epoch: p.Epoch(), Body: p.Body(), Rank: "change", Tie: string(p)[strings.LastIndexByte(string(p), '.')+1:]}
		if p.IsLoad() {
			s.Position.Rank = "load"
		}
	}
	for _, c := range e.Columns {
		line := storyColumn{
			Column: c.Column.Name, Type: c.Column.Type.String(), Field: c.Field, Key: e.Table.IsKey(c.Column.Name), Kind: c.Value.Kind.String(),
			Handling: c.Handling, Reason: c.Reason,
		}
		if c.FromBefore {
			line.Field += " (before-image)"
		}
		if values && c.Column.Mask == "" {
			line.Value, line.Row = textOf(c.Value.Raw), textOf(c.Row)
		}
		s.Columns = append(s.Columns, line)
	}
	return s
}

func textOf(raw []byte) *string {
	if raw == nil {
		return nil
	}
	s := string(raw)
	return &s
}

func describeChange(c *cdc.Change) *storyChange {
	out := &storyChange{
		Operation: c.Operation.String(), Control: c.ControlName, Table: c.Schema + "." + c.Table, StreamPosition: c.StreamPosition,
		KeyType: c.PartitionKeyType, Columns: len(c.Data),
	}
	if !c.BuiltAt.IsZero() {
		out.BuiltAt = &c.BuiltAt
	}
	if !c.CommittedAt.IsZero() {
		out.CommittedAt = &c.CommittedAt
	}
	if c.HasTransactionID {
		out.Transaction = &c.TransactionID
	}
	if c.HasRecordID {
		out.Record = &c.TransactionRecordID
	}
	if c.HasPrev {
		out.Prev = []uint64{c.PrevTransactionID, c.PrevRecordID}
	}
	if c.HasBefore {
		n := len(c.Before)
		out.BeforeColumns = &n
	}
	return out
}

func describeRoute(e *transform.Explanation) string {
	switch e.Rule {
	case transform.RuleInternal:
		return "dropped: awsdms_* tables are the replication task's own"
	case transform.RuleExclude:
		return "dropped: the pipeline file excludes the table"
	case transform.RuleControl:
		return "dropped: control records are no rows"
	case transform.RuleUnknown:
		return "on_unknown_table: no entry of tables: has this source"
	case transform.RuleTable:
		return fmt.Sprintf("tables[%d], a %s -> %s.%s (%s)", e.Entry, e.Table.Mode, e.Table.Database(), e.Table.Name(), targetOrigin(e.Table))
	case transform.RuleNone:
	}
	return ""
}

// targetOrigin says where a table's target comes from.
func targetOrigin(t *catalog.Table) string {
	if t.Target != "" {
		return "its target:"
	}
	if route, ok := t.Route(); ok {
		return fmt.Sprintf("routes[%d]", route)
	}
	return "the source's name"
}

func (s *story) writeText(w io.Writer) error {
	var b strings.Builder
	line := func(label, format string, args ...any) {
		fmt.Fprintf(&b, "%-10s %s\n", label, fmt.Sprintf(format, args...))
	}
	line("record", "%d, id %s, line %d, %s bytes", s.Record, s.ID, s.Line, thousands(int64(s.Bytes)))
	if s.Shard != "" {
		line("stream", "%s, sequence %s%s", s.Shard, s.Sequence, prefixed(", partition key ", s.PartitionKey))
	}
	if s.DecodeError != "" {
		line("decoded", "not: %s", s.DecodeError)
	}
	if c := s.Change; c != nil {
		c.write(line)
	}
	if s.Routed != "" {
		line("routed", "%s", s.Routed)
	}
	if p := s.Position; p != nil {
		line("position", "epoch %s, body %s, rank %s", p.Epoch, p.Body, p.Rank)
		line("", "tie %s", p.Tie)
	} else if s.Rule == transform.RuleTable {
		line("position", "none of the table's declared kind")
	}
	if err := s.writeColumns(&b); err != nil {
		return err
	}
	if len(s.Ignored) > 0 {
		line("ignored", "%s (no column of the pipeline file)", strings.Join(s.Ignored, ", "))
	}
	switch s.Outcome {
	case transform.Ok:
		line("result", "%s: %s into %s.%s", s.Outcome, s.Operation, s.Database, s.Table)
	case transform.Dropped, transform.ProcessingFailed:
		line("result", "%s: %s%s", s.Outcome, s.Reason, prefixed(", column ", s.Column))
	}
	if s.OldKeyLeft {
		line("", "the row of the old key stays in the mirror until it is reconciled")
	}
	if d := s.Drift; d != nil {
		line("drift", "%s; unknown columns: %s; missing columns: %s", d.Statement, listed(d.Unknown), listed(d.Missing))
	}
	if s.Hint != "" {
		line("what to do", "%s", s.Hint)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func listed(names []string) string { return cmp.Or(strings.Join(names, ", "), "none") }

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

func (c *storyChange) write(line func(label, format string, args ...any)) {
	line("decoded", "%s%s of %s, %d columns%s", c.Operation, prefixed(" ", c.Control), c.Table, c.Columns, prefixed(", partitioned by ", c.KeyType))
	if c.BeforeColumns != nil {
		line("", "before-image of %d columns", *c.BeforeColumns)
	}
	if c.BuiltAt != nil {
		line("", "built %s", c.BuiltAt.Format(time.RFC3339Nano))
	}
	if c.CommittedAt != nil {
		line("", "committed %s", c.CommittedAt.Format(time.RFC3339Nano))
	}
	if c.Transaction != nil && c.Record != nil {
		line("", "transaction %d, record %d", *c.Transaction, *c.Record)
	} else if c.Transaction != nil {
		line("", "transaction %d, without a record number", *c.Transaction)
	}
	if len(c.Prev) == 2 {
		line("", "after transaction %d, record %d", c.Prev[0], c.Prev[1])
	}
	if c.StreamPosition != "" {
		line("", "stream-position %s", c.StreamPosition)
	}
}

// longValue is how many characters of a value fit a table that people read.
const longValue = 48

func (s *story) writeColumns(b *strings.Builder) error {
	if len(s.Columns) == 0 {
		return nil
	}
	b.WriteByte('\n')
	var cells strings.Builder
	cells.WriteString("  column\ttype\tfrom field\tkind\thandling\tvalue\tin the row\n")
	for _, c := range s.Columns {
		name := c.Column
		if c.Key {
			name += " (key)"
		}
		handling := string(c.Handling)
		if c.Reason != "" {
			handling += ": " + string(c.Reason)
		}
		fmt.Fprintf(&cells, "  %s\t%s\t%s\t%s\t%s\t%s\t%s\n", name, c.Type, cmp.Or(c.Field, "-"), c.Kind, handling, short(c.Value), short(c.Row))
	}
	if err := align(b, cells.String()); err != nil {
		return err
	}
	b.WriteByte('\n')
	return nil
}

// align writes lines of cells between tabs in columns.
func align(b *strings.Builder, cells string) error {
	out := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	if _, err := io.WriteString(out, cells); err != nil {
		return err
	}
	return out.Flush()
}

// short is a value on one line. JSON text of a record can hold line breaks and
// tabs between tokens.
func short(s *string) string {
	if s == nil {
		return "-"
	}
	one := strings.Join(strings.Fields(*s), " ")
	if utf8.RuneCountInString(one) > longValue {
		return string([]rune(one)[:longValue]) + "…"
	}
	return one
}
