// Package catalogtest is the conformance suite of the readers of source
// schemas: a schema of each engine that has every trap in it, and the
// catalog.SourceSchema that it means, written by hand.
//
// A reader of any kind is given the same schema, by a server, a dump or
// control records, and must return the same tables, as far as its format can
// tell and says so.
package catalogtest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
)

// Check compares what a reader returned with what the schema means. What the
// reader's format cannot tell is left out of the comparison, but must be empty
// in its result.
func Check(t *testing.T, want, got *catalog.SourceSchema) {
	t.Helper()
	if got.Engine != want.Engine {
		t.Errorf("engine is %q, want %q", got.Engine, want.Engine)
	}
	if words := map[bool]catalog.Engine{true: want.Words, false: catalog.DMS}[got.Knows(catalog.AspectTypes)]; got.Words != words {
		t.Errorf("types are in the words of %q, want %q", got.Words, words)
	}
	projected := make([]*catalog.SourceTable, len(want.Tables))
	for i, table := range want.Tables {
		projected[i] = project(table, got)
	}
	found := make([]*catalog.SourceTable, len(got.Tables))
	for i, table := range got.Tables {
		found[i] = withoutPlace(table, got)
	}
	if diff := cmp.Diff(projected, found); diff != "" {
		t.Errorf("tables (-want +got):\n%s", diff)
	}
}

// withoutPlace drops what depends on where the schema stands, and types that
// are not the engine's own.
func withoutPlace(t *catalog.SourceTable, s *catalog.SourceSchema) *catalog.SourceTable {
	out := *t
	out.Line = 0
	out.Columns = make([]*catalog.SourceColumn, len(t.Columns))
	for i, c := range t.Columns {
		column := *c
		column.Earlier = nil // one reader alone can tell
		if !s.Knows(catalog.AspectTypes) {
			column.Declared, column.Type = "", catalog.SourceType{}
		}
		if !s.Knows(catalog.AspectOutOfLine) {
			column.OutOfLine = false // DMS's own notion of a LOB
		}
		if !s.Knows(catalog.AspectZeroDates) {
			column.ZeroDates = false // as far as the default shows
		}
		out.Columns[i] = &column
	}
	if len(out.Key) == 0 {
		out.Key = nil
	}
	return &out
}

// project leaves what the reader's format can tell.
func project(t *catalog.SourceTable, s *catalog.SourceSchema) *catalog.SourceTable {
	out := withoutPlace(t, s)
	if !s.Knows(catalog.AspectComments) {
		out.Comment = ""
	}
	if !s.Knows(catalog.AspectIdentity) {
		out.ReplicaIdentity = ""
	}
	if !s.Knows(catalog.AspectPartition) {
		out.PartitionOf = ""
	}
	columns := out.Columns[:0]
	for _, c := range out.Columns {
		if !s.Knows(catalog.AspectDefaults) {
			c.Default = nil
		}
		if !s.Knows(catalog.AspectComments) {
			c.Comment = ""
		}
		if !s.Knows(catalog.AspectGenerated) {
			if c.Generated.Computed() {
				continue // DMS does not replicate it
			}
			c.Generated = ""
		}
		columns = append(columns, c)
	}
	out.Columns = columns
	return out
}
