//go:build postgres

package dmssim_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"

	"icehose/cdc/kinesis"
	"icehose/internal/dmssim"
	"icehose/internal/pgtest"
)

// A source is a private server, with a connection to it.
type source struct {
	*pgx.Conn
	dsn string
}

func newSource(t *testing.T, schema string) *source {
	t.Helper()
	server := pgtest.New(t)
	conn := server.Connect(t)
	s := &source{Conn: conn, dsn: server.DSN()}
	s.exec(t, schema)
	return s
}

func (s *source) exec(t *testing.T, sql string) {
	t.Helper()
	if _, err := s.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

func (s *source) count(t *testing.T, sql string) (n int) {
	t.Helper()
	if err := s.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// now is what the server has flushed.
func (s *source) now(t *testing.T) pglogrepl.LSN {
	t.Helper()
	var text string
	if err := s.QueryRow(t.Context(), "SELECT pg_current_wal_flush_lsn()::text").Scan(&text); err != nil {
		t.Fatal(err)
	}
	lsn, err := pglogrepl.ParseLSN(text)
	if err != nil {
		t.Fatal(err)
	}
	return lsn
}

// A record is what these tests look at.
type record struct {
	Data     map[string]any `json:"data"`
	Before   map[string]any `json:"before-image"`
	Control  map[string]any `json:"control"`
	Metadata map[string]any `json:"metadata"`
	Shard    string         `json:"-"`
}

// story is the record in a word: "update public.t {...}".
func (r record) story() string {
	text := fmt.Sprint(r.Metadata["operation"], " ", r.Metadata["table-name"])
	if r.Data != nil {
		data, err := json.Marshal(r.Data)
		if err != nil {
			return err.Error()
		}
		text += " " + string(data)
	}
	return text
}

type capture struct {
	*dmssim.Task
	records []record
}

func (c *capture) stories() []string {
	var out []string
	for _, r := range c.records {
		out = append(out, r.story())
	}
	return out
}

// open starts a task on every table of the source. Its clock ticks by itself.
func open(t *testing.T, s *source, change func(*dmssim.Options)) *capture {
	t.Helper()
	c := &capture{}
	clock := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	options := dmssim.Options{
		DSN: s.dsn, Tables: []string{"public.%"}, Slot: "test", Publication: "test", Shards: 3, Seed: 1, Settings: unformatted(everything),
		Clock: func() time.Time { clock = clock.Add(time.Millisecond); return clock },
		Emit: func(r kinesis.Record) error {
			parsed := record{Shard: r.ShardID}
			if err := json.Unmarshal(r.Data, &parsed); err != nil {
				return err
			}
			c.records = append(c.records, parsed)
			return nil
		},
	}
	if change != nil {
		change(&options)
	}
	task, err := dmssim.Open(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	c.Task = task
	t.Cleanup(func() {
		if err := task.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	c.records = nil // the announcement has a test of its own
	return c
}

func (c *capture) load(t *testing.T) {
	t.Helper()
	for done := false; !done; {
		var err error
		if done, err = c.LoadStep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func (c *capture) catchUp(t *testing.T, s *source) {
	t.Helper()
	if err := c.CatchUp(t.Context(), s.now(t)); err != nil {
		t.Fatal(err)
	}
}
