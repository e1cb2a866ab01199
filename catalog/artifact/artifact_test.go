package artifact_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/catalog/artifact"
)

var update = flag.Bool("update", false, "write the golden files anew")

const goldens = "../../testdata/golden/catalog"

func load(t *testing.T, path string) *catalog.Pipeline {
	t.Helper()
	p, err := catalog.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func generate(t *testing.T, path string, stack []byte) map[string]string {
	t.Helper()
	made, err := artifact.Generate(load(t, path), artifact.Options{Warehouse: "s3://lake/wh/", Stack: stack})
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]string)
	for _, f := range made.Files {
		files[f.Path] = string(f.Data)
	}
	files["notes.txt"] = strings.Join(made.Notes, "\n") + "\n"
	return files
}

// golden compares files with those of a folder, none more and none less.
func golden(t *testing.T, name string, got map[string]string) {
	t.Helper()
	dir := filepath.Join(goldens, name)
	if *update {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		for path, text := range got {
			path = filepath.Join(dir, path)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(dir, path)
		want[filepath.ToSlash(relative)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func TestGolden(t *testing.T) {
	golden(t, "tpcc", generate(t, "../../testdata/events/tpcc/pipeline.yaml", nil))
	first := generate(t, "testdata/shop1.yaml", nil)
	golden(t, "shop1", first)
	golden(t, "shop2", generate(t, "testdata/shop2.yaml", []byte(first[artifact.StackFile])))
}

// A later version of the pipeline must not make CloudFormation touch a table.
func TestStackNeverUpdates(t *testing.T) {
	first := generate(t, "testdata/shop1.yaml", nil)[artifact.StackFile]
	second := generate(t, "testdata/shop2.yaml", []byte(first))[artifact.StackFile]
	added, ok := strings.CutPrefix(second, first)
	if !ok {
		t.Fatalf("the tables of version 1 are not what version 2 begins with:\n%s", cmp.Diff(first, second))
	}
	if got := strings.Count(added, "Type: AWS::Glue::Table"); got != 1 {
		t.Errorf("version 2 adds %d tables, want 1", got)
	}
	if again := generate(t, "testdata/shop2.yaml", []byte(second))[artifact.StackFile]; again != second {
		t.Errorf("a second run changes the stack:\n%s", cmp.Diff(second, again))
	}
	if fresh := generate(t, "testdata/shop2.yaml", nil)[artifact.StackFile]; fresh == second {
		t.Error("version 2 alone gives the same stack: the test shows nothing")
	}
}

// A stack that CloudFormation would not take is written, and said to be such.
func TestStackLimits(t *testing.T) {
	var wide, many strings.Builder
	wide.WriteString(head + "  - source: s.t\n    mode: changelog\n    columns:\n")
	for i := range 20_000 {
		fmt.Fprintf(&wide, "      - {name: c%d, type: int}\n", i)
	}
	many.WriteString(head)
	for i := range 501 {
		fmt.Fprintf(&many, "  - {source: s.t%d, mode: changelog, columns: [{name: a, type: int}]}\n", i)
	}
	for name, text := range map[string]string{"wide": wide.String(), "many": many.String()} {
		p, err := catalog.Parse(name, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		made, err := artifact.Generate(p, artifact.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if len(made.Notes) != 1 || !strings.Contains(made.Notes[0], "and CloudFormation takes 500 in 1024") {
			t.Errorf("%s: notes %q", name, made.Notes)
		}
	}
}

func TestForeignStack(t *testing.T) {
	p := load(t, "testdata/shop1.yaml")
	for _, stack := range []string{"Resources: {}\n", "A: 1\nResources:\nTable:\n  x: 1\n", "A: 1\nResources:\n    x: 1\n", "\nResources:\n  A:\n    x: 1\nOutputs:\n"} {
		if _, err := artifact.Generate(p, artifact.Options{Stack: []byte(stack)}); err == nil {
			t.Errorf("took %q for its own", stack)
		}
	}
}

func TestRules(t *testing.T) {
	var mapping struct {
		Rules []struct {
			Type       string            `json:"rule-type"`
			ID         string            `json:"rule-id"`
			Name       string            `json:"rule-name"`
			Locator    map[string]string `json:"object-locator"`
			Action     string            `json:"rule-action"`
			Parameters map[string]string `json:"mapping-parameters"`
		} `json:"rules"`
	}
	if err := json.Unmarshal([]byte(generate(t, "testdata/shop2.yaml", nil)["dms/table-mappings.json"]), &mapping); err != nil {
		t.Fatal(err)
	}
	ids, keys := make(map[string]bool), make(map[string]string)
	for _, r := range mapping.Rules {
		if ids[r.ID] || ids[r.Name] {
			t.Errorf("rule %s %q is there twice", r.ID, r.Name)
		}
		ids[r.ID], ids[r.Name] = true, true
		if r.Type == "object-mapping" {
			keys[r.Locator["schema-name"]+"."+r.Locator["table-name"]] = r.Parameters["partition-key-type"]
		}
	}
	want := map[string]string{"public.order": "primary-key", "public.event": "primary-key", "public.visit": "schema-table", "public.customer": "primary-key"}
	if diff := cmp.Diff(want, keys); diff != "" {
		t.Errorf("partition keys (-want +got):\n%s", diff)
	}
}

const head = "version: 1\ndatabase: d\nsource: {engine: postgresql, position: postgres}\nreaders: [spark]\ntables:\n"

func TestRefuses(t *testing.T) {
	tables := func(columns string) string {
		return head + "  - source: s.t\n    mode: changelog\n    key: [id]\n    columns:\n      - {name: id, type: long, source_type: bigint}\n" + columns
	}
	for name, test := range map[string]struct{ in, want string }{
		"numeric without precision": {
			tables("      - {name: n, type: \"decimal(38,6)\", source_type: numeric}\n"),
			`generate s.t: column n loses values of numeric as decimal(38,6): allow_lossy: ["null", "round"] allows it, or choose another type`,
		},
		"narrower decimal": {
			tables("      - {name: n, type: \"decimal(10,1)\", source_type: \"numeric(10,2)\"}\n"),
			`generate s.t: column n loses values of numeric(10,2) as decimal(10,1): allow_lossy: ["round"] allows it, or choose another type`,
		},
		"narrower integer": {
			tables("      - {name: n, type: int, source_type: bigint}\n"),
			`generate s.t: column n loses values of bigint as int: allow_lossy: ["null"] allows it, or choose another type`,
		},
		"integer of a decimal": {
			tables("      - {name: n, type: long, source_type: \"numeric(4,2)\"}\n"),
			`generate s.t: column n loses values of numeric(4,2) as long: allow_lossy: ["null"] allows it, or choose another type`,
		},
		"declared loss": {
			tables("      - {name: n, type: string, source_type: vector, loses: [replace]}\n"),
			`generate s.t: column n loses values of vector as string: allow_lossy: ["replace"] allows it, or choose another type`,
		},
		"name of a view": {
			tables("      - {name: n, type: int}\n") + "  - {source: s.t_current, mode: changelog, columns: [{name: a, type: int}]}\n",
			"generate d.t: table d.t_current has the name that a view or the folded table of it would have: give it another target",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := catalog.Parse("p.yaml", []byte(test.in))
			if err != nil {
				t.Fatal(err)
			}
			_, err = artifact.Generate(p, artifact.Options{})
			if err == nil || err.Error() != test.want {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
}

func TestAllowedLosses(t *testing.T) {
	p, err := catalog.Parse("p.yaml", []byte(head+`  - source: s.t
    mode: changelog
    columns:
      - {name: a, type: "decimal(38,6)", source_type: numeric, allow_lossy: [round, "null"]}
      - {name: b, type: "decimal(12,2)", source_type: "numeric(10,2)"}
      - {name: c, type: long, source_type: integer}
      - {name: d, type: string, source_type: numeric}
      - {name: e, type: int, source_type: bigint, exclude: true}
      - {name: f, type: string, source_type: mood}
`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := artifact.Generate(p, artifact.Options{}); err != nil {
		t.Error(err)
	}
	p.Tables[0].Columns[0].AllowLossy = []catalog.Loss{catalog.LossRound}
	_, err = artifact.Generate(p, artifact.Options{})
	loss, ok := errors.AsType[*artifact.LossError](err)
	if !ok || !cmp.Equal(loss.Losses, []catalog.Loss{catalog.LossNull}) {
		t.Errorf("with round alone: %v", err)
	}
}
