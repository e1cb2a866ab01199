package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	mutants "icehose/internal/mutants"
)

// Each bug put into the sink applies to its present source and says which tool
// had it.
func TestSinkListApplies(t *testing.T) {
	list, err := mutants.LoadFrom(root, "internal/sinkmutants")
	if err != nil {
		t.Fatal(err)
	}
	var models []string
	for _, m := range list {
		if m.Models == "" {
			t.Errorf("mutant %q does not say what it models", m.Name)
		}
		models = append(models, m.Models)
	}
	all := strings.Join(models, "\n")
	for _, bug := range []string{
		"OLake #1189", "Iceberg #11008", "Iceberg #16282", "debezium-server-iceberg #699", "debezium-server-iceberg #661", "Iceberg #17551",
	} {
		if !strings.Contains(all, bug) {
			t.Errorf("no mutant models %s", bug)
		}
	}
}

// The table in the docs has a row for every bug of the list, and no other: make
// sink-mutants writes it when all were caught.
func TestSinkTableIsOfTheList(t *testing.T) {
	list, err := mutants.LoadFrom(root, "internal/sinkmutants")
	if err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile(filepath.Join(root, "docs", "sink-mutants.md"))
	if err != nil {
		t.Fatal(err)
	}
	want := make(map[string]bool)
	for _, m := range list {
		want[strings.ReplaceAll(m.Name, "|", `\|`)] = true
	}
	got := make(map[string]bool)
	for line := range strings.SplitSeq(string(table), "\n") {
		if cells := strings.Split(line, " | "); len(cells) >= 3 && strings.HasPrefix(line, "| ") && cells[0] != "| with the fault" {
			got[strings.TrimPrefix(cells[0], "| ")] = true
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("faults differ (-listed +in docs/sink-mutants.md):\n%s", diff)
	}
}
