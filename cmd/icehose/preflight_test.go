package main

import (
	"testing"

	"icehose/catalog"
)

// Patterns that select no table are a finding, unless another says why.
func TestPreflightOfNoTable(t *testing.T) {
	t.Parallel()
	cmd := &preflightCmd{Tables: []string{"public.scratch"}}
	for _, test := range []struct{ object, want string }{
		{"public.scratch", "unlogged_table"},
		{"public.other", "no_table"},
	} {
		s := &catalog.SourceSchema{Tables: []*catalog.SourceTable{{Schema: "public", Name: "orders"}}}
		if err := cmd.choose(s); err != nil || len(s.Tables) != 0 {
			t.Fatalf("%d tables, %v", len(s.Tables), err)
		}
		found := cmd.result(s, []catalog.Finding{{ID: "unlogged_table", Severity: catalog.SeverityWarning, Object: test.object}}).Findings
		if found[0].ID != test.want {
			t.Errorf("with a finding of %s: got %+v", test.object, found)
		}
	}
}
