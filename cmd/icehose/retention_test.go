package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/sink"
	"icehose/sink/iceberg"
	"icehose/sink/sinktest"
)

const keptPipeline = `version: 1
database: lake
source: {engine: postgresql, position: postgres}
tables:
  - source: sales.parts
    mode: mirror
    key: [id]
    columns: [{name: id, type: long}]
`

const keptLoad = `    loads: [{floor: "00000000016b37480000000000000000", since: 2026-03-01T10:00:00Z}]
`

// TestOthersKeepSnapshots: what icehose sink --snapshot-age keeps is not expired
// by the commit of a command that is not given it.
func TestOthersKeepSnapshots(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		pipeline string
		args     []string
	}{
		"repair": {keptPipeline, []string{"reconcile", "--source", "source", "--final", "--repair", "sink"}},
		"resync": {keptPipeline + keptLoad, []string{"resync", "finish", "sales.parts", "--empty"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path, source, lake := filepath.Join(dir, "pipeline.yaml"), filepath.Join(dir, "source"), filepath.Join(dir, "lake")
			if err := os.Mkdir(source, 0o700); err != nil {
				t.Fatal(err)
			}
			for name, text := range map[string]string{path: test.pipeline, filepath.Join(source, "sales.parts.csv"): "id\n"} {
				if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			p, err := catalog.Load(path)
			if err != nil {
				t.Fatal(err)
			}
			before := manySnapshots(t, p, lake, 145)
			args := append(slices.Clone(test.args), "--pipeline", path, "--lake", lake)
			if at := slices.Index(args, "source"); at > 0 {
				args[at] = source
			}
			var out bytes.Buffer
			if status := run(t.Context(), args, environment{stdin: strings.NewReader(""), stdout: &out, stderr: &out, getenv: func(string) string { return "" }}); status != exitSame {
				t.Fatalf("exit status %d: %s", status, &out)
			}
			if after := manySnapshots(t, p, lake, 0); after <= before {
				t.Errorf("%d snapshots, %d before", after, before)
			}
		})
	}
}

// manySnapshots commits so often, 0 for not at all, and returns how many snapshots
// there are.
func manySnapshots(t *testing.T, p *catalog.Pipeline, lake string, commits int) int {
	t.Helper()
	store, err := iceberg.Open(t.Context(), lake, iceberg.Options{
		ReadOnly: commits == 0, Sync: func(*os.File) error { return nil }, Retention: iceberg.Retention{SnapshotAge: 24 * time.Hour},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}()
	if commits > 0 {
		commitOften(t.Context(), t, p, store, commits)
	}
	layout, err := store.Layout(t.Context(), p.Tables[0])
	if err != nil {
		t.Fatal(err)
	}
	return layout.Snapshots
}

// commitOften commits a row, and notes alone for the others.
func commitOften(ctx context.Context, t *testing.T, p *catalog.Pipeline, store *iceberg.Store, commits int) {
	t.Helper()
	parts, err := store.OpenTable(ctx, p.Tables[0])
	if err != nil {
		t.Fatal(err)
	}
	row := sinktest.Row("1", string(cdc.ChangePosition(0, cdc.Body{Lo: 1}, 0)), "2026-03-01T09:00:00.000000Z")
	for n := range commits {
		b := &sink.Batch{ID: strconv.Itoa(n), Properties: map[string]string{sink.PropertyCommit: strconv.Itoa(n)}}
		if n == 0 {
			b.Inserts = sink.NewRows(row)
		} else {
			b.Parent = strconv.Itoa(n - 1)
		}
		if err := parts.Commit(ctx, b); err != nil {
			t.Fatal(err)
		}
	}
}
