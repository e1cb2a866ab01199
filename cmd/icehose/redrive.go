package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"icehose/catalog"
	"icehose/transform"
	"icehose/transform/redrive"
)

// redriveCmd makes something of what Firehose could not deliver.
type redriveCmd struct {
	Sources  []string      `arg:"" name:"source" help:"Error objects: files, directories, or s3://bucket/prefix."`
	Pipeline string        `help:"The pipeline file. Without it failures are only grouped by error code." placeholder:"FILE"`
	Delivery deliveryFlags `embed:""`
	Rows     rowFlags      `embed:""`
	Mirrors  []string      `help:"Tables (schema.table of the source, or all) that some other delivery stream of the same Kinesis stream delivers as mirrors, whatever the pipeline file and --mode say. It would get what is sent." placeholder:"TABLE"`
	Keys     string        `help:"Write the keys of mirrors' rows to this file, for icehose reconcile --keys." placeholder:"FILE"`
	AsRows   string        `help:"Write rows of changelogs that Iceberg refused to this file, as icehose transform prints them." placeholder:"FILE"`
	Send     bool          `help:"Send originals of changelogs to the stream. Without it nothing is sent."`
	Stream   string        `help:"Name of the source Kinesis stream." placeholder:"NAME"`
	Rate     int           `default:"100" help:"Records sent in a second, at most." placeholder:"N"`
	Progress string        `help:"File that remembers what was sent; default: redrive-STREAM.progress." placeholder:"FILE"`
	Timeout  time.Duration `default:"1m" help:"Time that one call to AWS may take, and each wait for more of an object." placeholder:"DURATION"`
}

// Help implements kong.HelpProvider.
func (*redriveCmd) Help() string {
	return `Reads the error objects that Firehose leaves in S3 (error-output-type
processing-failed and iceberg-failed), groups them by reason, and says what can be
done about each: records of changelogs can be sent to the source stream again,
once the transform takes them; of a mirror nothing is sent, since a late record
would overwrite a newer row: its keys go to --keys. Rows that Iceberg refused are no
records of the source: they go to --as-rows or --keys.

Sending goes on where it was cut off (--progress). Every reader of the stream gets
the records once more: where another delivery stream reads it with a mode of its own
(ICEHOSE_MODE=mirror), name its tables with --mirrors, since nothing here tells.
--mode, --database, --suffix and --binary are those of the delivery stream whose failures
these are. Credentials and region are those of the AWS SDK.

A record that the stream rejects by itself (too large, say) is noted as such in the
progress file and left out, in this run and the next. One that it refuses 8 times is
set aside for the next run. An object that cannot be read to its end is named; the
plan, --keys and --as-rows then hold what could be read, and nothing is sent.

A row that Iceberg refused is placed by its columns and, where tables share them, by
the object: its fields, or its prefix tables/DATABASE.TABLE/ (S3ErrorOutputPrefix, as
icehose stack generate sets it). Objects with rows that may be of several tables are
named: put their files into such a folder.

Exit status: 0 nothing is left to do, 1 something is, rejected and refused records
among it, 2 it could not be done.

Examples:
  icehose redrive --pipeline pipeline.yaml s3://lake-errors/processing-failed/
  icehose redrive --pipeline pipeline.yaml --keys keys.ndjson --send --stream changes errors/`
}

// Run implements the command.
func (cmd *redriveCmd) Run(ctx context.Context, env *environment, global *cli) error {
	if err := cmd.check(); err != nil {
		return err
	}
	clouds := &clouds{timeout: cmd.Timeout, getenv: env.getenv}
	files, err := listSources(ctx, clouds, cmd.Sources)
	if err != nil {
		return err
	}
	var p *catalog.Pipeline
	var t *transform.Transformer
	var mirrors []string
	if cmd.Pipeline != "" {
		if p, err = catalog.Load(cmd.Pipeline); err != nil {
			return err
		}
		if t, err = transform.New(p, streamOptions(&cmd.Delivery, &cmd.Rows)); err != nil {
			return err
		}
		if mirrors, err = cmd.mirrors(p); err != nil {
			return err
		}
	}
	plan, err := cmd.plan(ctx, files, redrive.NewPlanner(p, t, mirrors...), newStage(env.stderr, "read", "failures", -1))
	if err != nil {
		return err
	}
	if cmd.Send && plan.failed == nil && plan.actions[redrive.Reconcile] > 0 && cmd.Keys == "" {
		return fmt.Errorf("redrive: %d failures are of mirrors, to which nothing may be sent late: give --keys FILE for their keys; nothing was sent",
			plan.actions[redrive.Reconcile])
	}
	if err := cmd.writeKeys(plan); err != nil {
		return err
	}
	if plan.failed != nil {
		cmd.Send = false
	}
	if cmd.Send {
		plan.failed = cmd.send(ctx, env, clouds, files, redrive.NewPlanner(p, t, mirrors...), plan)
	}
	return errors.Join(plan.print(env.stdout, cmd, global.JSON), plan.failed)
}

func (cmd *redriveCmd) check() error {
	switch {
	case cmd.Rate < 1:
		return errors.New("--rate: want 1 or more")
	case cmd.Send && cmd.Stream == "":
		return errors.New("--send: give the name of the source stream with --stream")
	case cmd.Send && cmd.Pipeline == "":
		return errors.New("--send: give --pipeline, which says what tables are mirrors and takes nothing late")
	case len(cmd.Mirrors) > 0 && cmd.Pipeline == "":
		return errors.New("--mirrors: give --pipeline, which describes the tables")
	case (cmd.Keys != "" || cmd.AsRows != "") && cmd.Pipeline == "":
		return errors.New("--keys and --as-rows: give --pipeline, which says what the keys are")
	case cmd.Progress == "":
		cmd.Progress = "redrive-" + cmd.Stream + ".progress"
	}
	return nil
}

// mirrors returns the tables of --mirrors.
func (cmd *redriveCmd) mirrors(p *catalog.Pipeline) ([]string, error) {
	var all []string
	for _, t := range p.Tables {
		all = append(all, t.Source)
	}
	if slices.Equal(cmd.Mirrors, []string{"all"}) {
		return all, nil
	}
	for _, name := range cmd.Mirrors {
		if !slices.Contains(all, name) {
			return nil, fmt.Errorf("--mirrors: the pipeline file has no table %s", name)
		}
	}
	return cmd.Mirrors, nil
}

// A redriveGroup is what failures have in common.
type redriveGroup struct {
	Kind     redrive.Kind     `json:"kind"`
	Code     string           `json:"error_code,omitempty"`
	Table    string           `json:"source_table,omitempty"`
	Action   redrive.Action   `json:"action"`
	Reason   transform.Reason `json:"reason,omitempty"` // what the transform says now
	Column   string           `json:"column,omitempty"`
	Failures int64            `json:"failures"`
	Bytes    int64            `json:"bytes"`
	First    string           `json:"first_arrived,omitempty"`
	Last     string           `json:"last_arrived,omitempty"`

	first, last int64
}

// A redrivePlan is what was found and, later, done.
type redrivePlan struct {
	groups  map[redriveGroup]*redriveGroup // by the part that is common
	actions map[redrive.Action]int64
	keys    map[string]redrive.Key
	rows    int64
	sent    int64
	skipped int64 // an earlier run had sent them
	// rejected counts records that the stream does not take, of earlier runs
	// too; rejects are where the first of them stand.
	rejected int64
	rejects  []string
	refused  map[string]int64 // records that the stream did not take this time, by its code
	unplaced []redriveUnplaced
	failed   error // what was not read, or not sent, to its end
}

// A redriveUnplaced is an object with rows that may be of several tables.
type redriveUnplaced struct {
	Object string   `json:"object"`
	Line   int      `json:"line"` // of the first
	Rows   int64    `json:"rows"`
	Tables []string `json:"tables"` // lake tables
}

// unplace notes a row that may be of several tables.
func (p *redrivePlan) unplace(object string, item *redrive.Item) {
	if len(item.Candidates) == 0 {
		return
	}
	if n := len(p.unplaced); n > 0 && p.unplaced[n-1].Object == object && slices.Equal(p.unplaced[n-1].Tables, item.Candidates) {
		p.unplaced[n-1].Rows++
		return
	}
	p.unplaced = append(p.unplaced, redriveUnplaced{Object: object, Line: item.Failure.Line, Rows: 1, Tables: item.Candidates})
}

// plan reads all failures once. Only keys and what was seen stay in memory.
func (cmd *redriveCmd) plan(ctx context.Context, files []source, planner *redrive.Planner, progress *stage) (*redrivePlan, error) {
	plan := &redrivePlan{groups: make(map[redriveGroup]*redriveGroup), actions: make(map[redrive.Action]int64), keys: make(map[string]redrive.Key)}
	rows, err := createRows(cmd.AsRows)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		err := readFailures(ctx, file, func(f redrive.Failure) error {
			item := planner.Decide(f)
			plan.add(&item)
			plan.unplace(file.name, &item)
			progress.add(1)
			if item.Action == redrive.WriteRow {
				return rows.write(item.Row)
			}
			return nil
		})
		if _, cut := errors.AsType[*sourceError](err); cut && ctx.Err() == nil {
			plan.failed = errors.Join(plan.failed, fmt.Errorf("%w: the plan has what could be read, and nothing was sent; fetch the object again, or name the others only", err))
			continue
		}
		if err != nil {
			return nil, errors.Join(err, rows.close())
		}
	}
	if err := rows.close(); err != nil {
		return nil, err
	}
	plan.rows = rows.count
	progress.done()
	return plan, nil
}

func (p *redrivePlan) add(item *redrive.Item) {
	f := item.Failure
	p.actions[item.Action]++
	id := redriveGroup{Kind: f.Kind, Code: f.Code, Table: item.Table, Action: item.Action, Reason: item.Reason, Column: item.Column}
	g := p.groups[id]
	if g == nil {
		g = &redriveGroup{Kind: f.Kind, Code: f.Code, Table: item.Table, Action: item.Action, Reason: item.Reason, Column: item.Column}
		p.groups[id] = g
	}
	g.Failures++
	g.Bytes += int64(len(f.Raw))
	if f.Arrived > 0 {
		if g.first == 0 || f.Arrived < g.first {
			g.first = f.Arrived
		}
		g.last = max(g.last, f.Arrived)
	}
	for _, k := range item.Keys {
		p.keys[k.String()] = k
	}
}

// send reads the failures again and sends what may be sent.
func (cmd *redriveCmd) send(ctx context.Context, env *environment, c *clouds, files []source, planner *redrive.Planner, plan *redrivePlan) error {
	stream, err := c.stream(ctx, cmd.Stream)
	if err != nil {
		return err
	}
	journal, err := redrive.OpenFile(cmd.Progress, cmd.Stream)
	if err != nil {
		return err
	}
	sender, err := redrive.NewSender(stream, journal, cmd.Rate, pause)
	if err != nil {
		return errors.Join(err, journal.Close())
	}
	progress := newStage(env.stderr, "send", "records", plan.actions[redrive.Send])
	told := int64(0)
	tell := func() {
		done := sender.Sent + sender.Skipped + sender.Rejected
		progress.add(done - told)
		told = done
	}
	for _, file := range files {
		if err != nil {
			break
		}
		err = readFailures(ctx, file, func(f redrive.Failure) error {
			item := planner.Decide(f)
			if item.Action != redrive.Send {
				return nil
			}
			item.Entry.Where = fmt.Sprintf("%s line %d", file.name, f.Line)
			defer tell()
			return sender.Send(ctx, item.Entry)
		})
	}
	if err == nil {
		err = sender.Flush(ctx)
	}
	tell()
	progress.done()
	plan.sent, plan.skipped, plan.rejected, plan.rejects, plan.refused = sender.Sent, sender.Skipped, sender.Rejected, sender.Examples, sender.Refused
	return errors.Join(err, journal.Close())
}

// pause waits, or ends with its context.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// writeKeys writes the keys of mirrors' rows, one a line, in the order of
// table and key.
func (cmd *redriveCmd) writeKeys(plan *redrivePlan) error {
	if cmd.Keys == "" {
		return nil
	}
	whole := make(map[string]bool)
	for _, k := range plan.keys {
		whole[k.Table] = whole[k.Table] || k.All
	}
	var text []byte
	names := make([]string, 0, len(plan.keys))
	for name := range plan.keys {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		k := plan.keys[name]
		if whole[k.Table] && !k.All {
			continue // the whole table has it
		}
		line, err := json.Marshal(k)
		if err != nil {
			return fmt.Errorf("write keys: %w", err)
		}
		text = append(append(text, line...), '\n')
	}
	if err := os.WriteFile(cmd.Keys, text, 0o600); err != nil {
		return fmt.Errorf("write keys: %w", err)
	}
	return nil
}

// left is how many failures still want something done.
func (p *redrivePlan) left() int64 {
	return p.actions[redrive.Repair] + p.actions[redrive.Unclear] + p.actions[redrive.Reconcile] + p.actions[redrive.WriteRow] +
		p.actions[redrive.Send] - p.sent - p.skipped
}

func (p *redrivePlan) print(w io.Writer, cmd *redriveCmd, asJSON bool) error {
	groups := make([]redriveGroup, 0, len(p.groups))
	for _, g := range p.groups {
		g.First, g.Last = millisText(g.first), millisText(g.last)
		groups = append(groups, *g)
	}
	slices.SortFunc(groups, func(a, b redriveGroup) int {
		return strings.Compare(fmt.Sprint(a.Action, a.Kind, a.Code, a.Table, a.Reason, a.Column), fmt.Sprint(b.Action, b.Kind, b.Code, b.Table, b.Reason, b.Column))
	})
	var err error
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		err = enc.Encode(map[string]any{
			"groups": groups, "keys": len(p.keys), "rows_written": p.rows, "sent": p.sent, "sent_before": p.skipped, "rejected": p.rejected,
			"rejected_at": append([]string{}, p.rejects...), "refused": p.refused, "unplaced": append([]redriveUnplaced{}, p.unplaced...),
			"dry_run": !cmd.Send, "left": p.left(), "complete": p.failed == nil,
		})
	} else {
		err = p.printText(w, cmd, groups)
	}
	if err != nil {
		return fmt.Errorf("print result: %w", err)
	}
	if p.left() > 0 && p.failed == nil {
		return exitError(exitDifferent)
	}
	return nil
}

func millisText(ms int64) string {
	if ms == 0 {
		return ""
	}
	return time.UnixMilli(ms).UTC().Format(time.RFC3339)
}
