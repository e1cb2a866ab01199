package stack_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/catalog/artifact"
	"icehose/catalog/stack"
	"icehose/cloudformation"
)

var update = flag.Bool("update", false, "write the golden files")

const goldenDir = "../../testdata/golden/stack"

func generate(t *testing.T, p *catalog.Pipeline, o stack.Options) *stack.Result {
	t.Helper()
	o.Templates = cloudformation.Templates
	r, err := stack.Generate(p, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func parse(t *testing.T, text string) *catalog.Pipeline {
	t.Helper()
	p, err := catalog.Parse("pipeline.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func byPath(files []artifact.File) map[string][]byte {
	out := make(map[string][]byte, len(files))
	for _, f := range files {
		out[f.Path] = f.Data
	}
	return out
}

// tables writes a pipeline file with the tables of these numbers. Every third
// is a changelog; wide ones have one more column.
func tables(numbers []int, wide ...int) string {
	var b strings.Builder
	b.WriteString("version: 1\ndatabase: big\nsource: {engine: postgresql, position: postgres, nulls: included}\nreaders: [icehose, spark]\ntables:\n")
	for _, n := range numbers {
		mode := catalog.Mirror
		if n%3 == 0 {
			mode = catalog.Changelog
		}
		fmt.Fprintf(&b, "  - source: public.t%03d\n    mode: %s\n    key: [id]\n    columns:\n      - {name: id, type: long, source_type: bigint}\n      - {name: note, type: string, source_type: varchar(20)}\n", n, mode)
		if slices.Contains(wide, n) {
			b.WriteString("      - {name: added, type: string, source_type: varchar(20)}\n")
		}
	}
	return b.String()
}

func upTo(n int) []int {
	numbers := make([]int, n)
	for i := range numbers {
		numbers[i] = i + 1
	}
	return numbers
}

// compareGolden compares files with those of a folder.
func compareGolden(t *testing.T, name string, files []artifact.File) {
	t.Helper()
	dir := filepath.Join(goldenDir, name)
	if *update {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if err := os.WriteFile(filepath.Join(dir, f.Path), f.Data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	got := byPath(files)
	if len(entries) != len(got) {
		t.Errorf("%d golden files, %d made", len(entries), len(got))
	}
	for _, e := range entries {
		want, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got[e.Name()])); diff != "" {
			t.Errorf("%s differs (-want +got; go test -update writes it):\n%s", e.Name(), diff)
		}
	}
}

// index tells what large sets of templates hold: a line a file.
func index(t *testing.T, files []artifact.File) artifact.File {
	t.Helper()
	changes, err := stack.Compare(cloudformation.Templates, nil, byPath(files))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	for _, f := range files {
		n := 0
		for _, c := range changes {
			if c.File == f.Path {
				n++
			}
		}
		sum := sha256.Sum256(f.Data)
		fmt.Fprintf(&b, "%-32s %3d resources %7d bytes %s\n", f.Path, n, len(f.Data), hex.EncodeToString(sum[:8]))
	}
	return artifact.File{Path: "index.txt", Data: b.Bytes()}
}

// versionTwo tells what an update does, a line a resource. None may lose data.
func versionTwo(t *testing.T, one, two *stack.Result) artifact.File {
	t.Helper()
	changes, err := stack.Compare(cloudformation.Templates, byPath(one.Files), byPath(two.Files))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	for _, c := range changes {
		if c.Unsafe != "" || c.Kind == stack.Replaced || c.Kind == stack.Removed {
			t.Errorf("%s %s is %s: %s", c.File, c.Resource, c.Kind, c.Unsafe)
		}
		fmt.Fprintf(&b, "%-8s %-32s %s %s\n", c.Kind, c.File, c.Type, c.Resource)
	}
	return artifact.File{Path: "version2.txt", Data: b.Bytes()}
}

func TestGolden(t *testing.T) {
	text, err := os.ReadFile("../../testdata/events/tpcc/pipeline.yaml")
	if err != nil {
		t.Fatal(err)
	}
	options := stack.Options{Tables: stack.Stack, HistorySuffix: "_changelog"}
	tpcc := generate(t, parse(t, string(text)), options)
	options.Before = byPath(tpcc.Files)
	wide := strings.Replace(string(text), "      - {name: w_ytd,", "      - {name: w_note, type: string, source_type: character varying(20)}\n      - {name: w_ytd,", 1)
	more := generate(t, parse(t, wide+"  - source: public.region\n    mode: mirror\n    key: [r_id]\n    columns:\n      - {name: r_id, type: int, source_type: integer}\n"), options)
	compareGolden(t, "tpcc", append(tpcc.Files, versionTwo(t, tpcc, more)))

	// Version 1: a hundred tables. Version 2: a table in the middle of the file,
	// and a column in another.
	one := generate(t, parse(t, tables(upTo(100))), stack.Options{Tables: stack.Stack})
	numbers := slices.Insert(upTo(100), 50, 500)
	two := generate(t, parse(t, tables(numbers, 7)), stack.Options{Tables: stack.Stack, Before: byPath(one.Files)})
	hundred := []artifact.File{index(t, one.Files), {Path: "main.yaml", Data: byPath(one.Files)["main.yaml"]}, versionTwo(t, one, two)}
	compareGolden(t, "hundred", hundred)
	if again := generate(t, parse(t, tables(numbers, 7)), stack.Options{Tables: stack.Stack, Before: byPath(two.Files)}); !cmp.Equal(again, two) {
		t.Error("a run over its own output gives other bytes")
	}
}

// What was decided stays: a table's resources never leave their nested stack,
// whatever comes to the pipeline file, and nothing that holds data is touched.
func TestTablesStayWhereTheyAre(t *testing.T) {
	for seed := range uint64(2) {
		random := rand.New(rand.NewPCG(seed, 0))
		numbers := upTo([]int{5, 119}[seed]) // 119 fill a part nearly
		before, was := map[string][]byte{}, map[string]string{}
		for round := range 3 {
			after := byPath(generate(t, parse(t, tables(numbers)), stack.Options{Tables: stack.Stack, Before: before}).Files)
			changes, err := stack.Compare(cloudformation.Templates, before, after)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range changes {
				if c.Unsafe != "" {
					t.Errorf("seed %d: %s %s is %s: %s", seed, c.File, c.Resource, c.Kind, c.Unsafe)
				}
			}
			is := places(after)
			for table, file := range was {
				if now, ok := is[table]; ok && now != file {
					t.Errorf("seed %d: %s moved from %s to %s", seed, table, file, now)
				}
			}
			before, was = after, is
			for n := range 3 {
				numbers = slices.Insert(slices.Clone(numbers), random.IntN(len(numbers)), 1001+10*round+n)
			}
			// The first two stay, so that both kinds of stream do.
			numbers = slices.DeleteFunc(numbers, func(n int) bool { return n > 5 && random.IntN(20) == 0 })
		}
	}
}

// places returns the file of each table's resources, by kind of file and table.
func places(files map[string][]byte) map[string]string {
	out := make(map[string]string)
	for path, data := range files {
		kind := strings.TrimRight(strings.TrimSuffix(path, ".yaml"), "-0123456789")
		for line := range strings.Lines(string(data)) {
			table, ok := strings.CutPrefix(line, "  # table ")
			if !ok {
				continue
			}
			key := kind + " " + strings.TrimSpace(table)
			if other, twice := out[key]; twice {
				path = other + " and " + path
			}
			out[key] = path
		}
	}
	return out
}

// More tables than one template holds go to several, and each is nested once.
func TestSplit(t *testing.T) {
	r := generate(t, parse(t, tables(upTo(450))), stack.Options{Tables: stack.Stack})
	files := byPath(r.Files)
	for _, want := range []string{"lake-tables-2.yaml", "table-maintenance-4.yaml", "table-alarms-mirror-2.yaml"} {
		if files[want] == nil {
			t.Errorf("no %s", want)
		}
	}
	for path := range files {
		if path == "main.yaml" || path == "stack-policy.json" {
			continue
		}
		if n := strings.Count(string(files["main.yaml"]), "TemplateURL: "+path+"\n"); n == 0 || n > 1 && path != "delivery-alarms.yaml" {
			t.Errorf("main.yaml nests %s %d times", path, n)
		}
	}
	_, err := stack.Generate(parse(t, tables(upTo(1500))), stack.Options{Templates: cloudformation.Templates})
	if err == nil || !strings.Contains(err.Error(), "migration.yaml would have") {
		t.Errorf("1,500 tables: got error %v, want one about migration.yaml's size", err)
	}
}

func TestRefused(t *testing.T) {
	p := parse(t, tables(upTo(3)))
	for name, test := range map[string]struct {
		options stack.Options
		want    string
	}{
		"an owner that is none":       {stack.Options{Tables: "both"}, `want apply or stack, got "both"`},
		"a suffix without underscore": {stack.Options{HistorySuffix: "log"}, "history suffix: want _"},
		"a fragment of somebody else": {stack.Options{Tables: stack.Stack, Before: map[string][]byte{"lake-tables.yaml": []byte("Resources:\n  X: {}\n")}}, "lake-tables.yaml"},
	} {
		test.options.Templates = cloudformation.Templates
		if _, err := stack.Generate(p, test.options); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q in it", name, err, test.want)
		}
	}
	clash := strings.Replace(tables(upTo(2)), "public.t002", "public.t001_log", 1)
	_, err := stack.Generate(parse(t, clash), stack.Options{Templates: cloudformation.Templates, HistorySuffix: "_log"})
	if err == nil || !strings.Contains(err.Error(), "which is a table of the pipeline file") {
		t.Errorf("a history that is a table: error %v", err)
	}
}

// Templates and code must know the same regions.
func TestTemplatesAndRegions(t *testing.T) {
	p := parse(t, tables(upTo(3)))
	for name, edit := range map[string][2]string{
		"nothing to fill it with": {"# icehose:begin glue-resources", "# icehose:begin other"},
		"does not end":            {"# icehose:end\n        ProcessingConfiguration", "ProcessingConfiguration"},
		"begins in region":        {"# icehose:end\n          # Does nothing", "# icehose:begin destination-tables\n          # Does nothing"},
	} {
		templates := fstest.MapFS{}
		entries, err := cloudformation.Templates.ReadDir(".")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			data, err := cloudformation.Templates.ReadFile(e.Name())
			if err != nil {
				t.Fatal(err)
			}
			if e.Name() == "delivery.yaml" {
				edited := bytes.Replace(data, []byte(edit[0]), []byte(edit[1]), 1)
				if bytes.Equal(edited, data) {
					edited = []byte(strings.Replace(string(data), "        # icehose:end\n", "", 1))
				}
				data = edited
			}
			templates[e.Name()] = &fstest.MapFile{Data: data}
		}
		if _, err := stack.Generate(p, stack.Options{Templates: templates}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestCompare(t *testing.T) {
	base := string(byPath(generate(t, parse(t, tables(upTo(3))), stack.Options{Tables: stack.Stack}).Files)["delivery-mirror.yaml"])
	stream, err := cloudformation.Templates.ReadFile("stream.yaml")
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		before, after string
		want          stack.Change
	}{
		"a stream gets another name": {
			string(stream), strings.Replace(string(stream), "${Name}-changes", "${Name}-stream", 1),
			stack.Change{Resource: "Stream", Type: "AWS::Kinesis::Stream", Kind: stack.Replaced, Property: "Name", Unsafe: "a new one takes its place, without what it holds"},
		},
		"a stream keeps records longer": {
			string(stream), strings.Replace(string(stream), "RetentionPeriodHours: !Ref RetentionHours", "RetentionPeriodHours: 200", 1),
			stack.Change{Resource: "Stream", Type: "AWS::Kinesis::Stream", Kind: stack.Modified},
		},
		"another catalog": {
			base, strings.Replace(base, `CatalogArn: !Sub "arn:${AWS::Partition}:glue:${AWS::Region}`, `CatalogArn: !Sub "arn:${AWS::Partition}:glue:eu-west-1`, 1),
			stack.Change{
				Resource: "Delivery", Type: "AWS::KinesisFirehose::DeliveryStream", Kind: stack.Replaced,
				Property: "IcebergDestinationConfiguration/CatalogConfiguration", Unsafe: "a new one takes its place, without what it holds",
			},
		},
		"a table more": {
			base, strings.Replace(base, "DestinationTableConfigurationList:\n", "DestinationTableConfigurationList:\n          - {DestinationDatabaseName: a, DestinationTableName: b}\n", 1),
			stack.Change{Resource: "Delivery", Type: "AWS::KinesisFirehose::DeliveryStream", Kind: stack.Modified},
		},
		"a stream is not retained any more": {
			string(stream), strings.Replace(string(stream), "  Stream:\n    Type: AWS::Kinesis::Stream\n    DeletionPolicy: RetainExceptOnCreate\n", "  Stream:\n    Type: AWS::Kinesis::Stream\n", 1),
			stack.Change{Resource: "Stream", Type: "AWS::Kinesis::Stream", Kind: stack.Modified, Unsafe: "it would be deleted with its stack"},
		},
		"a comment": {base, strings.Replace(base, "# Rows are longer", "# Rows are much longer", 1), stack.Change{}},
	}
	for name, test := range tests {
		if test.before == test.after {
			t.Fatalf("%s: the template has no such text", name)
		}
		got, err := stack.Compare(cloudformation.Templates, map[string][]byte{"x.yaml": []byte(test.before)}, map[string][]byte{"x.yaml": []byte(test.after)})
		if err != nil {
			t.Fatal(err)
		}
		var want []stack.Change
		if test.want.Kind != "" {
			test.want.File = "x.yaml"
			want = append(want, test.want)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: changes differ (-want +got):\n%s", name, diff)
		}
	}
	// A pipeline that has no changelogs any more would lose its delivery stream.
	one := generate(t, parse(t, tables([]int{1, 3})), stack.Options{})
	two := generate(t, parse(t, tables([]int{1})), stack.Options{Before: byPath(one.Files)})
	changes, err := stack.Compare(cloudformation.Templates, byPath(one.Files), byPath(two.Files))
	if err != nil {
		t.Fatal(err)
	}
	lost := slices.ContainsFunc(changes, func(c stack.Change) bool {
		return c.File == "delivery-changelog.yaml" && c.Resource == "Delivery" && c.Kind == stack.Removed && c.Unsafe != ""
	})
	kept := slices.ContainsFunc(changes, func(c stack.Change) bool { return c.Resource == "ErrorBucket" && c.Unsafe != "" })
	if !lost || kept {
		t.Errorf("removal of a delivery stream: told %t, want true; retained bucket called unsafe: %t, want false", lost, kept)
	}
}
