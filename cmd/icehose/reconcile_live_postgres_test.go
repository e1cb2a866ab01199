//go:build postgres

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"icehose/internal/pgtest"
)

var liveFor = flag.Duration("live", 20*time.Second, "how long TestReconcileLive writes and compares")

const livePipeline = `version: 1
database: lake
source: {engine: postgresql, position: postgres, nulls: included}
tables:
  - source: public.account
    mode: mirror
    key: [id]
    columns:
      - {name: id, type: long}
      - {name: balance, type: "decimal(14,2)"}
      - {name: note, type: string}
      - {name: updated_at, type: timestamptz}
  - source: public.session
    mode: mirror
    key: [app, id]
    columns:
      - {name: app, type: string}
      - {name: id, type: int}
      - {name: alive, type: boolean}
  - source: public.entry
    mode: changelog
    key: [id]
    columns:
      - {name: id, type: long}
      - {name: amount, type: double}
      - {name: day, type: date}
  - source: public.visit
    mode: changelog
    columns:
      - {name: page, type: string}
      - {name: at, type: timestamp}
`

const liveTables = `CREATE TABLE account (id bigint PRIMARY KEY, balance numeric(14,2), note text, updated_at timestamptz DEFAULT clock_timestamp());
	CREATE TABLE session (app text, id integer, alive boolean, PRIMARY KEY (app, id));
	CREATE TABLE entry (id bigint PRIMARY KEY, amount double precision, day date);
	CREATE TABLE visit (page text, at timestamp);
	INSERT INTO account SELECT g, g, 'account ' || g FROM generate_series(1, 20000) g;
	INSERT INTO session SELECT 'app ' || g % 3, g, true FROM generate_series(1, 500) g;
	INSERT INTO entry SELECT g, g / 7.0, '2026-01-01'::date + g FROM generate_series(1, 2000) g;
	INSERT INTO visit SELECT 'page ' || g % 10, '2026-01-01'::timestamp + g * interval '1 s' FROM generate_series(1, 1000) g;`

// lostAccount is the account whose record never reaches the sink.
const lostAccount = 987654321

// unwrittenTable is one that no sink writes: what the sink records of its tables
// says nothing of all, as in a lake that another program writes.
const unwrittenTable = `  - source: public.unwritten
    mode: mirror
    key: [id]
    columns:
      - {name: id, type: long}
`

// While a source is written to and the sink lags by seconds, nothing that is
// only late is called different; a change that is lost in the middle is found,
// and nothing else.
func TestReconcileLive(t *testing.T) { testLive(t, false) }

// The same of a lake whose tables are committed apart, as Firehose does it:
// mirrors every twelve seconds and changelogs every two, and nothing
// but the tables themselves says how far they are. Writers rest now and then.
func TestReconcileLiveApart(t *testing.T) { testLive(t, true) }

func testLive(t *testing.T, apart bool) {
	server := pgtest.New(t)
	conn := server.Connect(t)
	exec1(t, conn, liveTables)

	l := &live{t: t, apart: apart, dir: t.TempDir(), dsn: server.DSN(), begun: time.Now()}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for name, text := range map[string]string{"pipeline.yaml": livePipeline, "compared.yaml": livePipeline + unwrittenTable} {
		if err := os.WriteFile(filepath.Join(l.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	capture := l.start(ctx, "capture", "--out", "raw.ndjson")
	waitForSlot(t, conn, capture)
	l.workers.Go(func() { l.relay(ctx) })
	l.start(ctx, "sink", "--pipeline", "pipeline.yaml", "--lake", "lake", "--follow", "--poll", "100ms", "--flush-every", "700ms", "slow.ndjson")
	for seed := range uint64(3) {
		l.workers.Go(func() { l.write(ctx, seed) })
	}
	l.waitForLake()

	begun := time.Now()
	l.compare(begun.Add(*liveFor/2), false)
	exec1(t, conn, fmt.Sprintf("INSERT INTO account VALUES (%d, 1, 'lost')", lostAccount))
	l.compare(begun.Add(*liveFor), true)
	stop()
	l.workers.Wait()
	if l.found == 0 {
		t.Error("the lost change was never found")
	}
	// One may be undecided, however few there are on a slow machine.
	if undecided := l.checks - l.decided; undecided > 1 && undecided*20 > l.checks {
		t.Errorf("%d of %d checks were decided, want 95%%", l.decided, l.checks)
	}
	t.Logf("%d checks of tables in %s: %d decided, %d keys in flight, the lost change found %d times, %d changes written",
		l.checks, time.Since(begun).Round(time.Second), l.decided, l.inFlight, l.found, l.written.Load())
}

// live is the test's processes and what it saw.
type live struct {
	t       *testing.T
	apart   bool // tables are committed apart, and writers rest
	dir     string
	dsn     string
	begun   time.Time
	workers sync.WaitGroup
	written counter

	checks, decided, inFlight, found int
}

// start runs icehose until ctx ends. What comes of the channel is how it ended before that.
func (l *live) start(ctx context.Context, args ...string) chan error {
	l.t.Helper()
	icehose, err := exec.LookPath("icehose")
	if err != nil {
		l.t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, icehose, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	cmd.Dir, cmd.Env = l.dir, append(os.Environ(), "ICEHOSE_DSN="+l.dsn)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	ended := make(chan error, 1)
	l.workers.Go(func() {
		err := cmd.Wait()
		ended <- err
		if ctx.Err() == nil {
			l.t.Errorf("icehose %s ended: %v\n%s", args[0], err, out.Bytes())
		}
	})
	return ended
}

// relay is the lag: it hands each record on after one to four seconds, and
// loses that of one account.
func (l *live) relay(ctx context.Context) {
	out, err := os.Create(filepath.Join(l.dir, "slow.ndjson"))
	if err != nil {
		l.t.Error(err)
		return
	}
	defer out.Close() //nolint:errcheck // every write was checked
	in, err := os.Open(filepath.Join(l.dir, "raw.ndjson"))
	for range 1200 { // the slot is there before the file is
		if !errors.Is(err, os.ErrNotExist) {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
		in, err = os.Open(filepath.Join(l.dir, "raw.ndjson"))
	}
	if err != nil {
		l.t.Error(err)
		return
	}
	defer in.Close() //nolint:errcheck // it was only read
	type late struct {
		line []byte
		due  time.Time
	}
	var queues [2][]late
	lines := bufio.NewReaderSize(in, 1<<20)
	var part []byte
	for ctx.Err() == nil {
		for {
			line, err := lines.ReadBytes('\n')
			part = append(part, line...)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				l.t.Error(err)
				return
			}
			if !bytes.Contains(part, fmt.Appendf(nil, "%d", lostAccount)) {
				lag := time.Second + time.Duration(time.Since(l.begun).Seconds()*500)%3000*time.Millisecond
				i, due := l.committed(part, time.Now().Add(lag))
				line := bytes.Clone(part)
				if i == 1 { // a stream of its own: within a shard sequence numbers ascend
					line = bytes.Replace(line, []byte(`"shardId":"shardId-000000000`), []byte(`"shardId":"shardId-000000001`), 1)
				}
				queues[i] = append(queues[i], late{line, due})
			}
			part = part[:0]
		}
		for i, queue := range queues {
			for len(queue) > 0 && time.Now().After(queue[0].due) {
				if _, err := out.Write(queue[0].line); err != nil {
					l.t.Error(err)
					return
				}
				queue = queue[1:]
			}
			queues[i] = queue
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// committed says in which queue a record is, and when it gets on at the earliest.
func (l *live) committed(record []byte, due time.Time) (queue int, _ time.Time) {
	if !l.apart {
		return 0, due
	}
	every := 2 * time.Second
	if bytes.Contains(record, []byte("account")) || bytes.Contains(record, []byte("session")) {
		queue, every = 1, 12*time.Second
	}
	return queue, due.Truncate(every).Add(every)
}

// How long writers of tables that are committed apart write, and rest: for
// longer than a difference needs to count then.
const (
	busyFor = 20 * time.Second
	restFor = 60 * time.Second
	// restSettle is what tables of such a lake are never apart.
	restSettle = 45 * time.Second
)

// rest waits while writers rest.
func (l *live) rest(ctx context.Context) {
	if now := time.Since(l.begun) % (busyFor + restFor); l.apart && now > busyFor {
		select {
		case <-ctx.Done():
		case <-time.After(busyFor + restFor - now):
		}
	}
}

// write changes rows: some often, some back and forth, some away and back.
func (l *live) write(ctx context.Context, seed uint64) {
	conn, err := pgx.Connect(ctx, l.dsn)
	if err != nil {
		l.t.Error(err)
		return
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // the test is over
	r := rand.New(rand.NewPCG(seed, 1))
	for n := 0; ctx.Err() == nil; n++ {
		l.rest(ctx)
		id := r.IntN(20000) + 1
		statements := []string{
			fmt.Sprintf("UPDATE account SET balance = balance + 0.01, updated_at = clock_timestamp() WHERE id = %d", id),
			fmt.Sprintf("UPDATE account SET note = CASE WHEN note = 'a' THEN 'b' ELSE 'a' END WHERE id = %d", r.IntN(5)+1),
			fmt.Sprintf("DELETE FROM account WHERE id = %d", id),
			fmt.Sprintf("INSERT INTO account VALUES (%d, %d, NULL) ON CONFLICT (id) DO UPDATE SET note = ''", id, n),
			fmt.Sprintf("UPDATE session SET alive = NOT alive WHERE id = %d", r.IntN(500)+1),
			fmt.Sprintf("UPDATE entry SET amount = amount * 1.1 WHERE id = %d", r.IntN(2000)+1),
			fmt.Sprintf("INSERT INTO visit VALUES ('page %d', clock_timestamp()::timestamp)", r.IntN(10)),
		}
		if _, err := conn.Exec(ctx, statements[r.IntN(len(statements))]); err != nil {
			if ctx.Err() == nil {
				l.t.Error(err)
			}
			return
		}
		l.written.add(1)
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}

type counter struct {
	mu sync.Mutex
	n  int
}

func (c *counter) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n += n
}

// Load returns the count.
func (c *counter) Load() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// waitForLake waits until every table is in the lake.
func (l *live) waitForLake() {
	l.t.Helper()
	for range 3000 {
		made := 0
		for _, table := range []string{"account", "session", "entry", "visit"} {
			if files, _ := filepath.Glob(filepath.Join(l.dir, "lake", "warehouse", "lake", table, "data", "*.parquet")); len(files) > 0 {
				made++
			}
		}
		if made == 4 {
			return
		}
		select {
		case <-l.t.Context().Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
	l.t.Fatal("the lake has no rows after a minute")
}

// compare reconciles until the time comes, at least once; again when something
// was lost and is not found yet.
func (l *live) compare(until time.Time, lost bool) {
	l.t.Helper()
	for {
		var out, log bytes.Buffer
		args := []string{
			"--json", "reconcile", "--lake", filepath.Join(l.dir, "lake"), "--source", l.dsn, "--settle", "2s", "--retries", "60", "--concurrency", "4",
			"--max-connections", "4", "--show-keys", "--settle-idle", restSettle.String(), "--tables", "public.account,public.session,public.entry,public.visit",
		}
		if l.apart {
			args = append(args, "--pipeline", filepath.Join(l.dir, "compared.yaml"))
		} else {
			args = append(args, "--pipeline", filepath.Join(l.dir, "pipeline.yaml"))
		}
		status := run(l.t.Context(), args, environment{stdin: strings.NewReader(""), stdout: &out, stderr: &log, log: slog.New(slog.DiscardHandler), getenv: func(string) string { return "" }})
		var report struct {
			Tables []struct {
				Table, Verdict, Why string
				InFlight            int `json:"in_flight"`
				Findings            []struct {
					Kind string
					Key  []string
				}
			}
		}
		if err := json.Unmarshal(out.Bytes(), &report); err != nil || len(report.Tables) != 4 {
			l.t.Fatalf("status %d, %v: %s\n%s", status, err, out.Bytes(), log.Bytes())
		}
		for _, table := range report.Tables {
			l.checks++
			l.inFlight += table.InFlight
			switch {
			case table.Verdict == "inconclusive":
				l.t.Logf("%s is inconclusive: %s", table.Table, table.Why)
				continue
			case table.Verdict == "equal":
			case lost && table.Table == "public.account" && len(table.Findings) == 1 && table.Findings[0].Kind == "missing" && table.Findings[0].Key[0] == fmt.Sprint(lostAccount):
				l.found++
			default:
				l.t.Errorf("%s is %s: %+v", table.Table, table.Verdict, table.Findings)
			}
			l.decided++
		}
		if time.Now().After(until) && (!lost || l.found > 0 || time.Now().After(until.Add(time.Minute))) {
			return
		}
	}
}
