package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	dms "github.com/aws/aws-sdk-go-v2/service/databasemigrationservice"
	"github.com/aws/aws-sdk-go-v2/service/firehose"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"

	"icehose/catalog"
	"icehose/catalog/status"
	"icehose/catalog/status/aws"
)

// statusCmd shows how a pipeline is.
type statusCmd struct {
	Name       string        `help:"Name of the deployed pipeline, as the stacks have it: from it follow the names of stream, delivery streams and DMS task." placeholder:"NAME"`
	Stream     string        `help:"Kinesis stream, if not NAME-changes." placeholder:"NAME"`
	Delivery   []string      `help:"Delivery streams, if not those of NAME." placeholder:"NAME"`
	Task       string        `help:"DMS task, if not NAME-task; none for none." placeholder:"NAME"`
	DBInstance string        `name:"db-instance" help:"DB instance of RDS or Aurora whose replication slots are watched." placeholder:"NAME"`
	Pipeline   string        `help:"The pipeline file; needed for tables of a lake. Tables that it has and the report has not are then told." placeholder:"FILE"`
	Report     string        `help:"The last report of icehose reconcile --json: a file, or s3://bucket/prefix, of which the newest .json counts." placeholder:"FILE"`
	Window     time.Duration `default:"1h" help:"Time that failures are counted over." placeholder:"DURATION"`
	Behind     time.Duration `default:"15m" help:"How far a part may be behind." placeholder:"DURATION"`
	SlotGB     int64         `name:"slot-gb" default:"20" help:"Log, in GB, that replication slots may keep." placeholder:"N"`
	VerdictAge time.Duration `default:"24h" help:"How old the last reconcile may be, and each verdict in it." placeholder:"DURATION"`
	Timeout    time.Duration `default:"1m" help:"Time for everything." placeholder:"DURATION"`
	lakeFlags
}

// Help implements kong.HelpProvider.
func (*statusCmd) Help() string {
	return `One screen: what the source keeps for its slots, the DMS task, the stream's slowest
reader, what fails by table and reason, how fresh the delivery streams are, the
tables' last commits and the last verdict on each; and the next step for whatever
is red. Reads the AWS APIs with --name (credentials and region are those of the
AWS SDK), a lake with --lake or --catalog, or both. Changes nothing.

A verdict counts as well when the whole table was compared and equal, not longer ago
than --verdict-age. One of some keys, of what changed lately or of a sample is not enough.

Exit status: 0 all is well, 1 something is red, 2 something could not be observed.

Examples:
  icehose status --name shop --db-instance shop-primary --report s3://shop-reconcile-1-eu/reports
  icehose status --lake lake --pipeline pipeline.yaml --report report.json
  icehose status --name shop --json`
}

// Run implements the command.
func (cmd *statusCmd) Run(ctx context.Context, env *environment, global *cli) error {
	local := cmd.Lake != "" || cmd.Catalog != ""
	switch {
	case cmd.Name == "" && !local && cmd.Report == "" && cmd.Stream == "" && len(cmd.Delivery) == 0:
		return errors.New("want something to look at: --name, --lake or --catalog, or --report")
	case local && cmd.Pipeline == "":
		return errors.New("--lake and --catalog: give --pipeline, which names the tables")
	case cmd.Window < time.Minute || cmd.Behind <= 0 || cmd.SlotGB <= 0 || cmd.VerdictAge <= 0 || cmd.Timeout <= 0:
		return errors.New("--window, --behind, --slot-gb, --verdict-age and --timeout: want more than nothing, and a window of a minute or more")
	}
	ctx, cancel := context.WithTimeout(ctx, cmd.Timeout)
	defer cancel()
	now := time.Now()
	clouds := &clouds{timeout: cmd.Timeout, getenv: env.getenv}
	seen := new(status.Observed)
	if names := cmd.names(); names.Stream != "" || len(names.Deliveries) > 0 || names.Source != "" {
		reader, err := cmd.reader(ctx, clouds)
		if err != nil {
			return err
		}
		seen = reader.Read(ctx, names, now, cmd.Window)
		if names.Optional && len(seen.Deliveries) == 0 && len(seen.Unread) == 0 {
			seen.Unread = append(seen.Unread, status.Unread{Part: "delivery", Name: cmd.Name, Err: errors.New("no delivery stream of this name")})
		}
	}
	if cmd.Pipeline != "" {
		p, err := catalog.Load(cmd.Pipeline)
		if err != nil {
			return err
		}
		for _, t := range p.Tables {
			seen.Sources = append(seen.Sources, t.Source)
		}
		if local {
			if err := cmd.observeLake(ctx, env, p, seen); err != nil {
				return err
			}
		}
	}
	if cmd.Report != "" {
		var err error
		if seen.Reconcile, err = readVerdicts(ctx, clouds, cmd.Report); err != nil {
			seen.Unread = append(seen.Unread, status.Unread{Part: "reconcile", Name: cmd.Report, Err: err})
		}
	}
	limits := status.Limits{Behind: cmd.Behind, Slot: cmd.SlotGB << 30, Verdict: cmd.VerdictAge, Window: cmd.Window}
	return printStatus(env.stdout, status.Judge(seen, now, limits), global.JSON)
}

// names are those of the parts to ask AWS for.
func (cmd *statusCmd) names() aws.Names {
	n := aws.Names{Stream: cmd.Stream, Deliveries: cmd.Delivery, Task: cmd.Task, Instance: cmd.Name, Source: cmd.DBInstance}
	if cmd.Name == "" {
		return n
	}
	if n.Stream == "" {
		n.Stream = cmd.Name + "-changes"
	}
	if len(n.Deliveries) == 0 {
		n.Optional = true
		for _, role := range []string{"mirror", "changelog", "history"} {
			n.Deliveries = append(n.Deliveries, cmd.Name+"-"+role)
		}
	}
	switch n.Task {
	case "":
		n.Task = cmd.Name + "-task"
	case "none":
		n.Task = ""
	}
	return n
}

func (cmd *statusCmd) reader(ctx context.Context, clouds *clouds) (*aws.Reader, error) {
	cfg, err := clouds.config(ctx)
	if err != nil {
		return nil, err
	}
	return &aws.Reader{
		CloudWatch: cloudwatch.NewFromConfig(cfg), DMS: dms.NewFromConfig(cfg), Kinesis: kinesis.NewFromConfig(cfg), Firehose: firehose.NewFromConfig(cfg),
	}, nil
}

func printStatus(w io.Writer, r status.Report, asJSON bool) error {
	var err error
	if asJSON {
		err = printJSON(w, r)
	} else {
		err = writeStatus(w, r)
	}
	if err != nil {
		return err
	}
	switch r.Light {
	case status.OK:
		return nil
	case status.Red:
		return exitError(exitDifferent)
	case status.Unknown:
		return exitError(exitTrouble)
	}
	return fmt.Errorf("print status: no light %q", r.Light)
}

// lights are how the lights look in text, without colours: it is read in mails.
func lightText(l status.Light) string {
	switch l {
	case status.OK:
		return "ok"
	case status.Red:
		return "RED"
	case status.Unknown:
		return "?"
	}
	return string(l)
}

const (
	screenWidth = 80
	// fewLines is how many names of a part that are well get a line each.
	fewLines = 5
)

// manyNames reports whether a part has one line for each of its names, rather
// than several for one.
func manyNames(part string) bool { return part == "sink" || part == "table" || part == "verdict" }

// writeStatus writes the parts in the order in which changes flow, each with its
// lines, and under whatever is not well what to do.
func writeStatus(w io.Writer, r status.Report) error {
	well := make(map[string]int) // by part
	for _, l := range r.Lines {
		if manyNames(l.Part) && l.Light == status.OK {
			well[l.Part]++
		}
	}
	var b strings.Builder
	heading := ""
	red, unknown := 0, 0
	for _, l := range r.Lines {
		label, here := l.What, l.Part+" "+l.Name
		if manyNames(l.Part) {
			label, here = l.Name, l.Part
		}
		if here != heading {
			heading = here
			wrap(&b, "", here)
			if well[l.Part] > fewLines {
				fmt.Fprintf(&b, "  %-3s  %d are well\n", lightText(status.OK), well[l.Part])
			}
		}
		switch l.Light {
		case status.OK:
			if manyNames(l.Part) && well[l.Part] > fewLines {
				continue
			}
		case status.Red:
			red++
		case status.Unknown:
			unknown++
		}
		wrap(&b, fmt.Sprintf("  %-3s  ", lightText(l.Light)), fmt.Sprintf("%s: %s", label, l.Value))
		if l.Next != "" {
			wrap(&b, "       -> ", l.Next)
		}
	}
	fmt.Fprintf(&b, "\n%d parts at %s: %d red, %d not observed\n", len(r.Lines), r.At.Format(time.RFC3339), red, unknown)
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	return nil
}

// wrap writes a text in lines that fit the screen, broken at spaces: the first
// begins with head, the others with as much space.
func wrap(b *strings.Builder, head, text string) {
	line := head
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
			line += word
		case len(line)+1+len(word) <= screenWidth:
			line += " " + word
		default:
			b.WriteString(line + "\n")
			line = strings.Repeat(" ", len(head)) + word
		}
	}
	b.WriteString(line + "\n")
}
