package dmslint_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"icehose/catalog"
	"icehose/catalog/artifact"
	"icehose/catalog/dmslint"
)

var update = flag.Bool("update", false, "write the golden files anew")

const week = 7 * 24 * time.Hour

func pipeline(t *testing.T, path string) *catalog.Pipeline {
	t.Helper()
	p, err := catalog.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func lint(t *testing.T, o dmslint.Options, texts ...string) []dmslint.Finding {
	t.Helper()
	var files []dmslint.File
	for i, text := range texts {
		files = append(files, dmslint.File{Name: fmt.Sprintf("%d.json", i+1), Text: []byte(text)})
	}
	findings, err := dmslint.Lint(files, o)
	if err != nil {
		t.Fatal(err)
	}
	return findings
}

func ids(findings []dmslint.Finding) []string {
	var out []string
	for _, f := range findings {
		out = append(out, fmt.Sprintf("%d %s", f.Line, f.ID))
	}
	return out
}

// Documents as the AWS CLI prints them, with every mistake that there is an id for.
func TestGolden(t *testing.T) {
	for name, test := range map[string]struct {
		files []string
		o     dmslint.Options
	}{
		"lint-alone":    {[]string{"bad-task.json", "bad-endpoints.json", "bad-stream.json"}, dmslint.Options{Horizon: week}},
		"lint-pipeline": {[]string{"bad-task.json", "bad-endpoints.json", "bad-stream.json"}, dmslint.Options{Horizon: week, Pipeline: pipeline(t, "testdata/pipeline.yaml")}},
		"lint-mapping":  {[]string{"mapping.json"}, dmslint.Options{Pipeline: pipeline(t, "testdata/pipeline.yaml")}},
	} {
		t.Run(name, func(t *testing.T) {
			var files []dmslint.File
			for _, file := range test.files {
				text, err := os.ReadFile(filepath.Join("testdata", file))
				if err != nil {
					t.Fatal(err)
				}
				files = append(files, dmslint.File{Name: file, Text: text})
			}
			findings, err := dmslint.Lint(files, test.o)
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.MarshalIndent(findings, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, '\n')
			golden := filepath.Join("../../testdata/golden/catalog/lint", name+".json")
			if *update {
				if err := os.MkdirAll(filepath.Dir(golden), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// What generate writes has nothing to find.
func TestGeneratedSettingsAreFine(t *testing.T) {
	for _, path := range []string{"../../testdata/events/tpcc/pipeline.yaml", "../artifact/testdata/shop2.yaml", "testdata/pipeline.yaml"} {
		p := pipeline(t, path)
		made, err := artifact.Generate(p, artifact.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var files []dmslint.File
		for _, f := range made.Files {
			if strings.HasPrefix(f.Path, "dms/") {
				files = append(files, dmslint.File{Name: f.Path, Text: f.Data})
			}
		}
		if len(files) != 4 {
			t.Fatalf("%s: %d files for DMS, want 4", path, len(files))
		}
		findings, err := dmslint.Lint(files, dmslint.Options{Pipeline: p, Horizon: week})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range findings {
			t.Errorf("%s: %s: %s", path, f.Setting, f.Consequence)
		}
	}
}

// Every kind of position but a column and none is made of the transaction
// details.
func TestTransactionDetails(t *testing.T) {
	const endpoint = `{"EndpointType": "target", "EngineName": "kinesis", "KinesisSettings": {"IncludeTransactionDetails": false}}`
	for kind, want := range map[string]bool{
		"postgres": true, "mysql": true, "sqlserver": true, "oracle": true, "none": false, "column:seq": false,
	} {
		p, err := catalog.Parse("p.yaml", []byte("version: 1\ndatabase: d\nsource: {engine: oracle, position: \""+kind+"\"}\n"+
			"tables:\n  - {source: s.one, mode: changelog, columns: [{name: id, type: long}]}\n"))
		if err != nil {
			t.Fatal(err)
		}
		findings, err := dmslint.Lint([]dmslint.File{{Name: "endpoint.json", Text: []byte(endpoint)}}, dmslint.Options{Pipeline: p})
		if err != nil {
			t.Fatal(err)
		}
		got := slices.ContainsFunc(findings, func(f dmslint.Finding) bool { return f.ID == "no-transaction-details" })
		if got != want {
			t.Errorf("position %s without transaction details: found %v, want %v: %+v", kind, got, want, findings)
		}
	}
}

func mapping(rules ...string) string { return "{\"rules\": [\n" + strings.Join(rules, ",\n") + "\n]}" }

func selection(id, action, table string) string {
	return fmt.Sprintf(`{"rule-type": "selection", "rule-id": %q, "rule-action": %q, "object-locator": {"schema-name": "s", "table-name": %q}}`, id, action, table)
}

func object(id, table, parameters string) string {
	return fmt.Sprintf(`{"rule-type": "object-mapping", "rule-id": %q, "rule-action": "map-record-to-record", "object-locator": {"schema-name": "s", "table-name": %q}, "mapping-parameters": {%s}}`,
		id, table, parameters)
}

const byKey = `"partition-key-type": "primary-key"`

func TestMapping(t *testing.T) {
	p, err := catalog.Parse("p.yaml", []byte(`
version: 1
database: d
source: {engine: postgresql, position: postgres}
tables:
  - {source: s.one, mode: mirror, key: [id], columns: [{name: id, type: long}, {name: v, type: long}]}
  - {source: s.two, mode: mirror, key: [a, b], columns: [{name: a, type: long}, {name: b, type: long}]}
  - {source: s.log, mode: changelog, columns: [{name: v, type: long}]}
`))
	if err != nil {
		t.Fatal(err)
	}
	two, log := object("92", "two", byKey), object("93", "log", `"partition-key-type": "schema-table"`)
	rest := []string{selection("90", "explicit", "two"), selection("91", "explicit", "log"), two, log}
	for name, test := range map[string]struct {
		alone bool // without the pipeline
		rules []string
		want  []string
	}{
		"as it should be":  {false, append([]string{selection("1", "explicit", "one"), object("2", "one", byKey)}, rest...), nil},
		"no mapping":       {false, append([]string{selection("1", "explicit", "one")}, rest...), []string{"2 table-without-mapping"}},
		"no mapping alone": {true, []string{selection("1", "explicit", "one")}, []string{"2 table-without-mapping"}},
		"wildcard alone":   {true, []string{selection("1", "include", "%"), object("2", "one", byKey)}, []string{"2 selection-wildcard"}},
		"wildcard": {
			false,
			[]string{selection("1", "include", "%"), object("2", "one", byKey), log},
			[]string{"2 table-without-mapping"}, // s.two
		},
		"not selected": {false, append([]string{object("2", "one", byKey)}, rest...), []string{"1 table-not-selected"}},
		"excluded": {
			false, append([]string{selection("1", "include", "%"), selection("2", "exclude", "on%"), object("3", "one", byKey)}, rest...),
			[]string{"1 table-not-selected"},
		},
		"unknown": {
			false, append([]string{selection("1", "explicit", "one"), object("2", "one", byKey), selection("3", "explicit", "x"), object("4", "x", byKey)}, rest...),
			[]string{"4 table-unknown"},
		},
		"key column": {
			false, append([]string{selection("1", "explicit", "one"), object("2", "one", `"partition-key-type": "attribute-name", "partition-key-name": "ID"`)}, rest...), nil,
		},
		"other column": {
			false, append([]string{selection("1", "explicit", "one"), object("2", "one", `"partition-key-type": "attribute-name", "partition-key-name": "v"`)}, rest...),
			[]string{"3 attribute-partition-key"},
		},
		"part of the key": {
			false, []string{
				selection("1", "explicit", "two"), object("2", "two", `"partition-key-type": "attribute-name", "partition-key-name": "a"`),
				selection("3", "explicit", "one"), object("4", "one", byKey), selection("91", "explicit", "log"), log,
			}, []string{"3 part-of-key"},
		},
		"attribute of an unknown table": {
			true,
			[]string{selection("1", "explicit", "two"), object("2", "two", `"partition-key-type": "attribute-name", "partition-key-name": "a"`)},
			[]string{"3 attribute-partition-key"},
		},
		"no type": {
			true, []string{selection("1", "explicit", "two"), object("2", "two", "")}, []string{"3 no-partition-key-type"},
		},
		"schema-table of a keyed table": {
			false, append([]string{selection("1", "explicit", "one"), object("2", "one", `"partition-key-type": "schema-table"`)}, rest...),
			[]string{"3 one-shard-per-table"},
		},
		"primary-key without key": {
			false, []string{
				selection("1", "explicit", "one"), object("2", "one", byKey), selection("3", "explicit", "two"), two,
				selection("5", "explicit", "log"), object("6", "log", byKey),
			}, []string{"7 primary-key-without-key"},
		},
		"underscore": {
			true, []string{selection("1", "include", "a_b"), object("2", "a_b", byKey)}, []string{"2 underscore-wildcard"},
		},
		"no rules":       {true, nil, []string{"1 nothing-selected"}},
		"exclusion only": {true, []string{selection("1", "exclude", "one")}, []string{"1 nothing-selected"}},
		"unknown type": {
			true, []string{`{"rule-type": "selektion", "rule-id": "1"}`, selection("2", "explicit", "one"), object("3", "one", byKey)}, []string{"2 unknown-rule-type"},
		},
		"same id": {
			true, []string{selection("1", "explicit", "one"), object("1", "one", byKey)}, []string{"3 duplicate-rule"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := dmslint.Options{Pipeline: p}
			if test.alone {
				o.Pipeline = nil
			}
			if diff := cmp.Diff(test.want, ids(lint(t, o, mapping(test.rules...)))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Parallel apply changes the default partition key, in another document.
func TestAcrossDocuments(t *testing.T) {
	rules := mapping(selection("1", "explicit", "one"))
	task := `{"TargetMetadata": {"ParallelApplyThreads": 4, "LobMaxSize": 64},
"BeforeImageSettings": {"EnableBeforeImage": true},
"ErrorBehavior": {"DataErrorPolicy": "STOP_TASK", "DataTruncationErrorPolicy": "STOP_TASK", "TableErrorPolicy": "STOP_TASK"}}`
	got := lint(t, dmslint.Options{}, rules, task)
	if diff := cmp.Diff([]string{"2 table-without-mapping", "1 parallel-apply"}, ids(got)); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	if !strings.Contains(got[0].Consequence, "because of parallel apply") {
		t.Errorf("the mapping's finding does not know of parallel apply: %s", got[0].Consequence)
	}
}

// A serverless replication prints the same things under other names.
func TestServerless(t *testing.T) {
	rules, err := json.Marshal(mapping(selection("1", "explicit", "one")))
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("{\"ReplicationConfigs\": [\n{\"TableMappings\": %s,\n\"ReplicationSettings\": %q}]}", rules, `{"TargetMetadata": {"BatchApplyEnabled": true, "LobMaxSize": 8},
"BeforeImageSettings": {"EnableBeforeImage": true},
"ErrorBehavior": {"DataErrorPolicy": "STOP_TASK", "DataTruncationErrorPolicy": "STOP_TASK", "TableErrorPolicy": "STOP_TASK"}}`)
	if diff := cmp.Diff([]string{"2 table-without-mapping", "3 batch-apply"}, ids(lint(t, dmslint.Options{}, text))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestBadInput(t *testing.T) {
	for text, want := range map[string]string{
		"":                      "read settings x.json: line 1: not JSON: unexpected EOF",
		"{\n\"rules\": [1,}":    "read settings x.json: line 2: not JSON: invalid character '}' looking for beginning of value",
		"{}":                    "read settings x.json: not a table mapping, task or endpoint setting, or a describe of a task, endpoint or stream",
		"[]":                    "read settings x.json: not a table mapping, task or endpoint setting, or a describe of a task, endpoint or stream",
		"{\"rules\": []} {}":    "read settings x.json: line 1: more than one JSON document",
		`{"rules": 5}`:          "read settings x.json: line 1: rules is not a list",
		`{"rules": null}`:       "read settings x.json: line 1: rules is not a list",
		"{\"rules\": [{},\n5]}": "read settings x.json: line 2: rules[1] is not an object",
		`{"rules": [{"object-locator": "sales.orders"}]}`:              "read settings x.json: line 1: rules[0].object-locator is not an object",
		`{"TargetMetadata": 5}`:                                        "read settings x.json: line 1: TargetMetadata is not an object",
		`{"Endpoints": {}}`:                                            "read settings x.json: line 1: Endpoints is not a list",
		`{"KinesisSettings": []}`:                                      "read settings x.json: line 1: KinesisSettings is not an object",
		`{"ReplicationTasks": [{"TableMappings": "{\"rules\": {}}"}]}`: "read settings x.json: line 1: ReplicationTasks[0].TableMappings: rules is not a list",
		`{"ReplicationTasks": [{"ReplicationTaskSettings": "{\"ErrorBehavior\": []}", "TableMappings": "{\"rules\": []}"}]}`: "read settings x.json: line 1: ReplicationTasks[0].ReplicationTaskSettings: ErrorBehavior is not an object",
		strings.Repeat("[", 100):                         "read settings x.json: line 1: nested too deep",
		`{"ReplicationTasks": [{"TableMappings": "{"}]}`: "read settings x.json: line 1: ReplicationTasks[0].TableMappings: line 1: not JSON: unexpected EOF",
		`{"ReplicationTasks": [{"TableMappings": 7}]}`:   "read settings x.json: line 1: ReplicationTasks[0].TableMappings is not text",
	} {
		_, err := dmslint.Lint([]dmslint.File{{Name: "x.json", Text: []byte(text)}}, dmslint.Options{})
		if err == nil || err.Error() != want {
			t.Errorf("%.40q\ngot  %v\nwant %s", text, err, want)
		}
	}
}

func TestSize(t *testing.T) {
	for name, test := range map[string]struct {
		in   dmslint.Load
		want dmslint.Size
	}{
		"by records": {dmslint.Load{Rate: 2500, RowBytes: 400}, dmslint.Size{Shards: 3, Limit: "records", LoadShards: 3}},
		"by bytes":   {dmslint.Load{Rate: 100, RowBytes: 50_000}, dmslint.Size{Shards: 5, Limit: "bytes", LoadShards: 5}},
		"load": {
			dmslint.Load{RowBytes: 500, Rows: 3_600_000, Shards: 2},
			dmslint.Size{Shards: 1, Limit: "records", LoadShards: 2, LoadSeconds: 1800, OneShardSeconds: 3600},
		},
		"too few": {dmslint.Load{Rate: 5000, RowBytes: 100, Shards: 4}, dmslint.Size{Shards: 5, Limit: "records", LoadShards: 4, TooFew: true}},
	} {
		got, err := dmslint.SizeOf(test.in)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for _, in := range []dmslint.Load{{}, {RowBytes: 2 << 20}, {RowBytes: 1, Rate: -1}, {RowBytes: 1, Rows: -1}, {RowBytes: 1, Shards: -1}} {
		if _, err := dmslint.SizeOf(in); err == nil {
			t.Errorf("took %+v", in)
		}
	}
}

// The shards that SizeOf names take the load, and one less does not.
func TestSizeIsTight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := dmslint.Load{Rate: float64(rapid.IntRange(1, 1_000_000).Draw(t, "rate")), RowBytes: rapid.IntRange(1, 1<<20).Draw(t, "bytes")}
		size, err := dmslint.SizeOf(in)
		if err != nil {
			t.Fatal(err)
		}
		fits := func(shards int) bool {
			return int(in.Rate) <= 1000*shards && int(in.Rate)*in.RowBytes <= 1_000_000*shards
		}
		if !fits(size.Shards) || size.Shards > 1 && fits(size.Shards-1) {
			t.Errorf("%d shards for %+v", size.Shards, in)
		}
	})
}

func FuzzLint(f *testing.F) {
	for _, name := range []string{"bad-task.json", "bad-endpoints.json", "bad-stream.json", "mapping.json"} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{"rules": [{"rule-type": "selection", "object-locator": {"schema-name": "%%%%%%%%[", "table-name": "_[]"}}, null, 7]}`))
	f.Add([]byte(`{"ReplicationTasks": [{"TableMappings": {"rules": {}}, "ReplicationTaskSettings": null}]}`))
	f.Add([]byte(`{"ReplicationTasks": [{"TableMappings": {}}]}`))
	f.Add([]byte(`{"KinesisSettings": [], "Endpoints": 3, "TargetMetadata": [1], "StreamDescription": {"RetentionPeriodHours": 1e400}}`))
	p, err := catalog.Load("testdata/pipeline.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, o := range []dmslint.Options{{}, {Pipeline: p, Horizon: week}} {
			findings, err := dmslint.Lint([]dmslint.File{{Name: "x.json", Text: text}}, o)
			if err != nil {
				continue
			}
			for _, found := range findings {
				if found.ID == "" || found.Line < 1 || found.Consequence == "" || found.Fix == "" || found.Line > 1+strings.Count(string(text), "\n") {
					t.Errorf("not a whole finding: %+v", found)
				}
			}
		}
	})
}
