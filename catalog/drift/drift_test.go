package drift_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/catalog/drift"
)

var update = flag.Bool("update", false, "write the golden files anew")

func read(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func pipeline(t testing.TB) *catalog.Pipeline {
	t.Helper()
	p, err := catalog.Load("testdata/pipeline.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func deployed(t testing.TB, stream, tables string) drift.Deployed {
	t.Helper()
	s, err := drift.ParseStream(read(t, stream))
	if err != nil {
		t.Fatal(err)
	}
	list, err := drift.ParseTables(read(t, tables))
	if err != nil {
		t.Fatal(err)
	}
	return drift.Deployed{Stream: s, Tables: list, Lambda: "arn:aws:lambda:eu-central-1:123456789012:function:transform:live"}
}

func TestNoDrift(t *testing.T) {
	if found := drift.Compare(pipeline(t), deployed(t, "stream.json", "tables.json")); len(found) > 0 {
		t.Errorf("found %+v", found)
	}
}

func TestGolden(t *testing.T) {
	got, err := json.MarshalIndent(drift.Compare(pipeline(t), deployed(t, "bad-stream.json", "bad-tables.json")), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	golden := "../../testdata/golden/catalog/drift/drift.json"
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
}

// Each change of a good stream gives the finding that is meant for it, alone.
func TestStream(t *testing.T) {
	seconds := func(n int) *int { return &n }
	for want, change := range map[string]func(*drift.Stream, *drift.Iceberg){
		"no-iceberg-destination": func(s *drift.Stream, _ *drift.Iceberg) { s.Destinations = nil },
		"stream-source":          func(s *drift.Stream, _ *drift.Iceberg) { s.Type = "MSKAsSource" },
		"table-not-listed":       func(_ *drift.Stream, i *drift.Iceberg) { i.Tables = i.Tables[:1] },
		"unique-keys":            func(_ *drift.Stream, i *drift.Iceberg) { i.Tables[0].UniqueKeys = nil },
		"stream-partition-spec": func(_ *drift.Stream, i *drift.Iceberg) {
			if err := json.Unmarshal([]byte(`{"Identity": [{"SourceName": "region"}]}`), &i.Tables[0].Partition); err != nil {
				t.Fatal(err)
			}
		},
		"append-only":  func(_ *drift.Stream, i *drift.Iceberg) { i.AppendOnly = true },
		"short-buffer": func(_ *drift.Stream, i *drift.Iceberg) { i.Buffering.Seconds = seconds(0) },
		"no-transform": func(_ *drift.Stream, i *drift.Iceberg) { i.Processing.Enabled = false },
		"other-processor": func(_ *drift.Stream, i *drift.Iceberg) {
			i.Processing.Processors = append(i.Processing.Processors, drift.Processor{Type: "New"})
		},
		"tables-changed-by-firehose": func(_ *drift.Stream, i *drift.Iceberg) { i.TableCreation = &drift.Enabled{Enabled: true} },
		"short-retry":                func(_ *drift.Stream, i *drift.Iceberg) { i.Retry.Seconds = seconds(10) },
	} {
		d := deployed(t, "stream.json", "tables.json")
		change(d.Stream, d.Stream.Destinations[0].Iceberg)
		found := drift.Compare(pipeline(t), d)
		if len(found) != 1 || found[0].ID != want {
			t.Errorf("%s: found %+v", want, found)
		}
	}
}

// Firehose writes no table that PyIceberg can read; a changelog it can.
func TestReadersOfAStream(t *testing.T) {
	p := pipeline(t)
	for _, table := range p.Tables {
		table.Readers = []catalog.Reader{catalog.ReaderSpark, catalog.ReaderPyIceberg}
	}
	found := drift.Compare(p, deployed(t, "stream.json", "tables.json"))
	if len(found) != 1 || found[0].ID != "unreadable-deletes" || found[0].Field != "DestinationTableConfigurationList shop.orders" ||
		found[0].Consequence != "Firehose writes delete files, and pyiceberg would read the table wrong or not at all" {
		t.Errorf("found %+v", found)
	}
}

// A pipeline of changelogs alone wants AppendOnly.
func TestChangelogsOnly(t *testing.T) {
	p := pipeline(t)
	for _, table := range p.Tables {
		table.Mode = catalog.Changelog
	}
	d := deployed(t, "stream.json", "tables.json")
	d.Tables = nil
	found := drift.Compare(p, d)
	if len(found) != 1 || found[0].ID != "not-append-only" {
		t.Errorf("found %+v", found)
	}
	d.Stream.Destinations[0].Iceberg.AppendOnly = true
	if found := drift.Compare(p, d); len(found) > 0 {
		t.Errorf("found %+v", found)
	}
}

func TestBadInput(t *testing.T) {
	for _, text := range []string{"", "{}", "[]", `{"DeliveryStreamDescription": 1}`, `{"DeliveryStreamDescription": null}`} {
		if _, err := drift.ParseStream([]byte(text)); err == nil {
			t.Errorf("ParseStream took %q", text)
		}
	}
	for _, text := range []string{"", "{}", "[]", `{"TableList": {}}`, `{"Table": []}`} {
		if _, err := drift.ParseTables([]byte(text)); err == nil {
			t.Errorf("ParseTables took %q", text)
		}
	}
	want := "read tables: line 2: TableList is a number; want what aws glue get-tables prints"
	if _, err := drift.ParseTables([]byte("{\n\"TableList\": 5}")); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	one, err := drift.ParseTables([]byte(`{"Table": {"Name": "orders", "DatabaseName": "shop"}}`))
	if err != nil || len(one) != 1 || one[0].Name != "orders" {
		t.Errorf("get-table: %v, %v", one, err)
	}
	if none, err := drift.ParseTables([]byte(`{"TableList": []}`)); err != nil || none == nil {
		t.Errorf("an empty list is a list: %v, %v", none, err)
	}
}

func FuzzCompare(f *testing.F) {
	f.Add(read(f, "bad-stream.json"), read(f, "bad-tables.json"))
	f.Add([]byte(`{"DeliveryStreamDescription": {"Destinations": [{}, {"IcebergDestinationDescription": {"ProcessingConfiguration": {"Enabled": true}}}]}}`), []byte(`{"Table": {}}`))
	p := pipeline(f)
	f.Fuzz(func(t *testing.T, stream, tables []byte) {
		var d drift.Deployed
		var err error
		if d.Stream, err = drift.ParseStream(stream); err != nil {
			d.Stream = nil
		}
		if d.Tables, err = drift.ParseTables(tables); err != nil {
			d.Tables = nil
		}
		for _, found := range drift.Compare(p, d) {
			if found.ID == "" || found.Where == "" || found.Consequence == "" || found.Fix == "" {
				t.Errorf("not a whole finding: %+v", found)
			}
		}
	})
}
