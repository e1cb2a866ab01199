package main

import (
	"bytes"
	"context"
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

// TestSinkElsewhere runs the command against Glue and S3, and against a SQLite
// catalog with tables in S3: what a second run finds is what the first left,
// maintained there, and reconcile compares and repairs it.
func TestSinkElsewhere(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"glue", "sqlite"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			cloud := gluetest.Start(t)
			dir := t.TempDir()
			pipeline, events := filepath.Join(dir, "pipeline.yaml"), filepath.Join(dir, "events.ndjson")
			write := func(name, text string) {
				t.Helper()
				if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write(pipeline, remotePipeline)
			place := []string{"--pipeline", pipeline, "--warehouse", cloud.Warehouse}
			if kind == "glue" {
				place = append(place, "--catalog", "glue", "--uri", cloud.GlueURL)
			} else {
				place = append(place, "--catalog", "sqlite:"+filepath.Join(dir, "catalog.db"))
			}
			for name, value := range cloud.Properties() {
				place = append(place, "--prop", name+"="+value)
			}
			command := func(want int, args ...string) string {
				t.Helper()
				var stdout, stderr bytes.Buffer
				if status := run(context.WithoutCancel(t.Context()), append(args, place...), environment{stdout: &stdout, stderr: &stderr, getenv: os.Getenv}); status != want {
					t.Fatalf("%v: status %d, want %d\n%s%s", args, status, want, &stdout, &stderr)
				}
				return stdout.String()
			}
			stream := ""
			for n, sequence := range []string{"10", "11", "12"} {
				stream += strings.ReplaceAll(remoteRecord, "SEQUENCE", sequence)
				write(events, stream)
				var result sinkResult
				if err := json.Unmarshal([]byte(command(exitSame, "--json", "sink", events)), &result); err != nil {
					t.Fatal(err)
				}
				table := result.Tables[0]
				if result.Before != uint64(n) || result.Records != 1 || table.Applied != 1 || table.Rows == nil || *table.Rows != 1 {
					t.Errorf("run %d: %+v", n, result)
				}
				if table.DeleteFiles == nil || *table.DeleteFiles != 0 || table.Position == "" {
					t.Errorf("run %d: %+v", n, table)
				}
				var maintained maintainResult
				if err := json.Unmarshal([]byte(command(exitSame, "--json", "maintain", "--keep-snapshots", "1")), &maintained); err != nil {
					t.Fatal(err)
				}
				if after := maintained.Tables[0].After; after.Rows != 1 || after.Snapshots != 1 {
					t.Errorf("maintained after run %d: %+v", n, after)
				}
			}
			dump, page := filepath.Join(dir, "s.item.ndjson"), filepath.Join(dir, "page.html")
			compare := []string{"reconcile", "--source", dir, "--final", "--history", "--html", page}
			write(dump, `{"id":"1","n":"12"}`)
			command(exitSame, compare...)
			write(dump, `{"id":"1","n":"13"}`)
			command(exitDifferent, compare...)
			command(exitSame, append(compare, "--repair", "sink")...)
			command(exitSame, compare...)
			if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "the last 4 of them") {
				t.Errorf("the page does not show 4 runs: %v\n%s", err, text)
			}
		})
	}
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
		"--uri, --warehouse and --prop belong to --catalog, not to --lake":          {"--lake", dir, "--warehouse", "s3://x/y"},
		"--catalog sqlite: want the database too, as sqlite:PATH":                   {"--catalog", "sqlite"},
		`open catalog: want glue or rest, got "hive"`:                               {"--catalog", "hive"},
		"open rest catalog: want the address of the catalog":                        {"--catalog", "rest"},
		"open glue catalog: want a warehouse URI such as s3://my-lake/warehouse":    {"--catalog", "glue"},
		"open lake " + filepath.Join(dir, "pipeline.yaml") + ": open catalog: file": {"--catalog", "sqlite:" + pipeline},
	} {
		var stdout, stderr bytes.Buffer
		status := run(t.Context(), append([]string{"sink", "--pipeline", pipeline, pipeline}, args...), environment{stdout: &stdout, stderr: &stderr, getenv: os.Getenv})
		if status != 2 || !strings.Contains(stderr.String(), want) {
			t.Errorf("%v: status %d, %s", args, status, stderr.String())
		}
	}
}
