package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"

	"icehose/cdc/kinesis"
	"icehose/internal/dmssim"
)

// captureCmd writes what AWS DMS would write for a live PostgreSQL.
type captureCmd struct {
	DSN         string        `name:"dsn" help:"Connection string of the source. Better given as ICEHOSE_DSN: a command line is visible to others." placeholder:"URL"`
	Tables      []string      `default:"public.%" help:"Tables to capture, as schema.table with % and _ as wildcards." placeholder:"PATTERN"`
	Out         string        `required:"" help:"File to write, one record a line: compressed if it ends in .zst or .gz; - is standard output." placeholder:"FILE"`
	Overwrite   bool          `help:"Replace the file if it is there."`
	Shards      int           `default:"4" help:"Shards of the stream."`
	Seed        uint64        `default:"1" help:"Seed of the order in which tables load."`
	UntilIdle   time.Duration `help:"Stop when no change has come for this long." placeholder:"DURATION"`
	UntilLSN    string        `name:"until-lsn" help:"Stop when every change below this log sequence number is written." placeholder:"X/X"`
	Duration    time.Duration `help:"Stop after this long." placeholder:"DURATION"`
	Slot        string        `default:"icehose_capture" help:"Name of the replication slot to make."`
	Publication string        `default:"icehose_capture" help:"Name of the publication to make; a second one, for tables whose inserts alone can be captured, ends in _keyless."`
	KeepSlot    bool          `help:"Leave the slot and the publications when done. A slot that nobody reads keeps the server's log until the disk is full."`
	Replace     bool          `help:"First drop a slot and publications of these names, which a capture that was killed has left."`
	Profile     string        `default:"recommended" enum:"recommended,dms" help:"Settings to start from: recommended has what the pipeline needs, dms what an endpoint has if nobody sets anything."`

	Endpoint endpointFlags `embed:"" group:"Endpoint and task settings, as AWS DMS names them:"`
}

// endpointFlags are dmssim.Settings. A flag that is not given leaves what the
// profile says.
type endpointFlags struct {
	MessageFormat                 string            `help:"json or json-unformatted." placeholder:"FORMAT"`
	IncludeTransactionDetails     *bool             `negatable:"" help:"Transaction record numbers, commit time and stream position."`
	IncludePartitionValue         *bool             `negatable:"" help:"The partition key in metadata."`
	PartitionIncludeSchemaTable   *bool             `negatable:"" help:"Schema and table in primary key partition keys."`
	IncludeTableAlterOperations   *bool             `negatable:"" help:"Control records for altered tables."`
	IncludeControlDetails         *bool             `negatable:"" help:"Table definitions in control records."`
	IncludeNullAndEmpty           *bool             `negatable:"" help:"Columns that are null or empty."`
	NoHexPrefix                   *bool             `help:"No 0x before binary values."`
	UseLargeIntegerValue          *bool             `negatable:"" help:"Integers of up to 18 digits without exponent."`
	MapBooleanAsBoolean           *bool             `negatable:"" help:"Booleans as booleans, not as text."`
	MapJSONBAsCLOB                *bool             `name:"map-jsonb-as-clob" negatable:"" help:"The type CLOB for jsonb in control records."`
	MapLongVarcharAs              string            `help:"The type for text in control records: wstring, clob or nclob." placeholder:"TYPE"`
	MapUnboundedNumericAsString   *bool             `negatable:"" help:"Numerics without precision as text, whole."`
	TrimSpaceInChar               *bool             `negatable:"" help:"No trailing blanks in char(n)."`
	LimitedLOBMode                *bool             `name:"limited-lob-mode" negatable:"" help:"Cut long values at the LOB size."`
	LOBMaxSizeKB                  *int              `name:"lob-max-size" help:"The LOB size in kilobytes." placeholder:"KB"`
	BeforeImage                   *bool             `negatable:"" help:"The old row of an update, as far as the source sends it."`
	BeforeImageFieldName          string            `help:"Its name in the record." placeholder:"NAME"`
	BeforeImageColumnFilter       string            `help:"Its columns: pk-only, non-lob or all." placeholder:"FILTER"`
	BeforeImageColumnPrefix       string            `help:"Old values as columns of data with this prefix, such as BI_, instead." placeholder:"PREFIX"`
	ParallelApplyThreads          *int              `help:"Above 0, changes are partitioned by primary key." placeholder:"N"`
	TargetTablePrepMode           string            `help:"DROP_AND_CREATE, TRUNCATE_BEFORE_LOAD or DO_NOTHING." placeholder:"MODE"`
	StatusTableEnabled            *bool             `negatable:"" help:"Rows of awsdms_status."`
	HistoryTableEnabled           *bool             `negatable:"" help:"Rows of awsdms_history."`
	FullLoadExceptionTableEnabled *bool             `negatable:"" help:"Control records of awsdms_full_load_exceptions."`
	MaxFullLoadSubTasks           *int              `help:"Tables that load side by side." placeholder:"N"`
	PartitionKey                  map[string]string `help:"Partition key of a table: primary-key, schema-table, transaction-id, constant:NAME or attribute-name:COLUMN." placeholder:"TABLE=TYPE"`

	LoadOverlapsChanges *bool    `negatable:"" group:"Behaviours of real tasks:" help:"Read each table when its load begins, while changes are written."`
	RestartLoadOf       []string `group:"Behaviours of real tasks:" help:"Tables whose load is given up and starts again." placeholder:"TABLE"`
	RestartAfterRows    *int     `group:"Behaviours of real tasks:" help:"Rows after which it is given up." placeholder:"N"`
	UnchangedTOAST      string   `name:"unchanged-toast" group:"Behaviours of real tasks:" help:"How an update shows a long value that did not change: absent or null." placeholder:"FORM"`
	LSNReading          string   `name:"lsn-reading" group:"Behaviours of real tasks:" help:"Which number of a stream position is the commit's: commit-second or commit-first." placeholder:"ORDER"`
}

// Help implements kong.HelpProvider.
func (*captureCmd) Help() string {
	return `Stands in for AWS DMS and a Kinesis stream: loads the tables and then follows
their changes through a replication slot (wal_level must be logical), and writes
records that the rest of the pipeline takes for DMS's. Stops at the first limit
reached, when interrupted (SIGINT, SIGTERM, SIGHUP), or when the output cannot be
written, as where nobody reads the pipe any more; the slot and the publications
are dropped then. A second SIGINT or SIGTERM ends it at once and leaves them.

A publication of updates and deletes makes PostgreSQL refuse them, to whoever
writes the table, where its log cannot name their rows. Of such tables (a primary
key that is DEFERRABLE, REPLICA IDENTITY NOTHING, an identity whose index is gone)
and of tables without a primary key the inserts alone are captured, and a warning
names each with what to do; another names those whose deletes lack the key. Keep
the keys of the tables while it runs: to one that loses its own PostgreSQL refuses
updates and deletes. Partitions are tables of their own. A table or a partition
that is made while it runs is not captured.

Exit status: 0 stopped with every table loaded, 2 otherwise.

Examples:
  icehose capture --out events.ndjson.zst --until-idle 10s
  icehose capture --tables 'sales.%' --out - --profile dms | head`
}

// Run implements the command.
func (cmd *captureCmd) Run(ctx context.Context, env *environment, global *cli) error {
	options, limit, err := cmd.options(env)
	if err != nil {
		return fmt.Errorf("capture: %w", err)
	}
	if err := cmd.refuseExisting(); err != nil {
		return fmt.Errorf("capture: %w", err)
	}
	counts, err := cmd.run(ctx, env, options, limit)
	if err != nil {
		return fmt.Errorf("capture: %w", err)
	}
	summary := env.stdout
	if cmd.Out == "-" {
		summary = env.stderr
	}
	if err := printCounts(summary, counts, global.JSON); err != nil {
		return fmt.Errorf("capture: print summary: %w", err)
	}
	return nil
}

// run runs the task until the limit. An interrupt ends it as a limit does. The
// file is made only when there is something to write.
func (cmd *captureCmd) run(ctx context.Context, env *environment, options dmssim.Options, limit dmssim.Limit) (counts dmssim.Counts, err error) {
	var out io.WriteCloser
	var writer *kinesis.Writer
	records, shown := int64(0), int64(0)
	options.Emit = func(r kinesis.Record) error {
		if writer == nil {
			file, err := cmd.create(env)
			if err != nil {
				return err
			}
			out, writer = file, kinesis.NewWriter(file)
		}
		records++
		return writer.Write(r)
	}
	task, err := dmssim.Open(ctx, options)
	if err != nil {
		const duplicateObject = "42710"
		if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == duplicateObject {
			err = fmt.Errorf("%w: --replace drops what a capture that was killed has left", err)
		}
		return nil, err
	}
	// A server that does not answer must not keep the program from ending.
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, task.Close(closing))
	}()
	warnShortfalls(ctx, env, task.Shortfalls())
	progress := newStage(env.stderr, "capture", "records", -1)
	running, halt := context.WithCancel(ctx)
	defer halt()
	var flushed error
	err = task.Run(running, limit, func() {
		progress.add(records - shown)
		shown = records
		if writer != nil && flushed == nil {
			if flushed = writer.Flush(); flushed != nil { // whoever follows the file sees it now
				halt() // another change may never come
			}
		}
	})
	if running.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil
	}
	if writer != nil {
		if flushed == nil {
			flushed = writer.Flush()
		}
		err = errors.Join(err, flushed, out.Close())
	}
	progress.add(records - shown)
	progress.done()
	if err == nil && !task.Loaded() {
		err = errors.New("stopped before every table was loaded: the records do not have all rows")
	}
	return task.Counts(), err
}

// warnShortfalls says which tables the capture is not complete for.
func warnShortfalls(ctx context.Context, env *environment, tables []dmssim.Shortfall) {
	for _, s := range tables {
		if s.InsertsOnly {
			env.log.WarnContext(ctx, "updates and deletes are not captured", slog.String("table", s.Table), slog.String("why", s.Why), slog.String("fix", s.Fix))
			continue
		}
		env.log.WarnContext(ctx, "deletes are captured without their key", slog.String("table", s.Table), slog.String("why", s.Why), slog.String("fix", s.Fix))
	}
}

// refuseExisting keeps an earlier capture: its slot is gone, so nobody could
// make it again.
func (cmd *captureCmd) refuseExisting() error {
	if cmd.Out == "-" || cmd.Overwrite {
		return nil
	}
	if info, err := os.Stat(cmd.Out); err == nil && info.Mode().IsRegular() {
		return fmt.Errorf("%s is there already: choose another --out or give --overwrite", cmd.Out)
	}
	return nil
}

// options reads what the command line and the environment say.
func (cmd *captureCmd) options(env *environment) (dmssim.Options, dmssim.Limit, error) {
	dsn := cmd.DSN
	if dsn == "" {
		dsn = env.getenv("ICEHOSE_DSN")
	}
	limit := dmssim.Limit{Idle: cmd.UntilIdle, Duration: cmd.Duration}
	if dsn == "" {
		return dmssim.Options{}, limit, errors.New("no source: give ICEHOSE_DSN or --dsn")
	}
	if isMySQL(dsn) {
		return dmssim.Options{}, limit, errors.New("the source is a MySQL or MariaDB, and a capture reads PostgreSQL only: icehose load reads its tables, and AWS DMS their changes")
	}
	if cmd.UntilLSN != "" {
		lsn, err := pglogrepl.ParseLSN(cmd.UntilLSN)
		if err != nil {
			return dmssim.Options{}, limit, errors.New("--until-lsn is not a log sequence number such as 0/16B3748")
		}
		limit.LSN = lsn
	}
	settings, recommended := dmssim.Defaults(), cmd.Profile == "recommended"
	if recommended {
		settings = dmssim.Recommended()
	}
	if err := cmd.Endpoint.apply(&settings); err != nil {
		return dmssim.Options{}, limit, err
	}
	options := dmssim.Options{
		DSN: dsn, Tables: cmd.Tables, Slot: cmd.Slot, Publication: cmd.Publication, KeepSlot: cmd.KeepSlot, Replace: cmd.Replace,
		Shards: cmd.Shards, Seed: cmd.Seed, Settings: settings, MapEveryTable: recommended, Clock: laterClock(),
	}
	return options, limit, nil
}

// apply changes the settings that flags were given for.
func (f *endpointFlags) apply(s *dmssim.Settings) error {
	override(&s.IncludeTransactionDetails, f.IncludeTransactionDetails)
	override(&s.IncludePartitionValue, f.IncludePartitionValue)
	override(&s.PartitionIncludeSchemaTable, f.PartitionIncludeSchemaTable)
	override(&s.IncludeTableAlterOperations, f.IncludeTableAlterOperations)
	override(&s.IncludeControlDetails, f.IncludeControlDetails)
	override(&s.IncludeNullAndEmpty, f.IncludeNullAndEmpty)
	override(&s.NoHexPrefix, f.NoHexPrefix)
	override(&s.UseLargeIntegerValue, f.UseLargeIntegerValue)
	override(&s.MapBooleanAsBoolean, f.MapBooleanAsBoolean)
	override(&s.MapJSONBAsCLOB, f.MapJSONBAsCLOB)
	override(&s.MapUnboundedNumericAsString, f.MapUnboundedNumericAsString)
	override(&s.TrimSpaceInChar, f.TrimSpaceInChar)
	override(&s.LimitedLOBMode, f.LimitedLOBMode)
	override(&s.LOBMaxSizeKB, f.LOBMaxSizeKB)
	override(&s.EnableBeforeImage, f.BeforeImage)
	override(&s.ParallelApplyThreads, f.ParallelApplyThreads)
	override(&s.StatusTableEnabled, f.StatusTableEnabled)
	override(&s.HistoryTableEnabled, f.HistoryTableEnabled)
	override(&s.FullLoadExceptionTableEnabled, f.FullLoadExceptionTableEnabled)
	override(&s.MaxFullLoadSubTasks, f.MaxFullLoadSubTasks)
	override(&s.LoadOverlapsChanges, f.LoadOverlapsChanges)
	override(&s.RestartAfterRows, f.RestartAfterRows)
	s.MessageFormat = dmssim.MessageFormat(cmp.Or(f.MessageFormat, string(s.MessageFormat)))
	s.MapLongVarcharAs = cmp.Or(f.MapLongVarcharAs, s.MapLongVarcharAs)
	s.BeforeImageFieldName = cmp.Or(f.BeforeImageFieldName, s.BeforeImageFieldName)
	s.BeforeImageColumnFilter = cmp.Or(f.BeforeImageColumnFilter, s.BeforeImageColumnFilter)
	s.TargetTablePrepMode = cmp.Or(f.TargetTablePrepMode, s.TargetTablePrepMode)
	s.UnchangedTOAST = dmssim.UnchangedTOAST(cmp.Or(f.UnchangedTOAST, string(s.UnchangedTOAST)))
	s.LSNReading = dmssim.LSNReading(cmp.Or(f.LSNReading, string(s.LSNReading)))
	s.RestartLoadOf = append(s.RestartLoadOf, f.RestartLoadOf...)
	if f.BeforeImageColumnPrefix != "" {
		// The two forms exclude each other; asking for both is an error.
		s.BeforeImageColumnPrefix = f.BeforeImageColumnPrefix
		s.EnableBeforeImage = f.BeforeImage != nil && *f.BeforeImage
	}
	for table, text := range f.PartitionKey {
		if s.ObjectMappings == nil {
			s.ObjectMappings = map[string]dmssim.ObjectMapping{}
		}
		kind, name, _ := strings.Cut(text, ":")
		s.ObjectMappings[table] = dmssim.ObjectMapping{PartitionKeyType: dmssim.PartitionKeyType(kind), PartitionKeyName: name}
	}
	return s.Validate()
}

func override[T any](setting, flag *T) {
	if flag != nil {
		*setting = *flag
	}
}

// laterClock is the machine's time, always later than before, so that no two
// messages were built at once.
func laterClock() func() time.Time {
	var last time.Time
	return func() time.Time {
		now := time.Now().Truncate(time.Microsecond)
		if !now.After(last) {
			now = last.Add(time.Microsecond)
		}
		last = now
		return now
	}
}

// create opens what the records go to.
func (cmd *captureCmd) create(env *environment) (io.WriteCloser, error) {
	if cmd.Out == "-" {
		return keptOpen{env.stdout}, nil
	}
	return kinesis.Create(cmd.Out)
}

// keptOpen is a stream that is not ours to close.
type keptOpen struct{ io.Writer }

// Close implements io.Closer.
func (keptOpen) Close() error { return nil }

// printCounts prints how many records each table got.
func printCounts(w io.Writer, counts dmssim.Counts, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(map[string]dmssim.Counts{"records": counts})
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, err := fmt.Fprintln(table, "load\tinsert\tupdate\tdelete\tcontrol\t  table")
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		c := counts[name]
		control := 0
		for op, n := range c {
			switch op {
			case dmssim.Load, dmssim.Insert, dmssim.Update, dmssim.Delete:
			case dmssim.CreateTable, dmssim.DropTable, dmssim.AddColumn, dmssim.DropColumn, dmssim.RenameColumn, dmssim.RenameTable, dmssim.ColumnTypeChange:
				control += n
			}
		}
		_, lineErr := fmt.Fprintf(table, "%d\t%d\t%d\t%d\t%d\t  %s\n", c[dmssim.Load], c[dmssim.Insert], c[dmssim.Update], c[dmssim.Delete], control, name)
		err = errors.Join(err, lineErr)
	}
	return errors.Join(err, table.Flush())
}
