//go:build postgres || mariadb

package heartbeat_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"icehose/catalog"
	"icehose/reconcile"
	"icehose/reconcile/heartbeat"
)

// options are those of a writer that rests for a moment only.
func options(rows int) heartbeat.Options {
	return heartbeat.Options{
		Rows: rows, Every: 20 * time.Millisecond, StatementTimeout: 5 * time.Second, LockTimeout: time.Second, Log: slog.New(slog.DiscardHandler),
		Wait: func(ctx context.Context, d time.Duration) error {
			return reconcile.Wait(ctx, min(d, 20*time.Millisecond))
		},
	}
}

func beatOnce(t *testing.T, s *heartbeat.Source, rows int) error {
	t.Helper()
	o := options(rows)
	o.Once = true
	_, err := heartbeat.Run(t.Context(), s, o)
	return err
}

// asAccount is a connection string of another account.
func asAccount(dsn, account string) string {
	scheme, rest, _ := strings.Cut(dsn, "://")
	_, rest, _ = strings.Cut(rest, "@")
	return scheme + "://" + account + "@" + rest
}

// pipeline has the heartbeat's table, as its definition says, and public.t.
func pipeline(t *testing.T, s *heartbeat.Source, position, other string) *catalog.Pipeline {
	t.Helper()
	p, err := catalog.Parse("pipeline.yaml", []byte("version: 1\ndatabase: lake\nsource: {engine: "+string(s.Engine)+", position: "+position+"}\ntables:\n"+s.Define().Pipeline+
		"- source: "+other+"\n  mode: mirror\n  key: [id]\n  columns:\n    - {name: id, type: long}\n    - {name: note, type: string}\n"))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A running is a writer at work.
type running struct {
	stop  context.CancelFunc
	beats chan struct{}
	ended chan ending
	log   bytes.Buffer // to be read when it has ended
}

type ending struct {
	result heartbeat.Result
	err    error
}

// start starts a writer of nine rows.
func start(t *testing.T, s *heartbeat.Source, lock time.Duration) *running {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	w := &running{stop: stop, beats: make(chan struct{}, 1), ended: make(chan ending, 1)}
	o := options(9)
	o.LockTimeout = lock
	o.Log = slog.New(slog.NewJSONHandler(&w.log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	o.Beat = func() {
		select {
		case w.beats <- struct{}{}:
		default:
		}
	}
	go func() {
		result, err := heartbeat.Run(ctx, s, o)
		w.ended <- ending{result, err}
	}()
	return w
}

// next waits for a beat that begins from now on: one may be waiting to be seen,
// and another be at work.
func (w *running) next(t *testing.T) {
	t.Helper()
	for range 3 {
		select {
		case <-w.beats:
		case e := <-w.ended:
			t.Fatalf("ended by itself: %+v", e)
		}
	}
}

func (w *running) end() ending {
	w.stop()
	return <-w.ended
}
