package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"icehose/catalog"
	"icehose/cdc/capture"
	"icehose/transform"
	"icehose/transform/firehose"
)

// transformCmd is the transform on files: what the Lambda does, to look at.
type transformCmd struct {
	Files    []string       `arg:"" optional:"" name:"file" help:"Captured records, plain, .gz or .zst; - or none is standard input."`
	Pipeline string         `required:"" help:"The pipeline file." placeholder:"FILE"`
	Format   capture.Format `default:"auto" enum:"auto,dms,kinesis,get-records,firehose" help:"What the records were captured as: ${enum}."`
	Delivery deliveryFlags  `embed:""`
	Rows     rowFlags       `embed:""`
	Batch    int            `default:"1" help:"Records transformed together. In a batch an older change of a mirror's key gives way to a newer one, and the answers have to fit in Lambda's 6 MB; the records of one Firehose event are always one batch." placeholder:"N"`
	All      bool           `help:"Print a line for every record, with its outcome, instead of rows only."`
	Explain  bool           `help:"Explain one record: chosen by --record or --id, else the first one."`
	Record   int            `help:"The record to explain, counted from 1." placeholder:"N"`
	ID       string         `name:"id" help:"The record to explain, by record id or sequence number." placeholder:"ID"`
	NoValues bool           `help:"Explain without values of the record."`
}

// deliveryFlags say what the delivery stream does that is not in the pipeline
// file: the settings of its Lambda.
type deliveryFlags struct {
	Only     catalog.Mode `default:"" enum:",mirror,changelog" help:"Deliver only the tables that the pipeline file has in this mode, as ICEHOSE_ONLY does." placeholder:"MODE"`
	Mode     catalog.Mode `default:"" enum:",mirror,changelog" help:"Deliver every table as mirror or changelog, as a delivery stream with ICEHOSE_MODE does." placeholder:"MODE"`
	Database string       `help:"Deliver every table to this database, as ICEHOSE_DATABASE does." placeholder:"NAME"`
	Suffix   string       `help:"Append this to the name of every table, as ICEHOSE_SUFFIX does." placeholder:"TEXT"`
}

func (d *deliveryFlags) options() transform.Options {
	return transform.Options{Only: d.Only, Mode: d.Mode, Database: d.Database, Suffix: d.Suffix}
}

// rowFlags say how the delivery stream's rows are written.
type rowFlags struct {
	Binary transform.BinaryForm `default:"hex" enum:"hex,base64" help:"How bytes stand in rows: hex or base64, as ICEHOSE_BINARY says. The sink takes hex." placeholder:"FORM"`
}

// streamOptions are those of a delivery stream.
func streamOptions(d *deliveryFlags, r *rowFlags) transform.Options {
	o := d.options()
	o.Binary = r.Binary
	return o
}

// load reads the pipeline file as the delivery stream delivers it.
func (d *deliveryFlags) load(file string) (*catalog.Pipeline, error) {
	p, err := catalog.Load(file)
	if err != nil {
		return nil, err
	}
	return p.For(catalog.Delivery{Only: d.Only, Mode: d.Mode, Database: d.Database, Suffix: d.Suffix})
}

// Help implements kong.HelpProvider.
func (*transformCmd) Help() string {
	return `Reads DMS records (one after another, on one line each or pretty-printed),
records of a Kinesis stream (icehose capture; aws kinesis get-records), or events
of a Firehose Lambda, and transforms them with the Lambda's code. Rows go to standard
output, one a line; records that fail to standard error as JSON without values; a
summary follows. --json makes the summary JSON too. An event that the Lambda
cannot answer counts as one failed record. A file that is cut off ends the run:
what came before is good.

Exit status: 0 every record was delivered or dropped, 1 some failed, 2 it could
not be done, or not to the end, or there were events that the Lambda cannot answer.

Examples:
  icehose transform --pipeline pipeline.yaml events.ndjson.zst | head
  icehose transform --pipeline pipeline.yaml --explain --record 17 events.ndjson.zst
  aws kinesis get-records --shard-iterator ... | icehose transform --pipeline pipeline.yaml --all`
}

// Run implements the command.
func (cmd *transformCmd) Run(ctx context.Context, env *environment, global *cli) error {
	t, err := cmd.load()
	if err != nil {
		return err
	}
	if cmd.Explain || cmd.Record != 0 || cmd.ID != "" {
		return cmd.explain(ctx, env, global, t)
	}
	if cmd.Batch < 1 {
		return errors.New("--batch: want 1 or more")
	}
	run := &transformRun{
		transformer: t, all: cmd.All, out: bufio.NewWriterSize(env.stdout, 1<<16), errs: env.stderr, counts: make(map[transformEnd]int64),
	}
	for _, name := range inputsOf(cmd.Files) {
		if err = cmd.file(ctx, env, name, run); err != nil {
			break
		}
	}
	err = errors.Join(err, run.out.Flush())
	if err == nil || endsEarly(err) {
		err = errors.Join(err, run.summary(env.stderr, global.JSON), run.unanswered)
	}
	if err == nil && run.failed > 0 {
		return exitError(exitDifferent)
	}
	return err
}

// file transforms one file. No batch goes beyond it.
func (cmd *transformCmd) file(ctx context.Context, env *environment, name string, run *transformRun) error {
	events, unread := false, 0
	var first error
	err := readObjects(ctx, env, name, cmd.Format, func(o capture.Object) error {
		event, err := openEvent(o)
		events = events || o.Format == capture.Firehose
		switch {
		case err != nil:
			unread++
			first = cmp.Or(first, err)
			o.Broken = o.Broken || o.Format == capture.Firehose
		case event != nil:
			return errors.Join(run.flush(), run.event(event))
		}
		for _, r := range o.Records() {
			if run.batch = append(run.batch, transformRecord(r)); len(run.batch) == cmd.Batch {
				if err := run.flush(); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if events && unread > 0 {
		run.unanswered = errors.Join(run.unanswered, fmt.Errorf("%s: %d events that the Lambda cannot answer, the first at %w", name, unread, first))
	}
	return errors.Join(err, run.flush())
}

// openEvent takes a Firehose event apart as the Lambda does; nil when the
// object is none. An error says that the Lambda cannot answer it, if what is
// damaged is an event: the file's other objects tell.
func openEvent(o capture.Object) (*firehose.Event, error) {
	if !o.Broken && o.Format != capture.Firehose && o.Format != capture.Auto {
		return nil, nil //nolint:nilnil // most objects are no events
	}
	event, err := firehose.Open(o.Text)
	if err != nil {
		return nil, fmt.Errorf("line %d: %w", o.Line, err)
	}
	return event, nil
}

func (cmd *transformCmd) load() (*transform.Transformer, error) {
	p, err := catalog.Load(cmd.Pipeline)
	if err != nil {
		return nil, err
	}
	return transform.New(p, streamOptions(&cmd.Delivery, &cmd.Rows))
}

// inputsOf returns the files, or standard input when there are none.
func inputsOf(files []string) []string {
	if len(files) == 0 {
		return []string{"-"}
	}
	return files
}

// endsEarly reports whether a file could not be read to its end, because it was
// cut off or is damaged: what was read of it is good.
func endsEarly(err error) bool {
	_, ok := errors.AsType[*capture.ReadError](err)
	return ok
}

// readObjects hands every object of one file to each. Errors name the file.
func readObjects(ctx context.Context, env *environment, name string, f capture.Format, each func(capture.Object) error) error {
	if err := readFile(ctx, env, name, f, each); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// openInput opens a file, or standard input for "-", until ctx is done.
func openInput(ctx context.Context, env *environment, name string) (io.ReadCloser, error) {
	if name == "-" {
		return interruptible(ctx, env.stdin), nil
	}
	return os.Open(name)
}

func readFile(ctx context.Context, env *environment, name string, f capture.Format, each func(capture.Object) error) error {
	in, err := openInput(ctx, env, name)
	if err != nil {
		return fmt.Errorf("read records: %w", err)
	}
	defer in.Close() //nolint:errcheck // opened for reading
	content, err := capture.Decompress(in)
	if err != nil {
		return errors.Join(ctx.Err(), err)
	}
	defer content.Close() //nolint:errcheck // what was read is checked as it is read
	for o, err := range capture.Objects(content, f) {
		if err := ctx.Err(); err != nil { // before an error that comes of it
			return err
		}
		if err != nil {
			return err
		}
		if err := each(o); err != nil {
			return err
		}
	}
	return nil
}

// transformRecord is a captured record as a delivery stream hands it over.
func transformRecord(r capture.Record) transform.Record {
	out := transform.Record{ID: r.ID, Data: r.Data, Origin: r.Origin}
	switch r.Fault {
	case capture.None:
	case capture.BadJSON:
		out.Unread = transform.InvalidJSON
	case capture.BadBase64:
		out.Unread = transform.InvalidBase64
	}
	return out
}

// A transformEnd is what records have in common in the summary.
type transformEnd struct {
	table   string
	outcome transform.Outcome
	reason  transform.Reason
}

// A transformRun is the state of one run.
type transformRun struct {
	transformer *transform.Transformer
	all         bool
	out         *bufio.Writer
	errs        io.Writer
	batch       []transform.Record
	records     int64 // before the batch
	failed      int64
	counts      map[transformEnd]int64
	unanswered  error // events that the Lambda cannot answer
	line        []byte
}

// A transformLine is a result that is not a row, and with --all the head of one that is.
type transformLine struct {
	Record  int64             `json:"record"`
	ID      string            `json:"id"`
	Outcome transform.Outcome `json:"outcome"`
	Reason  transform.Reason  `json:"reason,omitempty"`
	Table   string            `json:"source_table,omitempty"`
	Column  string            `json:"column,omitempty"`
	OldKey  bool              `json:"old_key_left,omitempty"`
	Drift   *driftLine        `json:"drift,omitempty"`
}

// A driftLine is a transform.Drift as it is printed.
type driftLine struct {
	Statement string   `json:"statement"`
	Defined   bool     `json:"defined"`
	Unknown   []string `json:"unknown_columns,omitempty"`
	Missing   []string `json:"missing_columns,omitempty"`
}

func lineOfDrift(d *transform.Drift) *driftLine {
	if d == nil {
		return nil
	}
	return &driftLine{Statement: d.Statement, Defined: d.Defined, Unknown: d.Unknown, Missing: d.Missing}
}

// flush transforms and prints the batch.
func (r *transformRun) flush() error {
	if len(r.batch) == 0 {
		return nil
	}
	event, err := firehose.EventOf(r.batch)
	if err != nil {
		return fmt.Errorf("batch of %d records: %w", len(r.batch), err)
	}
	err = r.event(event)
	r.batch = r.batch[:0]
	return err
}

// event transforms and prints an event.
func (r *transformRun) event(event *firehose.Event) error {
	results := event.Results(r.transformer)
	for i := range results {
		r.records++
		result := &results[i]
		if result.Outcome == transform.ProcessingFailed {
			r.failed++
		}
		r.counts[transformEnd{result.Table, result.Outcome, result.Reason}]++
		if err := r.print(result); err != nil {
			return fmt.Errorf("print results: %w", err)
		}
	}
	return nil
}

func (r *transformRun) print(result *transform.Result) error {
	delivered := result.Outcome == transform.Ok
	r.line = r.line[:0]
	if !delivered || r.all {
		head, err := json.Marshal(transformLine{
			Record: r.records, ID: result.ID, Outcome: result.Outcome, Reason: result.Reason, Table: result.Table, Column: result.Column,
			OldKey: result.OldKeyLeft, Drift: lineOfDrift(result.Drift),
		})
		if err != nil {
			return err
		}
		r.line = append(r.line, head[:len(head)-1]...)
		r.line = append(r.line, ',')
	} else {
		r.line = append(r.line, '{')
	}
	if delivered {
		r.line = append(r.line, `"database":`...)
		r.line = strconv.AppendQuote(r.line, result.Row.Table.Database())
		r.line = append(r.line, `,"table":`...)
		r.line = strconv.AppendQuote(r.line, result.Row.Table.Name())
		r.line = append(r.line, `,"operation":"`...)
		r.line = append(append(r.line, result.Row.Operation.String()...), `","row":`...)
		r.line = append(append(r.line, result.Row.Data...), '}', '\n')
	} else {
		r.line = append(r.line[:len(r.line)-1], '}', '\n')
	}
	switch {
	case delivered || r.all:
		_, err := r.out.Write(r.line)
		return err
	case result.Outcome == transform.ProcessingFailed:
		_, err := r.errs.Write(r.line)
		return err
	}
	return nil
}

// A transformCount is a line of the summary.
type transformCount struct {
	Records int64             `json:"records"`
	Outcome transform.Outcome `json:"outcome"`
	Reason  transform.Reason  `json:"reason,omitempty"`
	Table   string            `json:"source_table,omitempty"`
}

// summary prints how many records had which end.
func (r *transformRun) summary(w io.Writer, asJSON bool) error {
	var lines []transformCount
	totals := make(map[transform.Outcome]int64)
	for end, n := range r.counts {
		lines = append(lines, transformCount{n, end.outcome, end.reason, end.table})
		totals[end.outcome] += n
	}
	slices.SortFunc(lines, func(a, b transformCount) int {
		return cmp.Or(strings.Compare(a.Table, b.Table), cmp.Compare(a.Outcome, b.Outcome), cmp.Compare(a.Reason, b.Reason))
	})
	var text []byte
	if asJSON {
		var err error
		text, err = json.Marshal(map[string]any{
			"records": r.records, "delivered": totals[transform.Ok], "dropped": totals[transform.Dropped],
			"failed": r.failed, "counts": append([]transformCount{}, lines...),
		})
		if err != nil {
			return fmt.Errorf("print summary: %w", err)
		}
		text = append(text, '\n')
	} else {
		for _, l := range lines {
			text = fmt.Appendf(text, "%12s  %-16s  %-18s  %s\n", thousands(l.Records), l.Outcome, cmp.Or(string(l.Reason), "-"), cmp.Or(l.Table, "-"))
		}
		text = fmt.Appendf(text, "%s records: %s delivered, %s dropped, %s failed\n", thousands(r.records), thousands(totals[transform.Ok]),
			thousands(totals[transform.Dropped]), thousands(r.failed))
	}
	if _, err := w.Write(text); err != nil {
		return fmt.Errorf("print summary: %w", err)
	}
	return nil
}
