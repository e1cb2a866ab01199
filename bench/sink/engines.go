package main

import (
	"context"
	"encoding/json"
	"os/exec"

	"icehose/bench/sink/stream"
	"icehose/cdc"
)

// An engineRun lets another engine apply changes to a table of its own.
type engineRun struct {
	name, engine string
	table        stream.Table
	commit       int // changes a commit
	commits      int
}

// An applied is what engines.py says of it.
type applied struct {
	Version string  `json:"version"`
	Seconds float64 `json:"seconds"`
	Peak    int64   `json:"peak"`
}

func (b *bench) engines(ctx context.Context) error {
	onRead := func(name string) stream.Table { return stream.Table{Name: name, Mode: "mirror", Reader: "spark"} }
	onWrite := func(name string) stream.Table {
		return stream.Table{Name: name, Mode: "mirror", Reader: "pyiceberg"}
	}
	for _, r := range []engineRun{
		{"MERGE INTO, merge-on-read", "spark", onRead("spark_read"), b.changes, 1},
		{"MERGE INTO, copy-on-write", "spark", onWrite("spark_write"), b.changes, 1},
		{"MERGE INTO, merge-on-read", "spark", onRead("spark_commits"), sinkRows, b.commits},
		{"upsert and delete, copy-on-write", "pyiceberg", onWrite("pyiceberg"), sinkRows, b.commits},
	} {
		if _, err := b.sink(ctx, b.basePart, r.table); err != nil {
			return err
		}
		if err := b.shared(ctx); err != nil {
			return err
		}
		if err := b.engine(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) engine(ctx context.Context, r engineRun) error {
	changes := min(b.changes, r.commit*r.commits)
	position := func(n int) cdc.Position {
		c := stream.Change{N: uint64(b.rows + n - 1)} //nolint:gosec // a number of changes
		return c.Position()
	}
	bounds := []cdc.Position{position(0)}
	for n := 0; n < changes; {
		n = min(n+r.commit, changes)
		bounds = append(bounds, position(n))
	}
	task, err := json.Marshal(map[string]any{
		"engine": r.engine, "lake": b.dir, "jars": b.jars, "table": stream.Database + "." + r.table.Name,
		"changes": stream.Database + "." + changelog.Name, "bounds": bounds,
	})
	if err != nil {
		return err
	}
	var a applied
	if err := answerOf(exec.CommandContext(ctx, b.python, "bench/sink/engines.py", string(task)), &a); err != nil {
		return err
	}
	b.report(a.Version+", "+r.name, r.commit, changes, delivered{Seconds: a.Seconds, Peak: a.Peak})
	return b.check(ctx, r.table, changes)
}
