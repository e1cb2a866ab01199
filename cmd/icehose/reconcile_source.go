package main

import (
	"bufio"
	"bytes"
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
	"icehose/reconcile"
	"icehose/reconcile/dump"
	"icehose/reconcile/mysql"
	"icehose/reconcile/postgres"
)

// reconcileSource says what a lake is compared with, and what it may be asked for.
type reconcileSource struct {
	Source           string        `aliases:"dump" help:"Where the source's rows are: a connection string (postgres://, mysql:// or mariadb://; better given as ICEHOSE_DSN, since a command line is visible to others), or a directory with SCHEMA.TABLE.csv or SCHEMA.TABLE.ndjson for each table, plain, .gz or .zst." placeholder:"URL|DIR"`
	Final            bool          `help:"The dump was taken after the source's last change, and the lake has every change. Required with a dump: it has no position of its own."`
	MaxConnections   int           `default:"2" help:"Connections to a live source, at most."`
	RowsPerSecond    int           `help:"Rows that are read of a live source in a second, at most." placeholder:"N"`
	StatementTimeout time.Duration `default:"30m" help:"A statement of a live source that takes longer fails; 0: none does."`
	Stream           bool          `help:"Read rows of a live source and hash them here, although the server could digest them: less work for the server, more for the network."`
}

func (s *reconcileSource) validate() error {
	if s.MaxConnections < 1 || s.RowsPerSecond < 0 || s.StatementTimeout < 0 {
		return errors.New("--max-connections, --rows-per-second and --statement-timeout: want nothing negative, and one connection at least")
	}
	return nil
}

// A sourceReader is a Reader that holds something.
type sourceReader interface {
	reconcile.Reader
	io.Closer
}

// open opens the source; live says that it may change while it is read.
func (s *reconcileSource) open(ctx context.Context, env *environment, p *catalog.Pipeline) (r sourceReader, live bool, err error) {
	where := s.Source
	if where == "" {
		where = env.getenv("ICEHOSE_DSN")
	}
	switch {
	case where == "":
		return nil, false, errors.New("no source: give ICEHOSE_DSN or --source")
	case isMySQL(where):
		if err := s.isLive(p, catalog.MySQL, catalog.MariaDB); err != nil {
			return nil, false, err
		}
		r, err := mysql.Open(ctx, where, mysql.Options{
			MaxConnections: s.MaxConnections, StatementTimeout: s.StatementTimeout, RowsPerSecond: s.RowsPerSecond, Stream: s.Stream,
		})
		return r, true, err
	case strings.HasPrefix(where, "postgres://") || strings.HasPrefix(where, "postgresql://"):
		if err := s.isLive(p, catalog.PostgreSQL); err != nil {
			return nil, false, err
		}
		r, err := postgres.Open(ctx, where, postgres.Options{
			MaxConnections: s.MaxConnections, StatementTimeout: s.StatementTimeout, RowsPerSecond: s.RowsPerSecond, Stream: s.Stream,
		})
		return r, true, err
	}
	if !s.Final {
		return nil, false, errors.New("--final is required with a dump: it has no position, so the source must not have changed since, and the lake must have every change")
	}
	d, err := dump.Open(where, dump.Options{Final: true, Engine: p.Source.Engine})
	if err != nil {
		return nil, false, err
	}
	return dumpReader{d}, false, nil
}

// isLive checks that a connection string fits the pipeline file and the flags.
func (s *reconcileSource) isLive(p *catalog.Pipeline, engines ...catalog.Engine) error {
	if s.Final {
		return errors.New("--final is for a dump: the source is live")
	}
	if !slices.Contains(engines, p.Source.Engine) {
		return fmt.Errorf("the pipeline file's source is %s, the connection string is of another engine", p.Source.Engine)
	}
	return nil
}

// A dumpReader holds nothing.
type dumpReader struct{ *dump.Reader }

// Close implements io.Closer.
func (dumpReader) Close() error { return nil }

// readKeys reads a file of keys, one JSON object a line.
func readKeys(path string, p *catalog.Pipeline) (map[string]*reconcile.Keys, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}
	texts := map[string][][]string{}
	whole := map[string]bool{}
	lines := bufio.NewScanner(bytes.NewReader(content))
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var line struct {
			Table   string   `json:"table"`
			Columns []string `json:"columns"`
			Key     []string `json:"key"`
			All     bool     `json:"all"`
			// The rest of a line of a repair's plan.
			Kind   string `json:"kind"`
			Action string `json:"action"`
			Rows   uint64 `json:"rows"`
		}
		decoder := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		decoder.DisallowUnknownFields()
		if decoder.Decode(&line) != nil {
			return nil, fmt.Errorf(`%s: line %d: want {"table":"schema.table","columns":["id"],"key":["7"]} or {"table":"schema.table","all":true}`, path, n)
		}
		t, err := tableOf(p, line.Table)
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", path, n, err)
		}
		if line.All || len(t.Key) == 0 {
			whole[t.Source] = true
			continue
		}
		key, err := inKeyOrder(t, line.Columns, line.Key)
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", path, n, err)
		}
		texts[t.Source] = append(texts[t.Source], key)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read keys: %s: %w", path, err)
	}
	keys := map[string]*reconcile.Keys{}
	for source := range whole {
		keys[source] = nil
	}
	for source, some := range texts {
		if whole[source] {
			continue
		}
		t, err := tableOf(p, source)
		if err == nil {
			keys[source], err = reconcile.NewKeys(t, some)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return keys, nil
}

// inKeyOrder puts the texts of named columns into the order of the key.
func inKeyOrder(t *catalog.Table, columns, key []string) ([]string, error) {
	if len(columns) == 0 && len(key) == len(t.Key) {
		return key, nil
	}
	if len(columns) != len(key) || len(key) != len(t.Key) {
		return nil, fmt.Errorf("table %s has the key columns %s", t.Source, strings.Join(t.Key, ", "))
	}
	ordered := make([]string, len(key))
	for i, name := range t.Key {
		at := slices.Index(columns, name)
		if at < 0 {
			return nil, fmt.Errorf("table %s has the key columns %s", t.Source, strings.Join(t.Key, ", "))
		}
		ordered[i] = key[at]
	}
	return ordered, nil
}

// A checkpointFile keeps a checkpoint in a file that only its owner may read.
type checkpointFile string

var _ reconcile.Checkpoint = checkpointFile("")

// Load implements reconcile.Checkpoint.
func (f checkpointFile) Load(context.Context) ([]byte, error) {
	data, err := os.ReadFile(string(f))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// Save implements reconcile.Checkpoint.
func (f checkpointFile) Save(_ context.Context, data []byte) error {
	if data == nil {
		if err := os.Remove(string(f)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	}
	if _, err := os.Stat(string(f)); errors.Is(err, os.ErrNotExist) {
		if err := os.WriteFile(string(f), nil, 0o600); err != nil {
			return err
		}
	}
	return replaceFile(string(f), data)
}
