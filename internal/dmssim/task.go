package dmssim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"icehose/cdc/kinesis"
)

// Options say what a task replicates and to where.
type Options struct {
	// DSN is a connection string of a user who may replicate and owns the tables.
	DSN string
	// Tables are patterns of "schema.table", with % and _ as wildcards.
	Tables []string
	// Slot and Publication are names for the replication slot and for the
	// publications, which must not exist yet. Close drops them, unless
	// KeepSlot is set.
	Slot, Publication string
	KeepSlot          bool
	// Replace drops a slot and publications of these names first: what a task
	// that was killed has left. It fails if the slot is in use.
	Replace bool
	Shards  int
	// Seed decides in which order tables load, and the task's identifier.
	Seed     uint64
	Settings Settings
	// MapEveryTable adds an object mapping for every table that has none: by
	// primary key, or by table where there is no key, for loads and changes alike.
	MapEveryTable bool
	// Clock says when a message is built.
	Clock func() time.Time
	// Emit takes each record, in the order of arrival within its shard.
	Emit func(kinesis.Record) error
}

// maxShards bounds what a task keeps per shard in memory; Kinesis itself gives
// an account at most 10,000 on demand.
const maxShards = 10_000

func (o *Options) validate() error {
	switch {
	case len(o.Tables) == 0:
		return errors.New("check options: no tables selected")
	case o.Slot == "" || o.Publication == "":
		return errors.New("check options: slot and publication need names")
	case o.Shards < 1 || o.Shards > maxShards:
		return fmt.Errorf("check options: %d shards, want 1 to %d", o.Shards, maxShards)
	case o.Clock == nil || o.Emit == nil:
		return errors.New("check options: Clock and Emit are required")
	}
	return o.Settings.Validate()
}

// A Task is a running replication task. It is for one goroutine.
type Task struct {
	options      Options
	settings     *Settings
	id           string
	conn         *pgx.Conn
	replication  *pgconn.PgConn
	streaming    bool
	snapshot     *pgx.Conn // holds the slot's snapshot open, until the load is done
	start        pglogrepl.LSN
	tables       []*Table
	publications []string
	hasSlot      bool
	shards       *sharder
	random       *rand.Rand

	waiting []*load
	loading []*load

	relations     map[uint32]*Table // as the stream last described them
	transaction   Transaction       // the one being received
	commitLSN     pglogrepl.LSN
	inTransaction bool
	previous      RecordID
	applied       pglogrepl.LSN // everything below it was written
	reported      time.Time
	own           RecordID // the last row of the task's own tables
	counts        Counts
}

// Counts are how many records were written, by "schema.table" and operation.
// The task's own tables have no schema: ".awsdms_status".
type Counts map[string]map[Operation]int

func (c Counts) add(t *Table, op Operation) {
	name := t.FullName()
	if c[name] == nil {
		c[name] = map[Operation]int{}
	}
	c[name][op]++
}

// Open makes the publications and the replication slot and writes the first
// records. Changes that commit from now on are in the stream.
func Open(ctx context.Context, options Options) (*Task, error) {
	if err := options.validate(); err != nil {
		return nil, fmt.Errorf("open task: %w", err)
	}
	t := &Task{
		options: options, shards: newSharder(options.Shards, options.Clock()),
		random: rand.New(rand.NewPCG(options.Seed, 0)), relations: map[uint32]*Table{}, counts: Counts{},
	}
	t.settings = &t.options.Settings
	t.id = taskID(t.random)
	t.options.Settings.ObjectMappings = maps.Clone(options.Settings.ObjectMappings)
	if err := t.open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open task: %w", err), t.release(context.WithoutCancel(ctx)))
	}
	return t, nil
}

func (t *Task) open(ctx context.Context) error {
	var err error
	if t.conn, err = connect(ctx, t.options.DSN); err != nil {
		return err
	}
	if t.tables, err = readTables(ctx, t.conn, t.options.Tables); err != nil {
		return err
	}
	for _, name := range t.settings.RestartLoadOf {
		if !slices.ContainsFunc(t.tables, func(table *Table) bool { return table.FullName() == name }) {
			return fmt.Errorf("find table %s, whose load is to restart: not among the selected", name)
		}
	}
	t.mapTables()
	if t.options.Replace {
		if err := t.dropLeftovers(ctx); err != nil {
			return err
		}
	}
	if err := t.createPublications(ctx); err != nil {
		return err
	}
	if t.replication, err = connectReplication(ctx, t.options.DSN); err != nil {
		return err
	}
	slot, err := pglogrepl.CreateReplicationSlot(ctx, t.replication, t.options.Slot, "pgoutput",
		pglogrepl.CreateReplicationSlotOptions{SnapshotAction: "EXPORT_SNAPSHOT", Mode: pglogrepl.LogicalReplication})
	if err != nil {
		return fmt.Errorf("create replication slot %s: %w", t.options.Slot, err)
	}
	t.hasSlot = true
	if t.start, err = pglogrepl.ParseLSN(slot.ConsistentPoint); err != nil {
		return fmt.Errorf("read consistent point: %w", err)
	}
	t.applied = t.start
	if t.snapshot, err = connect(ctx, t.options.DSN); err != nil {
		return err
	}
	// The name comes from the server, which makes it of hexadecimal digits.
	if _, err := t.snapshot.Exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"); err != nil {
		return fmt.Errorf("open snapshot: %w", err)
	}
	if _, err := t.snapshot.Exec(ctx, "SET TRANSACTION SNAPSHOT '"+slot.SnapshotName+"'"); err != nil {
		return fmt.Errorf("open snapshot: %w", err)
	}
	for _, i := range t.random.Perm(len(t.tables)) {
		t.waiting = append(t.waiting, &load{table: t.tables[i]})
	}
	return t.announce()
}

// mapTables adds the object mappings of MapEveryTable.
func (t *Task) mapTables() {
	if !t.options.MapEveryTable {
		return
	}
	if t.settings.ObjectMappings == nil {
		t.settings.ObjectMappings = map[string]ObjectMapping{}
	}
	for _, table := range t.tables {
		if _, ok := t.settings.ObjectMappings[table.FullName()]; ok {
			continue
		}
		kind := PrimaryKeyPartition
		if len(table.Key) == 0 {
			kind = SchemaTablePartition
		}
		t.settings.ObjectMappings[table.FullName()] = ObjectMapping{PartitionKeyType: kind}
	}
}

// Counts returns how many records were written so far. It must not be changed.
func (t *Task) Counts() Counts { return t.counts }

// Tables returns the tables of the task, by name.
func (t *Task) Tables() []*Table { return t.tables }

// Loaded reports whether every table was loaded completely.
func (t *Task) Loaded() bool { return len(t.waiting) == 0 && len(t.loading) == 0 }

// Applied returns the log sequence number below which every change was written.
func (t *Task) Applied() pglogrepl.LSN { return t.applied }

// Close writes the last row of awsdms_status, closes the connections and drops
// the slot and the publications.
func (t *Task) Close(ctx context.Context) error {
	if err := errors.Join(t.writeStatus("STOPPED"), t.release(ctx)); err != nil {
		return fmt.Errorf("close task: %w", err)
	}
	return nil
}

func (t *Task) release(ctx context.Context) error {
	var errs []error
	for _, l := range t.loading {
		errs = append(errs, l.end(ctx))
	}
	t.loading, t.waiting = nil, nil
	if t.snapshot != nil {
		errs = append(errs, t.snapshot.Close(ctx))
		t.snapshot = nil
	}
	if t.replication != nil {
		errs = append(errs, t.replication.Close(ctx))
		t.replication = nil
	}
	if t.conn == nil {
		return errors.Join(errs...)
	}
	if !t.options.KeepSlot {
		errs = append(errs, t.dropSlot(ctx), t.dropPublications(ctx))
	}
	errs = append(errs, t.conn.Close(ctx))
	t.conn = nil
	return errors.Join(errs...)
}

// dropSlot drops the slot as soon as its connection has ended.
func (t *Task) dropSlot(ctx context.Context) error {
	if !t.hasSlot {
		return nil
	}
	conn, err := connectReplication(ctx, t.options.DSN)
	if err != nil {
		return err
	}
	err = pglogrepl.DropReplicationSlot(ctx, conn, t.options.Slot, pglogrepl.DropReplicationSlotOptions{Wait: true})
	if err != nil {
		err = fmt.Errorf("drop replication slot %s: %w", t.options.Slot, err)
	}
	t.hasSlot = err != nil
	return errors.Join(err, conn.Close(ctx))
}

// textForms are the parameters that decide how values look as text. A policy that
// hides rows from the account makes it fail.
func textForms() map[string]string {
	return map[string]string{
		"timezone": "UTC", "datestyle": "ISO, YMD", "intervalstyle": "postgres", "bytea_output": "hex", "extra_float_digits": "1", "lc_monetary": "C",
		"synchronize_seqscans": "off", "client_encoding": "UTF8", "application_name": "icehose capture",
		"row_security": "off",
	}
}

// errDSN replaces every complaint about a connection string, which may quote
// a password.
var errDSN = errors.New("parse connection string: it is neither a PostgreSQL URL nor key=value pairs")

func connect(ctx context.Context, dsn string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, errDSN
	}
	maps.Copy(config.RuntimeParams, textForms())
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connect to database %s: %w", config.Database, connectCause(err))
	}
	return conn, nil
}

func connectReplication(ctx context.Context, dsn string) (*pgconn.PgConn, error) {
	config, err := pgconn.ParseConfig(dsn)
	if err != nil {
		return nil, errDSN
	}
	maps.Copy(config.RuntimeParams, textForms())
	config.RuntimeParams["replication"] = "database"
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connect to database %s for replication: %w", config.Database, connectCause(err))
	}
	return conn, nil
}

// connectCause takes one line out of an error that has one for each attempt.
func connectCause(err error) error {
	if fromServer, ok := errors.AsType[*pgconn.PgError](err); ok {
		return fromServer
	}
	if network, ok := errors.AsType[*net.OpError](err); ok {
		return network
	}
	return err
}

// taskID makes an identifier in the form of a task's resource id.
func taskID(r *rand.Rand) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	id := make([]byte, 26)
	for i := range id {
		id[i] = letters[r.IntN(len(letters))]
	}
	return string(id)
}

// put writes a message that was rendered.
func (t *Task) put(m *Message, key PartitionKey, data []byte) error {
	t.counts.add(m.Table, m.Operation)
	if err := t.options.Emit(t.shards.put(key.Key, m.Built, data)); err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	return nil
}

func (t *Task) putData(m *Message) error {
	key := t.settings.PartitionKey(m)
	return t.put(m, key, t.settings.AppendData(nil, m, key))
}

func (t *Task) putControl(table *Table, op Operation) error {
	m := &Message{Table: table, Operation: op, Built: t.options.Clock()}
	key := ControlKey(t.id, table)
	return t.put(m, key, t.settings.AppendControl(nil, m, key))
}
