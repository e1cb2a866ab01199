package iceberg_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/sink"
	"icehose/sink/iceberg"
	"icehose/sink/sinktest"
)

var (
	childLake = flag.String("child-lake", "", "lake that this process writes until it is killed")
	childDies = flag.Int64("child-dies", -1, "it maintains the lake instead, and kills itself at this write")
)

// TestMain lets the test binary be its own victim.
func TestMain(m *testing.M) {
	flag.Parse()
	if *childLake == "" {
		m.Run()
		return
	}
	work := writeLake
	if *childDies >= 0 {
		work = maintainLake
	}
	if err := work(context.Background(), *childLake, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		panic(err)
	}
}

const (
	killKeys    = 40
	killRecords = 3000
)

// killStream is a fixed stream of upserts and deletes, in an order in which a
// tenth of the records come late.
func killStream() (stream []sink.Delivery, want [][]string) {
	r := rand.New(rand.NewPCG(7, 7))
	current := make(map[int]string)
	for n := range killRecords {
		id := r.IntN(killKeys)
		row := &sink.Row{Database: "lake", Table: "item", Operation: cdc.Update}
		value := strconv.Itoa(n)
		current[id] = value
		if r.IntN(4) == 0 {
			row.Operation = cdc.Delete
			delete(current, id)
		}
		row.Data = fmt.Appendf(nil, `{"id":%d,"v":"%s","cdc_position":"%s","cdc_committed_at":"2026-01-01T00:00:00.%06dZ"}`,
			id, value, cdc.ChangePosition(0, cdc.Body{Lo: uint64(n)}, 0), n)
		stream = append(stream, sink.Delivery{Offset: sink.Offset{Shard: "s", Sequence: strconv.Itoa(n), Ordinal: uint64(n)}, Row: row})
	}
	for range killRecords / 10 {
		i, j := r.IntN(killRecords), r.IntN(killRecords)
		stream[i], stream[j] = stream[j], stream[i]
	}
	for id, value := range current {
		want = append(want, []string{strconv.Itoa(id), value})
	}
	slices.SortFunc(want, slices.Compare)
	return stream, want
}

// writeLake delivers the stream from its start and says when it has delivered
// another part of it.
func writeLake(ctx context.Context, dir string, out io.Writer) (err error) {
	store, err := iceberg.Open(ctx, dir, iceberg.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	p, err := pipeline()
	if err != nil {
		return err
	}
	s, err := sink.Open(ctx, p, store, sink.Options{FlushRows: 25})
	if err != nil {
		return err
	}
	stream, _ := killStream()
	for part := range slices.Chunk(stream, 50) {
		if err := s.Deliver(ctx, part); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, "delivered"); err != nil {
			return err
		}
	}
	return s.Close(ctx)
}

// TestKill kills a writer with SIGKILL at random moments, again and again, and
// then lets one finish.
func TestKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(11, 1))
	killed := 0
	for range 6 {
		child := exec.CommandContext(t.Context(), os.Args[0], "-child-lake="+dir)
		child.Stderr = os.Stderr
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for range 1 + r.IntN(25) {
			lines.Scan()
		}
		// Anywhere in the next part, not at its end only.
		<-time.After(time.Duration(r.IntN(8000)) * time.Microsecond)
		if err := child.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := child.Wait(); err != nil {
			killed++
		}
	}
	if killed < 3 {
		t.Fatalf("only %d writers were killed before they had finished", killed)
	}
	if err := writeLake(t.Context(), dir, io.Discard); err != nil {
		t.Fatal(err)
	}
	store := open(t, dir)
	defer closeStore(t, store)
	p, err := pipeline()
	if err != nil {
		t.Fatal(err)
	}
	def := p.ByTarget("lake", "item")
	table, err := store.OpenTable(t.Context(), def)
	if err != nil {
		t.Fatal(err)
	}
	var got [][]string
	for _, row := range sinktest.Contents(t.Context(), t, table, def) {
		got = append(got, row[:2])
	}
	_, want := killStream()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("rows (-want +got):\n%s", diff)
	}
}

// maintainLake maintains the table of a workload until it dies.
func maintainLake(ctx context.Context, dir string, _ io.Writer) (err error) {
	var writes atomic.Int64
	store, err := iceberg.Open(ctx, dir, iceberg.Options{Sync: func(f *os.File) error {
		if writes.Add(1) <= *childDies {
			return f.Sync()
		}
		self, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = self.Kill()
		}
		if err != nil {
			panic(err)
		}
		select {}
	}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	p, err := catalog.Parse("pipeline.yaml", fmt.Appendf(nil, maintainTables, "mirror", "", ""))
	if err != nil {
		return err
	}
	_, err = store.Maintain(ctx, p.Tables[0], small)
	return err
}

// TestKillMaintenance kills maintenance with SIGKILL at its first write, at its
// second, and so on until it comes through. Each time the table keeps its rows
// and its sink goes on; what was written in vain are orphans of a later run.
func TestKillMaintenance(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := newWorkloadIn(t, openUnsynced(t, dir), "mirror", "", "")
	killed := 0
	for ; ; killed++ {
		for range 5 {
			w.commit(10, 50)
		}
		closeStore(t, w.store)
		out, err := exec.CommandContext(t.Context(), os.Args[0], "-child-lake="+dir, fmt.Sprint("-child-dies=", killed)).CombinedOutput()
		w.store = openUnsynced(t, dir)
		w.open()
		w.check(fmt.Sprintf("after death at write %d", killed))
		if err == nil {
			break
		}
		if len(out) > 0 || killed > 200 {
			t.Fatalf("not killed: %v\n%s", err, out)
		}
	}
	if killed < 10 {
		t.Errorf("only %d writes: nothing was tested", killed)
	}
	w.age(24 * time.Hour * 10)
	if report := w.maintain(small); len(report.Orphans) < killed/2 {
		t.Errorf("%d kills have left %d orphans", killed, len(report.Orphans))
	}
	w.open()
	w.check("after the orphans were removed")
}
