package main_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	mutants "icehose/internal/mutants"
)

// module makes a module of one function with a test, and a list of mutants.
func module(t *testing.T, list string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	for name, text := range map[string]string{
		"go.mod":                       "module small\n\ngo 1.24\n",
		"sum.go":                       "package small\n\nfunc Sum(to int) (sum int) {\n\tfor i := 1; i <= to; i++ {\n\t\tsum += i\n\t}\n\treturn sum\n}\n",
		"sum_test.go":                  "package small\n\nimport \"testing\"\n\nfunc TestSum(t *testing.T) {\n\tif Sum(3) != 6 {\n\t\tt.Error()\n\t}\n}\n",
		"internal/mutants/list/a.yaml": "package: .\nrun: TestSum\nmutants:\n" + list,
	} {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.CommandContext(t.Context(), "git", "-C", folder, "init", "-q").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return folder
}

func mutant(name, from, to string) string {
	return "  - {name: " + name + ", breaks: [sums], file: sum.go, old: '" + from + "', new: '" + to + "'}\n"
}

// The parts of a list are together the list.
func TestRunParts(t *testing.T) {
	folder := module(t, mutant("one", "sum += i", "sum -= i")+mutant("two", "sum += i", "sum += 2*i")+mutant("three", "i <= to", "i < to"))
	t.Chdir(folder)
	for part, want := range map[string][]string{"1/2": {"caught    one: ", "caught    three: ", "2 mutants, "}, "2/2": {"caught    two: ", "1 mutants, "}} {
		var out bytes.Buffer
		if status := mutants.Run([]string{"-part", part, "-jobs", "1"}, &out, &out); status != 0 {
			t.Errorf("part %s: status %d", part, status)
		}
		for _, text := range want {
			if !strings.Contains(out.String(), text) {
				t.Errorf("part %s: no %q in\n%s", part, text, out.String())
			}
		}
	}
	for _, bad := range []string{"0/2", "3/2", "1", "a/b", "1/0"} {
		var out bytes.Buffer
		if status := mutants.Run([]string{"-part", bad}, &out, &out); status != 2 || !strings.Contains(out.String(), "-part: want K/N") {
			t.Errorf("part %s: status %d\n%s", bad, status, out.String())
		}
	}
	var out bytes.Buffer
	if status := mutants.Run([]string{"-part", "1/2", "-write", "table.md"}, &out, &out); status != 2 {
		t.Errorf("a table of a part: status %d", status)
	}
}

func TestRun(t *testing.T) {
	caught := mutant("caught", "sum += i", "sum -= i")
	tests := []struct {
		name, list string
		status     int
		want       string // of what is written to either stream
	}{
		{"caught", caught, 0, "caught    caught: TestSum\n1 mutants, 0 survived, 0 at fault\n"},
		{
			"endless", mutant("endless", "i++", "i += 0"), 0,
			"caught    endless: tests that did not end\n1 mutants, 0 survived, 0 at fault\n",
		},
		{
			"survived", caught + mutant("same", "i <= to", "i != to+1"), 1,
			"caught    caught: TestSum\nSURVIVED  same: no test\n2 mutants, 1 survived, 0 at fault\nmutants: mutants survived: 1 of 2\n",
		},
		{"does not compile", mutant("broken", "sum += i", "sum += j"), 2, "FAULT     broken: does not compile:"},
		{"no such test", "  - {name: lost, breaks: [sums], file: sum.go, old: sum += i, new: sum -= i, run: TestOther}\n", 2, "FAULT     lost: no test of . matches TestOther\n"},
		{"not once", mutant("twice", "sum", "total"), 2, `mutant "twice": old text stands 3 times in sum.go, want once`},
		{"nothing new", mutant("none", "sum += i", "sum += i"), 2, `mutant "none": new text is the old one`},
		{"two of one name", caught + caught, 2, `mutant "caught": listed twice`},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			folder := module(t, c.list)
			before, err := os.ReadFile(filepath.Join(folder, "sum.go"))
			if err != nil {
				t.Fatal(err)
			}
			t.Chdir(folder)
			var out bytes.Buffer
			if status := mutants.Run([]string{"-jobs", "1", "-timeout", "10s", "-write", "table.md"}, &out, &out); status != c.status {
				t.Errorf("status %d, want %d", status, c.status)
			}
			if !strings.Contains(out.String(), c.want) {
				t.Errorf("output has no %q:\n%s", c.want, out.String())
			}
			if _, err := os.Stat("table.md"); (err == nil) != (c.status == 0) {
				t.Errorf("table: %v", err)
			}
			after, err := os.ReadFile("sum.go")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(before), string(after)); diff != "" {
				t.Errorf("the module itself changed:\n%s", diff)
			}
		})
	}
}
