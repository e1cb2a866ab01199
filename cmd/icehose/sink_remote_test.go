package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"icehose/internal/gluetest"
)

const remotePipeline = `version: 1
database: lake
source: {engine: postgresql, position: postgres}
tables:
- {source: s.item, mode: mirror, key: [id], partition: ["bucket(4, id)"], readers: [pyiceberg], columns: [{name: id, type: long}, {name: n, type: int}]}
`

const remoteRecord = `{"shardId":"s-0","sequenceNumber":"SEQUENCE","data":"{\"data\":{\"id\":1,\"n\":SEQUENCE},` +
	`\"metadata\":{\"record-type\":\"data\",\"operation\":\"update\",\"schema-name\":\"s\",\"table-name\":\"item\",\"transaction-id\":SEQUENCE,` +
	`\"transaction-record-id\":1,\"commit-timestamp\":\"2026-01-01T00:00:01.000000Z\",\"stream-position\":\"00000005/1A0000SEQUENCE.2.00000005/1A0000SEQUENCE\"}}"}` + "\n"

// A remote is a lake behind a catalog, with its tables in S3, its pipeline file
// and what was captured so far.
type remote struct {
	t      *testing.T
	dir    string
	events string
	place  []string // flags of every command
	stream string
}

// elsewhere tests lakes behind Glue and behind a SQLite catalog.
func elsewhere(t *testing.T, pipeline string, test func(t *testing.T, r *remote)) {
	t.Helper()
	for _, kind := range []string{"glue", "sqlite"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			cloud := gluetest.Start(t)
			dir := t.TempDir()
			r := &remote{t: t, dir: dir, events: filepath.Join(dir, "events.ndjson")}
			r.write("pipeline.yaml", pipeline)
			r.place = []string{"--pipeline", filepath.Join(dir, "pipeline.yaml"), "--warehouse", cloud.Warehouse}
			if kind == "glue" {
				r.place = append(r.place, "--catalog", "glue", "--uri", cloud.GlueURL)
			} else {
				r.place = append(r.place, "--catalog", "sqlite:"+filepath.Join(dir, "catalog.db"))
			}
			for name, value := range cloud.Properties() {
				r.place = append(r.place, "--prop", name+"="+value)
			}
			test(t, r)
		})
	}
}

func (r *remote) write(name, text string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// captured adds a record to the events.
func (r *remote) captured(sequence string) {
	r.t.Helper()
	r.stream += strings.ReplaceAll(remoteRecord, "SEQUENCE", sequence)
	r.write("events.ndjson", r.stream)
}

// run runs a command that ends with a status.
func (r *remote) run(want int, args ...string) string {
	r.t.Helper()
	var stdout, stderr bytes.Buffer
	if status := run(r.t.Context(), append(args, r.place...), environment{stdout: &stdout, stderr: &stderr, getenv: os.Getenv}); status != want {
		r.t.Fatalf("%v: status %d, want %d\n%s%s", args, status, want, &stdout, &stderr)
	}
	return stdout.String()
}

// resultOf runs a command that ends well and returns what it says.
func resultOf[T any](r *remote, args ...string) (result T) {
	r.t.Helper()
	if err := json.Unmarshal([]byte(r.run(exitSame, append([]string{"--json"}, args...)...)), &result); err != nil {
		r.t.Fatal(err)
	}
	return result
}

// TestSinkElsewhere runs the command against Glue and S3, and against a SQLite
// catalog with tables in S3: what a second run finds is what the first left,
// maintained there, and reconcile compares and repairs it.
func TestSinkElsewhere(t *testing.T) {
	t.Parallel()
	elsewhere(t, remotePipeline, func(t *testing.T, r *remote) {
		for n, sequence := range []string{"10", "11", "12"} {
			r.captured(sequence)
			result := resultOf[sinkResult](r, "sink", r.events)
			table := result.Tables[0]
			if result.Before != uint64(n) || result.Records != 1 || table.Applied != 1 || table.Rows == nil || *table.Rows != 1 {
				t.Errorf("run %d: %+v", n, result)
			}
			if table.DeleteFiles == nil || *table.DeleteFiles != 0 || table.Position == "" {
				t.Errorf("run %d: %+v", n, table)
			}
			maintained := resultOf[maintainResult](r, "maintain", "--keep-snapshots", "1", "--snapshot-age", "0s")
			if after := maintained.Tables[0].After; after.Rows != 1 || after.Snapshots != 1 {
				t.Errorf("maintained after run %d: %+v", n, after)
			}
		}
		page := filepath.Join(r.dir, "page.html")
		compare := []string{"reconcile", "--source", r.dir, "--final", "--history", "--html", page}
		r.write("s.item.ndjson", `{"id":"1","n":"12"}`)
		r.run(exitSame, compare...)
		r.write("s.item.ndjson", `{"id":"1","n":"13"}`)
		r.run(exitDifferent, compare...)
		r.run(exitSame, append(compare, "--repair", "sink")...)
		r.run(exitSame, compare...)
		if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "the last 4 of them") {
			t.Errorf("the page does not show 4 runs: %v\n%s", err, text)
		}
	})
}

// TestSinkPlaces refuses places that mean nothing.
func TestSinkPlaces(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipeline := filepath.Join(dir, "pipeline.yaml")
	if err := os.WriteFile(pipeline, []byte(remotePipeline), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"want --lake or --catalog": nil,
		"--uri, --warehouse and --prop belong to --catalog, not to --lake":                         {"--lake", dir, "--warehouse", "s3://x/y"},
		"--catalog sqlite: want the database too, as sqlite:PATH":                                  {"--catalog", "sqlite"},
		`open catalog: want glue, rest or sqlite, got "hive"`:                                      {"--catalog", "hive"},
		"open rest catalog: want the address of the catalog":                                       {"--catalog", "rest"},
		"open glue catalog: want a warehouse URI such as s3://my-lake/warehouse":                   {"--catalog", "glue"},
		"open lake " + filepath.Join(dir, "pipeline.yaml") + ": open catalog: pipeline.yaml: file": {"--catalog", "sqlite:" + pipeline},
	} {
		var stdout, stderr bytes.Buffer
		status := run(t.Context(), append([]string{"sink", "--pipeline", pipeline, pipeline}, args...), environment{stdout: &stdout, stderr: &stderr, getenv: os.Getenv})
		if status != 2 || !strings.Contains(stderr.String(), want) {
			t.Errorf("%v: status %d, %s", args, status, stderr.String())
		}
	}
}
