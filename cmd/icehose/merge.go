package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"icehose/catalog"
	"icehose/sink/iceberg"
	"icehose/sink/merge"
	"icehose/sink/merge/athena"
)

// The engines of merge.
const (
	engineLocal  = "local"
	engineSpark  = "spark"
	engineAthena = "athena"
)

// mergeCmd folds what is new in changelogs into their current tables.
type mergeCmd struct {
	Pipeline  string   `required:"" help:"The pipeline file." placeholder:"FILE"`
	Engine    string   `default:"local" enum:"local,spark,athena" help:"local, spark or athena." placeholder:"ENGINE"`
	Table     []string `help:"Merge this source table only, as schema.table; may be repeated." placeholder:"TABLE"`
	Rebuild   bool     `help:"Fold every key anew, whatever is noted, and remove rows that the changelog does not have."`
	Submit    *string  `help:"Spark: run the script with this command instead of printing it." placeholder:"COMMAND"`
	Workgroup string   `help:"Athena: the workgroup." placeholder:"NAME"`
	Output    string   `help:"Athena: where it writes results, if the workgroup does not say." placeholder:"URI"`
	Parts     int      `help:"Athena: do a first merge in so many statements, where one takes longer than its 30 minutes. Each reads the whole changelog." default:"1" placeholder:"N"`
	lakeFlags
}

// Help implements kong.HelpProvider.
func (*mergeCmd) Help() string {
	return `Brings the current table of each changelog (named after it, with _folded) up to
date: the keys that new files of the changelog speak of are folded anew. How far was
read is noted with the rows, so it can be run again, by two at once, or be killed.

--engine local does it in this process, with memory for the rows of the keys
touched, on a lake in a folder or behind any catalog.

--engine spark prints a script for spark-submit, which can be kept and scheduled,
or runs it with --submit: Spark 4.0 or newer with Iceberg's runtime and extensions.

--engine athena sends statements to Athena; --catalog glue says where the tables
are. The note is a commit of its own there: a run that was killed before it is
repeated by the next one, which changes nothing more.

Prints per table the rows of the changelog that were read, those among them that were
late (below a position merged before), and the current rows changed and deleted.

A change that was committed well after another and yet has a lower position is
reported (position_regressed): the source's numbering has restarted.

Exit status: 0 merged, or the script printed; 1 merged, and position_regressed; 2
a table was refused or could not be merged: the others are merged nevertheless.

Examples:
  icehose merge --pipeline pipeline.yaml --lake icehose-demo
  icehose merge --pipeline pipeline.yaml --catalog rest:https://catalog.example.com --prop token=$TOKEN
  icehose merge --pipeline pipeline.yaml --engine spark > merge.py
  icehose merge --pipeline pipeline.yaml --engine spark --submit "spark-submit --master yarn"
  icehose merge --pipeline pipeline.yaml --engine athena --workgroup etl \
      --catalog glue --warehouse s3://my-lake/wh --prop glue.region=eu-central-1`
}

// A mergeResult is what the command prints.
type mergeResult struct {
	Engine  string          `json:"engine"`
	Tables  []*merge.Result `json:"tables"`
	Seconds float64         `json:"seconds"`
}

// Run implements the command.
func (cmd *mergeCmd) Run(ctx context.Context, env *environment, global *cli) error {
	started := time.Now()
	if err := cmd.checkFlags(); err != nil {
		return err
	}
	p, err := catalog.Load(cmd.Pipeline)
	if err != nil {
		return err
	}
	tables, err := merge.Changelogs(p, cmd.Table)
	if err != nil {
		return fmt.Errorf("%s: %w", cmd.Pipeline, err)
	}
	result := &mergeResult{Engine: cmd.Engine, Tables: []*merge.Result{}}
	switch cmd.Engine {
	case engineLocal:
		result.Tables, err = cmd.local(ctx, env, tables)
	case engineAthena:
		result.Tables, err = cmd.athena(ctx, env, tables)
	case engineSpark:
		var script string
		if script, err = cmd.script(tables); err != nil {
			return err
		}
		if cmd.Submit == nil {
			if _, err := io.WriteString(env.stdout, script); err != nil {
				return fmt.Errorf("write script: %w", err)
			}
			return nil
		}
		result.Tables, err = cmd.submit(ctx, env, script, tables)
	default:
		return fmt.Errorf("want --engine local, spark or athena")
	}
	result.Seconds = time.Since(started).Seconds()
	if len(result.Tables) == 0 && err != nil {
		return err
	}
	if global.JSON {
		err = printPartJSON(env.stdout, result, err)
	} else {
		err = errors.Join(result.writeText(env.stdout), err)
	}
	if err == nil && slices.ContainsFunc(result.Tables, func(t *merge.Result) bool { return t.Regressed > 0 }) {
		return exitError(exitDifferent)
	}
	return err
}

// checkFlags refuses flags that the engine would pass over.
func (cmd *mergeCmd) checkFlags() error {
	given := []struct {
		flag   string
		is     bool
		engine string
	}{
		{"--submit", cmd.Submit != nil, engineSpark},
		{"--workgroup", cmd.Workgroup != "", engineAthena},
		{"--output", cmd.Output != "", engineAthena},
		{"--parts", cmd.Parts != 1, engineAthena},
	}
	for _, g := range given {
		if g.is && g.engine != cmd.Engine {
			return fmt.Errorf("%s is for --engine %s alone, and this is --engine %s: leave it out, or name that engine", g.flag, g.engine, cmd.Engine)
		}
	}
	switch {
	case cmd.Parts < 1:
		return fmt.Errorf("want --parts 1 or more, got %d", cmd.Parts)
	case cmd.Engine != engineSpark:
	case cmd.Lake != "" || cmd.Catalog != "" || cmd.URI != "" || len(cmd.Prop) > 0:
		return errors.New("--lake and --catalog are not for --engine spark, nor are --uri and --prop: Spark's own settings say where its tables are")
	case cmd.Submit == nil && cmd.Rebuild:
		return errors.New("--rebuild is not in a script that is printed: give it to the script (spark-submit merge.py --rebuild), or run the script with --submit")
	case cmd.Submit != nil && len(strings.Fields(*cmd.Submit)) == 0:
		return errors.New("want a command in --submit, such as spark-submit; without --submit the script is printed")
	}
	return nil
}

func (cmd *mergeCmd) options() merge.Options {
	return merge.Options{Rebuild: cmd.Rebuild, Parts: cmd.Parts}
}

// local merges in this process. What was merged before an error is in the result.
func (cmd *mergeCmd) local(ctx context.Context, env *environment, tables []*catalog.Table) (results []*merge.Result, err error) {
	if err := cmd.exists(); err != nil {
		return nil, err
	}
	store, err := cmd.OpenLake(ctx, iceberg.Options{Log: env.log})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return mergeAll(ctx, tables, func(t *catalog.Table) (*merge.Result, error) { return merge.Local(ctx, store, t, cmd.options()) })
}

// mergeAll merges one table after the other. That it was interrupted before some
// of them is an error.
func mergeAll(ctx context.Context, tables []*catalog.Table, one func(*catalog.Table) (*merge.Result, error)) ([]*merge.Result, error) {
	results, left, err := merge.Each(ctx, tables, one)
	if len(left) > 0 {
		err = errors.Join(err, fmt.Errorf("%d tables were not merged: %w", len(left), context.Cause(ctx)))
	}
	return results, err
}

func (cmd *mergeCmd) athena(ctx context.Context, env *environment, tables []*catalog.Table) (results []*merge.Result, err error) {
	if cmd.Catalog == "" {
		return nil, errors.New("want --catalog glue, the catalog of the tables that Athena sees")
	}
	l, done, err := cmd.open(ctx, env, false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, done()) }()
	client, err := athena.Open(ctx, cmd.Prop["glue.region"], cmd.Workgroup, cmd.Output)
	if err != nil {
		return nil, err
	}
	return mergeAll(ctx, tables, func(t *catalog.Table) (*merge.Result, error) { return merge.Athena(ctx, client, l, t, cmd.options()) })
}

// script returns the program for Spark.
func (cmd *mergeCmd) script(tables []*catalog.Table) (string, error) {
	specs := make([]*merge.SparkSpec, len(tables))
	for i, t := range tables {
		spec, err := merge.NewSparkSpec(t, cmd.Warehouse)
		if err != nil {
			return "", err
		}
		specs[i] = spec
	}
	return merge.SparkScript(specs)
}

// submit runs the script and reads its results, one for each of the tables.
func (cmd *mergeCmd) submit(ctx context.Context, env *environment, script string, tables []*catalog.Table) ([]*merge.Result, error) {
	dir, err := os.MkdirTemp("", "icehose-merge-")
	if err != nil {
		return nil, fmt.Errorf("write script: %w", err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // the system removes what stays
	path := filepath.Join(dir, "merge.py")
	if err := os.WriteFile(path, []byte(script), 0o600); err != nil {
		return nil, fmt.Errorf("write script: %w", err)
	}
	words := append(strings.Fields(*cmd.Submit), path)
	if cmd.Rebuild {
		words = append(words, "--rebuild")
	}
	process := exec.CommandContext(ctx, words[0], words[1:]...)
	process.Stderr = env.stderr
	out, err := process.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", words[0], err)
	}
	if err := process.Start(); err != nil {
		return nil, fmt.Errorf("run %s: %w", words[0], err)
	}
	missing := make(map[string]bool)
	for _, t := range tables {
		missing[t.Database()+"."+t.Name()] = true
	}
	results, failures := readResults(out, missing)
	back := slices.ContainsFunc(results, func(r *merge.Result) bool { return r.Regressed > 0 })
	var status *exec.ExitError
	// With 1 the script says what the results say: that positions have gone back.
	if err := process.Wait(); err != nil && (!back || !errors.As(err, &status) || status.ExitCode() != exitDifferent) {
		failures = append(failures, fmt.Errorf("run %s: %w", words[0], err))
	}
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		failures = append(failures, fmt.Errorf("merge %s: the script has printed no result: it ended before, or it runs where its output does not come here "+
			"(--deploy-mode cluster), and then the driver's log has the result", name))
	}
	return results, errors.Join(failures...)
}

// readResults reads the lines of JSON that the script prints among others, and
// takes the tables that they speak of out of missing.
func readResults(out io.Reader, missing map[string]bool) (results []*merge.Result, failures []error) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct {
			merge.Result
			Error string `json:"error"`
		}
		if json.Unmarshal(lines.Bytes(), &line) != nil || line.Table == "" {
			continue // Spark's own words
		}
		delete(missing, line.Table)
		if line.Error != "" {
			failures = append(failures, fmt.Errorf("merge %s: %s", line.Table, line.Error))
			continue
		}
		results = append(results, &line.Result)
	}
	if err := lines.Err(); err != nil {
		failures = append(failures, fmt.Errorf("read results: %w", err))
	}
	return results, failures
}

func (r *mergeResult) writeText(w io.Writer) error {
	var b strings.Builder
	width := len("table")
	for _, t := range r.Tables {
		width = max(width, len(t.Current))
	}
	out := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	line := func(format string, args ...any) {
		_, _ = fmt.Fprintf(out, format, args...) // what fails is told by Flush
	}
	line("%-*s\tread\tlate\tchanged\tdeleted\t\n", width, "table")
	for _, t := range r.Tables {
		line("%-*s\t%s\t%s\t%s\t%s\t\n", width, t.Current, thousands(t.Read), thousands(t.Late), thousands(t.Changed), thousands(t.Deleted))
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	for _, t := range r.Tables {
		if t.Regressed > 0 {
			fmt.Fprintf(&b, "\nposition_regressed: %s: %s %s\n", t.Current, thousands(t.Regressed), merge.Restarted)
		}
		for _, w := range t.Warnings {
			fmt.Fprintf(&b, "\nwarning: %s: %s\n", t.Current, w)
		}
	}
	fmt.Fprintf(&b, "\n%d tables merged by %s in %.1f s\n", len(r.Tables), r.Engine, r.Seconds)
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}
