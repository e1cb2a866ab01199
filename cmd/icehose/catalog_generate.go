package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"icehose/catalog"
	"icehose/catalog/artifact"
)

// catalogGenerateCmd writes the artifacts of a pipeline file.
type catalogGenerateCmd struct {
	Pipeline  string `required:"" help:"The pipeline file." placeholder:"FILE"`
	Out       string `required:"" help:"Directory for the artifacts; made when it is not there." placeholder:"DIR"`
	Warehouse string `default:"s3://WAREHOUSE" help:"URI below which the tables lie, as database/table." placeholder:"URI"`
	Check     bool   `help:"Write nothing; say what would change."`
}

// Help implements kong.HelpProvider.
func (*catalogGenerateCmd) Help() string {
	return `Writes, for the tables of the pipeline file:
  iceberg/         the schema of a new table
  glue/            input of aws glue create-table --cli-input-json
  cloudformation/  a fragment that creates the tables and never updates them
  athena/, spark/  SQL: tables, views of current rows, merges, maintenance
  firehose/        DestinationTableConfigurationList, with unique keys
  dms/             table mapping, task and endpoint settings
The same file gives the same bytes. A CloudFormation table that an earlier run
wrote keeps its text: catalog apply owns the evolution of tables. Files that an
earlier run wrote and that nothing needs any more are removed.

Exit status: 0 written, 1 with --check something would change, 2 refused or not
possible.

Examples:
  icehose catalog generate --pipeline pipeline.yaml --out definitions --warehouse s3://my-lake/warehouse`
}

// manifestFile lists what an earlier run wrote, as relative paths.
const manifestFile = "manifest.json"

// generateResult is what the command prints.
type generateResult struct {
	Out     string   `json:"out"`
	Files   int      `json:"files"`
	Written []string `json:"written"` // new or changed
	Removed []string `json:"removed"`
	Notes   []string `json:"notes"`
}

// Run implements the command.
func (cmd *catalogGenerateCmd) Run(env *environment, global *cli) error {
	p, err := catalog.Load(cmd.Pipeline)
	if err != nil {
		return err
	}
	before, err := readManifest(cmd.Out)
	if err != nil {
		return err
	}
	stack, err := os.ReadFile(filepath.Join(cmd.Out, filepath.FromSlash(artifact.StackFile)))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("read artifact: %w", err)
	}
	made, err := artifact.Generate(p, artifact.Options{Warehouse: cmd.Warehouse, Stack: stack})
	if err != nil {
		return err
	}
	result := generateResult{Out: cmd.Out, Files: len(made.Files), Written: []string{}, Removed: []string{}, Notes: append([]string{}, made.Notes...)}
	if cmd.Warehouse == artifact.DefaultWarehouse {
		result.Notes = append(result.Notes, "locations begin with "+artifact.DefaultWarehouse+": give --warehouse")
	}
	if cmd.Check {
		cmd.compare(made.Files, before, &result)
	} else if err := cmd.write(made.Files, before, &result); err != nil {
		return err
	}
	if global.JSON {
		err = printJSON(env.stdout, result)
	} else {
		err = result.writeText(env.stdout, cmd.Check)
	}
	if err == nil && cmd.Check && len(result.Written)+len(result.Removed) > 0 {
		return exitError(exitDifferent)
	}
	return err
}

// compare finds what write would change.
func (cmd *catalogGenerateCmd) compare(files []artifact.File, before []string, result *generateResult) {
	needed := make(map[string]bool)
	for _, f := range files {
		needed[f.Path] = true
		if have, err := os.ReadFile(filepath.Join(cmd.Out, filepath.FromSlash(f.Path))); err != nil || !bytes.Equal(have, f.Data) {
			result.Written = append(result.Written, f.Path)
		}
	}
	for _, old := range before {
		if !needed[old] {
			result.Removed = append(result.Removed, old)
		}
	}
}

// readManifest returns the files that an earlier run wrote into dir. A
// directory with other things in it is not touched.
func readManifest(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read output directory: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(dir, manifestFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read output directory: %s is not empty and has no %s of an earlier run: choose another --out", dir, manifestFile)
	}
	if err != nil {
		return nil, fmt.Errorf("read output directory: %w", err)
	}
	var files []string
	if err := json.Unmarshal(text, &files); err != nil {
		return nil, fmt.Errorf("read output directory: %s is damaged: %w", filepath.Join(dir, manifestFile), err)
	}
	for _, f := range files {
		if !filepath.IsLocal(filepath.FromSlash(f)) {
			return nil, fmt.Errorf("read output directory: %s names %q, which is outside of it", filepath.Join(dir, manifestFile), f)
		}
	}
	return files, nil
}

// write brings the directory up to date. The manifest lists both generations
// while files change, so that a killed run leaves nothing that the next one
// does not know.
func (cmd *catalogGenerateCmd) write(files []artifact.File, before []string, result *generateResult) error {
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = f.Path
	}
	both := append(slices.Clone(before), names...)
	slices.Sort(both)
	if err := cmd.writeManifest(slices.Compact(both)); err != nil {
		return err
	}
	for _, f := range files {
		changed, err := writeIfChanged(filepath.Join(cmd.Out, filepath.FromSlash(f.Path)), f.Data)
		if err != nil {
			return err
		}
		if changed {
			result.Written = append(result.Written, f.Path)
		}
	}
	for _, old := range before {
		if slices.Contains(names, old) {
			continue
		}
		if err := os.Remove(filepath.Join(cmd.Out, filepath.FromSlash(old))); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove artifact: %w", err)
		}
		result.Removed = append(result.Removed, old)
	}
	return cmd.writeManifest(names)
}

func (cmd *catalogGenerateCmd) writeManifest(names []string) error {
	text, err := json.MarshalIndent(names, "", "  ")
	if err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}
	_, err = writeIfChanged(filepath.Join(cmd.Out, manifestFile), append(text, '\n'))
	return err
}

// writeIfChanged writes a file in one step, unless it has this content.
func writeIfChanged(path string, data []byte) (changed bool, err error) {
	if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, data) {
		return false, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return false, fmt.Errorf("write artifact: %w", err)
	}
	if err := os.WriteFile(path+newSuffix, data, 0o644); err != nil {
		return false, fmt.Errorf("write artifact: %w", err)
	}
	if err := os.Rename(path+newSuffix, path); err != nil {
		return false, fmt.Errorf("write artifact: %w", err)
	}
	return true, nil
}

func (r *generateResult) writeText(w io.Writer, check bool) error {
	var b bytes.Buffer
	written, removed := "written", "removed"
	if check {
		written, removed = "to write", "to remove"
	}
	for _, f := range r.Written {
		fmt.Fprintf(&b, "%-9s %s\n", written, f)
	}
	for _, f := range r.Removed {
		fmt.Fprintf(&b, "%-9s %s\n", removed, f)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "%-9s %s\n", "note", n)
	}
	fmt.Fprintf(&b, "%s: %d files, %d %s, %d %s\n", r.Out, r.Files, len(r.Written), written, len(r.Removed), removed)
	if _, err := b.WriteTo(w); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}
