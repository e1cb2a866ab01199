package artifact_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"icehose/catalog"
	"icehose/catalog/artifact"
)

// drawPipeline draws the text of a pipeline file that is fine.
func drawPipeline(t *rapid.T) string {
	types := []string{
		"boolean", "int", "long", "float", "double", "decimal(9,2)", "decimal(38,0)", "date", "time", "timestamp", "timestamptz", "string", "uuid", "fixed[4]", "binary",
	}
	keys := []string{"int", "long", "decimal(9,2)", "date", "timestamptz", "string", "uuid", "binary"}
	var b strings.Builder
	b.WriteString(head)
	for i := range rapid.IntRange(1, 4).Draw(t, "tables") {
		mode := rapid.SampledFrom([]string{"mirror", "changelog"}).Draw(t, "mode")
		fmt.Fprintf(&b, "  - source: s.t_%d\n    mode: %s\n", i, mode)
		key := rapid.IntRange(0, 2).Draw(t, "key")
		if key > 0 {
			fmt.Fprintf(&b, "    key: [%s]\n", strings.Join([]string{"k0", "order"}[:key], ", "))
		}
		switch {
		case mode == "changelog":
			fmt.Fprintf(&b, "    partition: [%s]\n", rapid.SampledFrom([]string{"", "day(cdc_committed_at)", `"truncate(2, cdc_operation)", hour(cdc_committed_at)`}).Draw(t, "partition"))
		case key > 0:
			fmt.Fprintf(&b, "    partition: [%s]\n", rapid.SampledFrom([]string{"", "k0", `"bucket(16, k0)"`}).Draw(t, "partition"))
		}
		b.WriteString("    columns:\n")
		for n := range key {
			fmt.Fprintf(&b, "      - {name: %s, type: %q}\n", []string{"k0", "order"}[n], rapid.SampledFrom(keys).Draw(t, "key type"))
		}
		for n := range rapid.IntRange(1, 5).Draw(t, "columns") {
			fmt.Fprintf(&b, "      - {name: c_%d, type: %q, may_be_unchanged: %t}\n", n, rapid.SampledFrom(types).Draw(t, "type"), rapid.Bool().Draw(t, "toast"))
		}
	}
	return b.String()
}

// Equal pipelines give equal bytes, all JSON and YAML can be read back, and a
// stack that was written is kept as it is.
func TestLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := drawPipeline(t)
		make := func(stack []byte) *artifact.Result {
			p, err := catalog.Parse("p.yaml", []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			made, err := artifact.Generate(p, artifact.Options{Stack: stack})
			if err != nil {
				t.Fatal(err)
			}
			return made
		}
		first := make(nil)
		var stack []byte
		for i, f := range first.Files {
			if i > 0 && first.Files[i-1].Path >= f.Path {
				t.Errorf("%s after %s", f.Path, first.Files[i-1].Path)
			}
			if strings.HasSuffix(f.Path, ".json") && !json.Valid(f.Data) {
				t.Errorf("%s is not JSON", f.Path)
			}
			if f.Path == artifact.StackFile {
				stack = f.Data
				var read any
				if err := yaml.Unmarshal(f.Data, &read); err != nil {
					t.Errorf("%s is not YAML: %v", f.Path, err)
				}
			}
		}
		if diff := cmp.Diff(first, make(nil)); diff != "" {
			t.Errorf("a second run differs:\n%s", diff)
		}
		if diff := cmp.Diff(first, make(stack)); diff != "" {
			t.Errorf("a run over the first one's stack differs:\n%s", diff)
		}
	})
}

// Whatever lies where the stack should be: it is refused, or its tables are
// kept and a run over the result changes nothing.
func FuzzStack(f *testing.F) {
	p, err := catalog.Load("testdata/shop1.yaml")
	if err != nil {
		f.Fatal(err)
	}
	made, err := artifact.Generate(p, artifact.Options{})
	if err != nil {
		f.Fatal(err)
	}
	stackOf := func(r *artifact.Result) string {
		for _, file := range r.Files {
			if file.Path == artifact.StackFile {
				return string(file.Data)
			}
		}
		return ""
	}
	whole := stackOf(made)
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add(strings.ReplaceAll(whole, "\n", "\r\n"))
	f.Add("\nResources:\n  A:\n  A:\n    x: 1\n")
	f.Fuzz(func(t *testing.T, stack string) {
		first, err := artifact.Generate(p, artifact.Options{Stack: []byte(stack)})
		if err != nil {
			return
		}
		second, err := artifact.Generate(p, artifact.Options{Stack: []byte(stackOf(first))})
		if err != nil {
			t.Fatalf("a run over its own result: %v", err)
		}
		if stackOf(first) != stackOf(second) {
			t.Error("a run over its own result changes the stack")
		}
	})
}
