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

// TestMergeElsewhere merges in this process behind Glue, and behind a SQLite
// catalog with tables in S3: each run reads what is new since the last.
func TestMergeElsewhere(t *testing.T) {
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
			write(pipeline, strings.Replace(remotePipeline, `mode: mirror, key: [id], partition: ["bucket(4, id)"]`, "mode: changelog, key: [id]", 1))
			place := []string{"--pipeline", pipeline, "--warehouse", cloud.Warehouse}
			if kind == "glue" {
				place = append(place, "--catalog", "glue", "--uri", cloud.GlueURL)
			} else {
				place = append(place, "--catalog", "sqlite:"+filepath.Join(dir, "catalog.db"))
			}
			for name, value := range cloud.Properties() {
				place = append(place, "--prop", name+"="+value)
			}
			icehose := func(args ...string) []byte {
				t.Helper()
				var stdout, stderr bytes.Buffer
				if status := run(t.Context(), append(args, place...), environment{stdout: &stdout, stderr: &stderr, getenv: os.Getenv}); status != 0 {
					t.Fatalf("%v: status %d\n%s", args, status, stderr.String())
				}
				return stdout.Bytes()
			}
			stream := ""
			for n, sequence := range []string{"10", "11"} {
				stream += strings.ReplaceAll(remoteRecord, "SEQUENCE", sequence)
				write(events, stream)
				icehose("sink", events)
				for again, want := range []int64{1, 0} { // a repeated run has nothing to do
					var result mergeResult
					if err := json.Unmarshal(icehose("--json", "merge"), &result); err != nil {
						t.Fatal(err)
					}
					if got := result.Tables[0]; got.Read != want || got.Changed != want || got.Current != "lake.item_folded" {
						t.Errorf("after %d records, run %d: %+v, want %d read and changed", n+1, again+1, got, want)
					}
				}
			}
		})
	}
}
