package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"icehose/transform"
)

// writeText writes the story for people.
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
	if s.KeyChanged {
		line("old key", "%s", cmp.Or(s.OldKey, "changed"))
	}
	if s.Absent != "" {
		line("absent", "%s (null in the row because the update did not carry them)", strings.ReplaceAll(s.Absent, ",", ", "))
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
	switch d := s.Drift; {
	case d == nil:
	case !d.Defined:
		line("drift", "%s; the record does not define the columns", d.Statement)
	default:
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
