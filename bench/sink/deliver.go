package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"icehose/bench/sink/stream"
	"icehose/cdc"
	"icehose/sink"
	"icehose/sink/iceberg"
)

// base yields the changes that fill a table, mixed those that follow.
func (b *bench) base(yield func(*stream.Change) error) error {
	for n := range uint64(b.rows) { //nolint:gosec // a number of rows
		c := stream.NewKey(n)
		if err := yield(&c); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) mixed(yield func(*stream.Change) error) error { return b.mix(b.changes, yield) }

// mix yields that many of them, or more of the same kind.
func (b *bench) mix(count int, yield func(*stream.Change) error) error {
	r := rand.New(rand.NewPCG(1, 1))
	for n := range count {
		c := stream.Mixed(r, b.rows, uint64(b.rows+n)) //nolint:gosec // a number of rows
		if err := yield(&c); err != nil {
			return err
		}
	}
	return nil
}

// writePart writes a file of records: number, operation and length as varints,
// then the row. Making rows costs as much as writing them, so it is done before.
func writePart(path string, t stream.Table, changes func(func(*stream.Change) error) error) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	out := bufio.NewWriterSize(f, 1<<20)
	var row, head []byte
	err = changes(func(c *stream.Change) error {
		row = t.Append(row[:0], c)
		head = binary.AppendUvarint(head[:0], c.N)
		head = binary.AppendUvarint(head, uint64(c.Operation))
		head = binary.AppendUvarint(head, uint64(len(row)))
		if _, err := out.Write(head); err != nil {
			return err
		}
		_, err := out.Write(row)
		return err
	})
	return errors.Join(err, out.Flush())
}

// batchRecords is how many records are delivered at a time, as by icehose sink.
const batchRecords = 500

// readPart reads a batch of records; its rows lie in arena.
func readPart(in *bufio.Reader, t stream.Table, arena []byte) (batch []sink.Delivery, _ []byte, err error) {
	arena = arena[:0]
	for range batchRecords {
		var head [3]uint64
		for i := range head {
			if head[i], err = binary.ReadUvarint(in); err != nil {
				if i == 0 && errors.Is(err, io.EOF) {
					return batch, arena, nil
				}
				return nil, arena, err
			}
		}
		at := len(arena)
		arena = append(arena, make([]byte, head[2])...)
		if _, err := io.ReadFull(in, arena[at:]); err != nil {
			return nil, arena, err
		}
		c := stream.Change{N: head[0], Operation: cdc.Operation(head[1])} //nolint:gosec // written as one
		batch = append(batch, t.Delivery(&c, arena[at:len(arena):len(arena)]))
	}
	return batch, arena, nil
}

// A delivered is what a process that has delivered a part says of it.
type delivered struct {
	Open    float64 `json:"open"`    // seconds until the sink knew its table
	Seconds float64 `json:"seconds"` // from the first record to the last commit
	Peak    int64   `json:"peak"`    // MB of memory, 0 if unknown
}

// deliver is such a process.
func deliver(ctx context.Context, lake, part string, t stream.Table, out io.Writer) (err error) {
	p, err := stream.Pipeline(t)
	if err != nil {
		return err
	}
	began := time.Now() //nolint:forbidigo // a benchmark
	store, err := iceberg.Open(ctx, lake, iceberg.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	s, err := sink.Open(ctx, p, store, sink.Options{FlushRows: sinkRows, Background: true})
	if err != nil {
		return err
	}
	f, err := os.Open(part)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	d := delivered{Open: time.Since(began).Seconds()}
	began = time.Now() //nolint:forbidigo // a benchmark
	in := bufio.NewReaderSize(f, 1<<20)
	var arena []byte
	for {
		var batch []sink.Delivery
		if batch, arena, err = readPart(in, t, arena); err != nil {
			return err
		}
		if len(batch) == 0 {
			break
		}
		if err := s.Deliver(ctx, batch); err != nil {
			return err
		}
	}
	if err := s.Close(ctx); err != nil {
		return err
	}
	d.Seconds, d.Peak = time.Since(began).Seconds(), peak()
	return json.NewEncoder(out).Encode(d)
}

// peak returns the greatest memory of this process so far, in MB; 0 where the
// system does not tell. That of a finished child would begin with its parent's.
func peak() int64 {
	text, _, _ := strings.Cut(told("/proc/self/status", "VmHWM"), " ")
	kilobytes, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return kilobytes / 1000
}

// told returns what a file of the system says of something, "" if nothing.
func told(file, name string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if found, value, _ := strings.Cut(line, ":"); strings.TrimSpace(found) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// sink delivers a part in a process of its own.
func (b *bench) sink(ctx context.Context, part string, t stream.Table) (d delivered, err error) {
	self, err := os.Executable()
	if err != nil {
		return d, err
	}
	return d, answerOf(exec.CommandContext(ctx, self, "-deliver", part, "-dir", b.dir, "-table", t.Name, "-mode", t.Mode, "-reader", t.Reader), &d)
}

// answerOf runs a command and reads the JSON that it prints.
func answerOf(cmd *exec.Cmd, answer any) error {
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("run %s: %w\n%s", strings.Join(cmd.Args, " "), err, problems.String())
	}
	if err := json.Unmarshal(out, answer); err != nil {
		return fmt.Errorf("run %s: %w in %q", cmd.Args[0], err, out)
	}
	return nil
}
