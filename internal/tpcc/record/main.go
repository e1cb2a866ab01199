// Command record makes the fixture testdata/events/tpcc: it runs TPC-C on a
// private PostgreSQL, captures it as DMS would, and writes the records, the
// schema, the final rows and a manifest.
//
// In comes a seed; out comes a folder. Rows, transactions, their interleaving
// and the order of records are functions of the seed. Commit times, the times
// at which messages are built, and whatever else PostgreSQL takes from the
// machine's clock are not.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"

	"icehose/cdc/kinesis"
	"icehose/internal/dmssim"
	"icehose/internal/pgtest"
	"icehose/internal/tpcc"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code) //nolint:forbidigo // a program, like those under cmd
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("record", flag.ContinueOnError)
	flags.SetOutput(stderr)
	out := flags.String("out", "", "folder to write, which must exist")
	seed := flags.Uint64("seed", 20260101, "seed of the population, the transactions and their interleaving")
	transactions := flags.Int("transactions", 3000, "how many transactions to run")
	if err := flags.Parse(args); err != nil || *out == "" {
		_, _ = fmt.Fprintln(stderr, "record: usage: record -out FOLDER")
		return 2
	}
	r := &recorder{out: *out, clock: machineClock()}
	r.manifest.Seed = *seed
	r.manifest.Scale = tpcc.Scale{Warehouses: 2, Items: 500, Districts: 10, Customers: 60, Orders: 30, NewOrders: 15}
	r.manifest.Terminals, r.manifest.Transactions, r.manifest.Shards = 8, *transactions, 4
	r.manifest.Settings = settings()
	if err := r.record(ctx); err != nil {
		_, _ = fmt.Fprintln(stderr, "record:", err)
		return 2
	}
	_, _ = fmt.Fprintf(stdout, "recorded %d records into %s\n", r.manifest.Records, *out)
	return 0
}

// machineClock returns the machine's time, always later than before.
func machineClock() func() time.Time {
	var last time.Time
	return func() time.Time {
		now := time.Now().Truncate(time.Microsecond) //nolint:forbidigo // a program, like those under cmd
		if !now.After(last) {
			now = last.Add(time.Microsecond)
		}
		last = now
		return now
	}
}

// settings are those of the recorded task. Half of the tables keep DMS's
// default partition keys, which part a row's load from its changes.
func settings() dmssim.Settings {
	s := dmssim.Defaults()
	s.MessageFormat = dmssim.JSONUnformatted
	s.IncludeTransactionDetails, s.IncludePartitionValue, s.PartitionIncludeSchemaTable = true, true, true
	s.IncludeTableAlterOperations, s.IncludeControlDetails, s.IncludeNullAndEmpty = true, true, true
	s.EnableBeforeImage = true
	s.StatusTableEnabled, s.HistoryTableEnabled = true, true
	s.LoadOverlapsChanges = true
	s.RestartLoadOf, s.RestartAfterRows = []string{"public.stock"}, 400
	s.ObjectMappings = map[string]dmssim.ObjectMapping{}
	for _, table := range []string{"customer", "stock", "orders", "order_line"} {
		s.ObjectMappings["public."+table] = dmssim.ObjectMapping{PartitionKeyType: dmssim.PrimaryKeyPartition}
	}
	return s
}

// A manifest says how a fixture was made and what is in it.
type manifest struct {
	Seed         uint64          `json:"seed"`
	Scale        tpcc.Scale      `json:"scale"`
	Terminals    int             `json:"terminals"`
	Transactions int             `json:"transactions"`
	Ended        tpcc.Counts     `json:"ended"`
	PostgreSQL   string          `json:"postgresql"`
	Shards       int             `json:"shards"`
	Records      int             `json:"records"`
	Data         int             `json:"data_records"`
	Counts       dmssim.Counts   `json:"counts"`
	FinalRows    map[string]int  `json:"final_rows"`
	Settings     dmssim.Settings `json:"settings"`
}

type recorder struct {
	out      string
	clock    func() time.Time
	manifest manifest
	server   *pgtest.Server
	conn     *pgx.Conn
}

func (r *recorder) record(ctx context.Context) (err error) {
	if r.server, err = pgtest.Start(ctx, ""); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.server.Stop()) }()
	if r.conn, err = pgx.Connect(ctx, r.server.DSN()); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { err = errors.Join(err, r.conn.Close(context.WithoutCancel(ctx))) }()
	if err := r.conn.QueryRow(ctx, "SHOW server_version").Scan(&r.manifest.PostgreSQL); err != nil {
		return fmt.Errorf("read server version: %w", err)
	}
	if err := tpcc.CreateSchema(ctx, r.conn); err != nil {
		return err
	}
	if err := tpcc.Load(ctx, r.conn, r.manifest.Scale, r.manifest.Seed); err != nil {
		return err
	}
	if err := r.capture(ctx); err != nil {
		return err
	}
	if err := tpcc.CheckConsistency(ctx, r.conn); err != nil {
		return err
	}
	if err := r.writeFinal(ctx); err != nil {
		return err
	}
	if err := r.writeSchema(ctx); err != nil {
		return err
	}
	return r.writeManifest()
}

// capture runs the workload and the task side by side, on one goroutine.
func (r *recorder) capture(ctx context.Context) (err error) {
	file, err := kinesis.Create(filepath.Join(r.out, "events.ndjson.zst"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	writer := kinesis.NewWriter(file)
	task, err := dmssim.Open(ctx, dmssim.Options{
		DSN: r.server.DSN(), Tables: []string{"public.%"}, Slot: "record", Publication: "record",
		Shards: r.manifest.Shards, Seed: r.manifest.Seed, Settings: r.manifest.Settings, Clock: r.clock,
		Emit: func(record kinesis.Record) error {
			r.manifest.Records++
			return writer.Write(record)
		},
	})
	if err != nil {
		return err
	}
	err = r.runBoth(ctx, task)
	err = errors.Join(err, task.Close(context.WithoutCancel(ctx)))
	r.count(task.Counts())
	return errors.Join(err, writer.Flush())
}

// Workload steps before the load, with each step of the load, and between
// looks at the changes once it is done.
const (
	stepsBefore = 3000
	stepsEach   = 150
	stepsAfter  = 4000
)

func (r *recorder) runBoth(ctx context.Context, task *dmssim.Task) (err error) {
	workload, err := tpcc.NewWorkload(ctx, r.server.DSN(), tpcc.Config{
		Scale: r.manifest.Scale, Seed: r.manifest.Seed, Terminals: r.manifest.Terminals, Transactions: r.manifest.Transactions,
	})
	if err != nil {
		return err
	}
	defer func() {
		r.manifest.Ended = workload.Counts()
		err = errors.Join(err, workload.Close(context.WithoutCancel(ctx)))
	}()
	ran, loaded := false, false
	for steps := stepsBefore; !ran || !loaded; {
		for i := 0; i < steps && !ran; i++ {
			if ran, err = workload.Step(ctx); err != nil {
				return err
			}
		}
		steps = stepsAfter
		if !loaded {
			steps = stepsEach
			if loaded, err = task.LoadStep(ctx); err != nil {
				return err
			}
		}
		if err := r.catchUp(ctx, task); err != nil {
			return err
		}
	}
	return nil
}

// catchUp writes everything that is committed now.
func (r *recorder) catchUp(ctx context.Context, task *dmssim.Task) error {
	var text string
	if err := r.conn.QueryRow(ctx, "SELECT pg_current_wal_flush_lsn()::text").Scan(&text); err != nil {
		return fmt.Errorf("read log position: %w", err)
	}
	lsn, err := pglogrepl.ParseLSN(text)
	if err != nil {
		return fmt.Errorf("read log position: %w", err)
	}
	return task.CatchUp(ctx, lsn)
}

func (r *recorder) count(counts dmssim.Counts) {
	r.manifest.Counts = counts
	for _, operations := range counts {
		for _, op := range []dmssim.Operation{dmssim.Load, dmssim.Insert, dmssim.Update, dmssim.Delete} {
			r.manifest.Data += operations[op]
		}
	}
}
