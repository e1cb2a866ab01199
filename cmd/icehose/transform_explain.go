package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/cdc/capture"
	"icehose/transform"
	"icehose/transform/firehose"
)

// errFound ends the reading of records when the one to explain was found.
var errFound = errors.New("found")

// explain finds one record and tells its story.
func (cmd *transformCmd) explain(ctx context.Context, env *environment, global *cli, t *transform.Transformer) error {
	want := cmd.Record
	switch {
	case want < 0:
		return errors.New("--record: want 1 or more")
	case want > 0 && cmd.ID != "":
		return errors.New("--record and --id: give one of them")
	}
	if want == 0 && cmd.ID == "" {
		want = 1
	}
	found, count, err := cmd.find(ctx, env, want)
	if err != nil {
		return err
	}
	s, err := newStory(t, found, count, !cmd.NoValues)
	if err != nil {
		return fmt.Errorf("explain record: %w", err)
	}
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

// find returns the record to explain, and its number.
func (cmd *transformCmd) find(ctx context.Context, env *environment, want int) (found capturedRecord, count int, err error) {
	for _, name := range inputsOf(cmd.Files) {
		err = readObjects(ctx, env, name, cmd.Format, func(o capture.Object) error {
			records, damage := recordsOf(o)
			for _, r := range records {
				count++
				if count == want || cmd.ID != "" && (r.ID == cmd.ID || r.record.Origin.Sequence == cmd.ID) {
					found = r
					return cmp.Or(damage, errFound)
				}
			}
			return nil
		})
		if err != nil {
			break
		}
	}
	switch {
	case errors.Is(err, errFound):
		return found, count, nil
	case err != nil:
		return found, count, err
	case cmd.ID != "":
		return found, count, fmt.Errorf("explain record: none of %d records has the id %q", count, cmd.ID)
	}
	return found, count, fmt.Errorf("explain record: there are %d records, no number %d", count, want)
}

// A capturedRecord is a record and what the transform gets of it.
type capturedRecord struct {
	capture.Record
	record transform.Record
}

// recordsOf returns the records of an object: those of an event as the Lambda
// reads them, or one and an error where it cannot.
func recordsOf(o capture.Object) ([]capturedRecord, error) {
	event, err := openEvent(o)
	if o.Format != capture.Firehose {
		err = nil
	}
	o.Broken = o.Broken || err != nil
	captured := o.Records()
	out := make([]capturedRecord, len(captured))
	for i, r := range captured {
		out[i] = capturedRecord{r, transformRecord(r)}
		if event != nil && i < len(event.Records) {
			out[i].record = event.Records[i]
			out[i].ID, out[i].Data = out[i].record.ID, out[i].record.Data
		}
	}
	return out, err
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
	KeyChanged   bool              `json:"key_changed,omitempty"`
	OldKey       string            `json:"old_key,omitempty"` // the row's cdc_old_key
	Absent       string            `json:"absent,omitempty"`  // the row's cdc_absent
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

func newStory(t *transform.Transformer, r capturedRecord, number int, values bool) (*story, error) {
	e, err := firehose.Explain(t, r.record)
	if err != nil {
		return nil, err
	}
	s := &story{
		Record: number, ID: r.ID, Line: r.Line, Bytes: len(r.Data), Shard: r.record.Origin.Shard, Sequence: r.record.Origin.Sequence, Rule: e.Rule,
		Outcome: e.Result.Outcome, Reason: e.Result.Reason, Column: e.Result.Column, OldKeyLeft: e.Result.OldKeyLeft, Drift: lineOfDrift(e.Result.Drift),
		KeyChanged: e.OldKey != "", Absent: e.Absent, Ignored: e.Ignored, Hint: hint(e.Result.Reason),
	}
	if values {
		s.PartitionKey = r.PartitionKey
		s.OldKey = shownKey(&e)
	}
	switch {
	case e.Decode != nil:
		s.DecodeError = e.Decode.Error()
	case r.record.Unread == transform.InvalidJSON:
		s.DecodeError = "no whole JSON object of the format begins there"
	case r.record.Unread == transform.InvalidBase64:
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
	return s, nil
}

// shownKey is the former key, unless a mask keeps a column of it from being shown.
func shownKey(e *transform.Explanation) string {
	for _, c := range e.Columns {
		if c.Column.Mask != "" && e.Table.IsKey(c.Column.Name) {
			return ""
		}
	}
	return e.OldKey
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
		return "dropped: the pipeline file excludes the table, or --only leaves it to another stream"
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
