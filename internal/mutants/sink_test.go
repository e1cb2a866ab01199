package main_test

import (
	"strings"
	"testing"

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
