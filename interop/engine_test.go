//go:build interop

package interop_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"icehose/sink/iceberg"
	"icehose/sink/merge"
)

var (
	python = flag.String("python", "", "Python that has the packages of requirements.txt")
	jars   = flag.String("jars", "", "comma-separated jars for Spark: Iceberg's runtime and SQLite's driver")
	seeds  = flag.Int("seeds", 60, "seeds of the chaos on Spark and Trino")
)

// An engine is a running engine.py.
type engine struct {
	name   string
	mu     sync.Mutex
	in     io.Writer
	out    *bufio.Scanner
	stderr *bytes.Buffer
	stop   func()
}

type reply struct {
	Rows    [][]*string   `json:"rows"`
	Updated int64         `json:"updated"`
	Result  *merge.Result `json:"result"`
	Counted counted       `json:"counted"`
	Process int           `json:"process"`
	Kept    int           `json:"kept"`
	Error   string        `json:"error"`
}

// A shared is the lake of all tests. Engines take long to start, so there is
// one of each over it.
type shared struct {
	dir       string
	store     *iceberg.Store
	databases atomic.Int32
	mu        sync.Mutex
	engines   map[string]*engine
}

var lake struct {
	once sync.Once
	shared
}

// sharedLake opens the lake of all tests.
func sharedLake(t testing.TB) *shared {
	t.Helper()
	lake.once.Do(func() {
		dir, err := os.MkdirTemp("", "icehose-interop-") //nolint:usetesting // outlives the test that comes first
		if err != nil {
			t.Fatal(err)
		}
		lake.dir = dir
		if lake.store, err = openLake(context.Background(), dir); err != nil {
			t.Fatal(err)
		}
	})
	if lake.store == nil {
		t.Fatal("the lake could not be opened")
	}
	return &lake.shared
}

// engine returns the engine of a name over the lake.
func (s *shared) engine(t testing.TB, name string) *engine {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.engines[name]; e != nil {
		return e
	}
	ctx := context.Background() // outlives the test that comes first
	var settings []string
	stopServer := func() {}
	if name == "trino" {
		port, stop, err := startTrino(ctx, s.dir)
		if err != nil {
			t.Fatal(err)
		}
		settings, stopServer = append(settings, fmt.Sprint("port=", port)), stop
	}
	e, err := start(ctx, name, s.dir, settings...)
	if err != nil {
		stopServer()
		t.Fatal(err)
	}
	stopClient := e.stop
	e.stop = func() { stopClient(); stopServer() }
	if s.engines == nil {
		s.engines = make(map[string]*engine)
	}
	s.engines[name] = e
	return e
}

func TestMain(m *testing.M) {
	status := m.Run()
	for _, e := range lake.engines {
		e.stop()
	}
	if lake.store != nil {
		_ = lake.store.Close()
		_ = os.RemoveAll(lake.dir)
	}
	os.Exit(status) //nolint:forbidigo // what TestMain is for
}

// sparkRunner writes the script of the merge, without any table, into a folder, and
// returns its path.
func sparkRunner(dir string) (string, error) {
	script, err := merge.SparkScript([]*merge.SparkSpec{})
	if err != nil {
		return "", err
	}
	path, err := filepath.Abs(filepath.Join(cmp.Or(dir, os.TempDir()), "icehose-runner.py"))
	if err != nil {
		return "", err
	}
	return path, os.WriteFile(path, []byte(script), 0o600)
}

// start runs an engine over the lake in a folder.
func start(ctx context.Context, name, dir string, settings ...string) (*engine, error) {
	if *python == "" {
		return nil, errors.New("want -python: run make interop")
	}
	args := append([]string{"engine.py", name}, settings...)
	if dir != "" {
		args = append(args, "lake="+dir)
	}
	if name == "spark" {
		runner, err := sparkRunner(dir)
		if err != nil {
			return nil, err
		}
		list := *jars
		if *counting != "" {
			list += "," + *counting
		}
		args = append(args, "jars="+list, "runner="+runner)
	}
	cmd := exec.CommandContext(ctx, *python, args...)
	e := &engine{name: name, stderr: new(bytes.Buffer)}
	cmd.Stderr = e.stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	e.stop = func() {
		_ = in.Close()
		_ = cmd.Wait()
	}
	e.in, e.out = in, bufio.NewScanner(out)
	e.out.Buffer(nil, 256<<20)
	if !e.out.Scan() {
		e.stop()
		return nil, fmt.Errorf("%s did not start:\n%s", name, e.stderr.String())
	}
	return e, nil
}

// call sends a request and reads its answer.
func (e *engine) call(request any) (*reply, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	text, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	if _, err := e.in.Write(append(text, '\n')); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", e.name, err, e.stderr.String())
	}
	if !e.out.Scan() {
		return nil, fmt.Errorf("%s ended\n%s", e.name, e.stderr.String())
	}
	var r reply
	if err := json.Unmarshal(e.out.Bytes(), &r); err != nil {
		return nil, fmt.Errorf("%s: %w in %s", e.name, err, e.out.Text())
	}
	if r.Error != "" {
		return nil, errors.New(r.Error)
	}
	return &r, nil
}

func (e *engine) sql(t testing.TB, statement string) [][]*string {
	t.Helper()
	r, err := e.call(map[string]any{"sql": strings.TrimSuffix(strings.TrimSpace(statement), ";")})
	if err != nil {
		t.Fatalf("%s: %v\nin %s", e.name, err, statement)
	}
	return r.Rows
}

// find returns a column of the rows that have a value in it.
func (e *engine) find(t testing.TB, table, column, value string) [][]*string {
	t.Helper()
	r, err := e.call(map[string]any{"find": table, "column": column, "value": value})
	if err != nil {
		t.Fatalf("%s: find %q: %v", e.name, value, err)
	}
	return r.Rows
}

func (e *engine) scan(table string, columns []string, snapshot int64) ([][]*string, error) {
	r, err := e.call(map[string]any{"scan": table, "columns": columns, "snapshot": snapshot})
	if err != nil {
		return nil, err
	}
	return r.Rows, nil
}

func (e *engine) merge(spec *merge.SparkSpec, rebuild bool) (*merge.Result, error) {
	r, err := e.call(map[string]any{"merge": spec, "rebuild": rebuild})
	if err != nil {
		return nil, err
	}
	return r.Result, nil
}

// openLake opens a lake that nobody will miss.
func openLake(ctx context.Context, dir string) (*iceberg.Store, error) {
	store, err := iceberg.Open(ctx, dir, iceberg.Options{Sync: func(*os.File) error { return nil }})
	if err != nil {
		return nil, err
	}
	// Spark's driver leaves statements open, which only this mode lets be.
	db, err := sql.Open("sqlite", filepath.Join(dir, "catalog.db"))
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	_, err = db.ExecContext(ctx, "PRAGMA journal_mode = WAL")
	if err := errors.Join(err, db.Close()); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return store, nil
}
