package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"icehose/catalog"
	"icehose/catalog/discover"
)

// catalogDiscoverCmd writes or updates the pipeline file from a source schema.
type catalogDiscoverCmd struct {
	Source   sourceFlags `embed:""`
	Pipeline string      `default:"pipeline.yaml" help:"The pipeline file to write or update." placeholder:"FILE"`
	Database string      `help:"Destination database of a new file." placeholder:"NAME"`
	Tables   []string    `help:"Source tables to describe, as schema.table with % for any text." placeholder:"PATTERN"`
	AsText   []string    `help:"Source types without a known mapping whose text is to be carried, such as geometry." placeholder:"TYPE"`
}

// Help implements kong.HelpProvider.
func (*catalogDiscoverCmd) Help() string {
	return `Reads the schema of a source and writes a pipeline file that describes it, with
the reason for each proposal as a comment. If the file is there, what is new in
the source is added to it; nothing that is in it is removed, and nothing that a
person changed is changed back. What needs a decision is printed.

Exit status: 0 written, or nothing to write; 2 refused or not possible, and
nothing written.

Examples:
  icehose catalog discover --dump schema.sql --database shop
  icehose catalog discover --tables 'sales.%'
  icehose catalog discover --events events.ndjson.zst --engine postgresql`
}

// discoverResult is what the command prints.
type discoverResult struct {
	Pipeline string          `json:"pipeline"`
	Written  bool            `json:"written"`
	Notes    []discover.Note `json:"notes"`
}

// Run implements the command.
func (cmd *catalogDiscoverCmd) Run(ctx context.Context, env *environment, global *cli) error {
	before, err := os.ReadFile(cmd.Pipeline)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("read pipeline file: %w", err)
	}
	schema, err := cmd.Source.read(ctx, env, engineOf(before))
	if err != nil {
		return err
	}
	result, err := discover.Update(cmd.Pipeline, before, schema, discover.Options{Database: cmd.Database, Tables: cmd.Tables, AsText: cmd.AsText})
	if err != nil {
		return err
	}
	out := discoverResult{Pipeline: cmd.Pipeline, Written: !bytes.Equal(before, result.Text), Notes: append([]discover.Note{}, result.Notes...)}
	if out.Written {
		if err := replaceFile(cmd.Pipeline, result.Text); err != nil {
			return fmt.Errorf("write pipeline file: %w", err)
		}
	}
	if global.JSON {
		return printJSON(env.stdout, out)
	}
	return out.writeText(env.stdout)
}

// engineOf reads the engine from a file that may not be a whole pipeline file yet.
func engineOf(text []byte) catalog.Engine {
	p, _, err := catalog.Draft("", text)
	if err != nil {
		return "" // whoever uses the file says what is wrong with it
	}
	return p.Source.Engine
}

// replaceFile writes a file in one step: a reader sees the old text or the new.
func replaceFile(path string, text []byte) (err error) {
	mode := os.FileMode(0o644)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(text)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

func (r *discoverResult) writeText(w io.Writer) error {
	var b strings.Builder
	counts := make(map[discover.Kind]int)
	for _, n := range r.Notes {
		counts[n.Kind]++
		place := n.Table
		if n.Column != "" {
			place += "." + n.Column
		}
		fmt.Fprintf(&b, "%-9s  %s: %s\n", n.Kind, place, n.Text)
		if n.Kind == discover.Attention {
			fmt.Fprintf(&b, "%-9s  %s\n", "", n.Edit)
		}
	}
	verb := "unchanged"
	if r.Written {
		verb = "written"
	}
	fmt.Fprintf(&b, "%s %s: %d added, %d changed, %d for a person to decide\n", r.Pipeline, verb, counts[discover.Added], counts[discover.Changed], counts[discover.Attention])
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}

// catalogSchemaCmd prints the JSON Schema of the pipeline file.
type catalogSchemaCmd struct{}

// Help implements kong.HelpProvider.
func (*catalogSchemaCmd) Help() string {
	return `Prints the JSON Schema of pipeline.yaml, for editors that check and complete
YAML. What it cannot say, such as that a key names columns, icehose checks when
it reads the file.`
}

// Run implements the command.
func (*catalogSchemaCmd) Run(env *environment) error {
	if _, err := env.stdout.Write(catalog.JSONSchema()); err != nil {
		return fmt.Errorf("write schema: %w", err)
	}
	return nil
}
