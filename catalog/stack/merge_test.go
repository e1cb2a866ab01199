package stack_test

import (
	"strings"
	"testing"

	"icehose/catalog/stack"
)

// The merge's stack is there where something is merged, and may write to those
// databases alone; no schedule holds SQL that somebody has to fill in.
func TestMerged(t *testing.T) {
	t.Parallel()
	two := strings.Replace(tables([]int{1, 3}), "  - source: public.t003\n", "  - source: public.t003\n    target: other.t003\n", 1)
	for name, test := range map[string]struct {
		pipeline  string
		options   stack.Options
		merges    bool
		databases string
	}{
		"mirrors":                   {tables([]int{1, 2}), stack.Options{}, false, ""},
		"mirrors and their history": {tables([]int{1, 2}), stack.Options{HistorySuffix: "_log"}, false, ""},
		"a changelog":               {tables([]int{1, 3}), stack.Options{}, true, "big"},
		"in a database of its own":  {two, stack.Options{}, true, "other"},
	} {
		files := byPath(generate(t, parse(t, test.pipeline), test.options).Files)
		merge, main := string(files["merge.yaml"]), string(files["main.yaml"])
		if merges := merge != ""; merges != test.merges || merges != strings.Contains(main, "TemplateURL: merge.yaml\n") || merges != strings.Contains(main, "\n  MergeKey:\n") {
			t.Errorf("%s: the merge's stack is there %t and nested %t, want %t", name, merges, strings.Contains(main, "merge.yaml"), test.merges)
		}
		if test.merges && (!strings.Contains(merge, ":table/"+test.databases+"/*") || strings.Count(merge, ":table/") != 1) {
			t.Errorf("%s: the merge's role is not for database %s alone:\n%s", name, test.databases, merge)
		}
		for path, data := range files {
			for _, left := range []string{"MERGE INTO", "QueryString", "MergeRoleArn: !Ref", "icehose:begin"} {
				if strings.Contains(string(data), left) {
					t.Errorf("%s: %s has %q", name, path, left)
				}
			}
		}
	}
}
