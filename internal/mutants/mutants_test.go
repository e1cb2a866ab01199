package main_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	mutants "icehose/internal/mutants"
	"icehose/transform"
)

const root = "../.."

// cells are the rows of the outcome table; each has a mirror's and a
// changelog's cell.
func cells() []string {
	return []string{
		"load", "insert", "update", "delete", "control", "internal or excluded", "unknown table", "no key", "key changed", "several changes",
		"unchanged column",
	}
}

// Each mutant's old text stands exactly once in its file, so that the list
// follows the code; and the list breaks every reason and every cell.
func TestListCoversTheRules(t *testing.T) {
	list, err := mutants.Load(root)
	if err != nil {
		t.Fatal(err)
	}
	want := make(map[string]bool)
	for _, reason := range transform.Reasons() {
		want["reason "+string(reason)] = true
	}
	for _, cell := range cells() {
		want["cell "+cell+", mirror"] = true
		want["cell "+cell+", changelog"] = true
	}
	closed := regexp.MustCompile("^(reason|cell) ")
	got := make(map[string]bool)
	for _, m := range list {
		for _, rule := range m.Breaks {
			if closed.MatchString(rule) {
				got[rule] = true
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rules differ (-want +listed):\n%s", diff)
	}
}

func TestLoadWithoutList(t *testing.T) {
	if _, err := mutants.Load(t.TempDir()); err == nil {
		t.Error("no list: no error")
	}
}

func TestTable(t *testing.T) {
	list := []mutants.Mutant{{Name: "a|b", Breaks: []string{"r", "s"}, File: "x.go"}, {Name: "c", Breaks: []string{"r"}, File: "x.go"}}
	text := string(mutants.Table("some/list", "mutants", list, []mutants.Verdict{{Tests: []string{"TestA", "TestB", "TestC"}}, {Endless: true}}))
	for _, want := range []string{
		"2 mutants, all caught.\n", "\n## x.go\n\n| with the fault |", "| a\\|b | r; s | TestA and 2 more |\n", "| c | r | tests that did not end |\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("table has no %q:\n%s", want, text)
		}
	}
}
