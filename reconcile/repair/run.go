package repair

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/reconcile"
	"icehose/sink"
)

// Options are the settings of Run. Now is required.
type Options struct {
	// Changelogs repairs changelogs only; mirrors are left.
	Changelogs bool
	// Rounds is how many times a key is written at most; default 8.
	Rounds int
	// Now gives the time of a source that has no clock.
	Now func() time.Time
	// Wait waits between rounds; default a timer.
	Wait func(context.Context, time.Duration) error
	Sink sink.Options
}

const defaultRounds = 8

// shard is the shard that repaired rows belong to. It is none of a stream, and
// its records are numbered on from the repair before.
const shard = sink.RepairShard

// Run repairs the keys of a plan through the sink. lake reads what store
// writes. What keeps a table from being repaired is in its result; the error is
// that of a cancelled context.
func Run(ctx context.Context, p *catalog.Pipeline, source, lake reconcile.Reader, store sink.Store, plan *Plan, o Options) (*Result, error) {
	if o.Rounds <= 0 {
		o.Rounds = defaultRounds
	}
	if o.Wait == nil {
		o.Wait = reconcile.Wait
	}
	result := &Result{Tables: []TableResult{}, NotPlanned: plan.Left}
	for _, t := range p.Tables {
		keys, _ := plan.keysOf(t.Source)
		if len(keys) == 0 {
			continue
		}
		r := repairer{pipeline: p, source: source, lake: lake, table: t, options: &o, result: TableResult{Table: t.Source, Keys: len(keys)}, open: keys}
		err := r.run(ctx, store)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("repair: %w", context.Cause(ctx))
		}
		r.result.Left = len(r.open)
		if err != nil {
			r.result.Why = err.Error()
		}
		result.Tables = append(result.Tables, r.result)
	}
	return result, nil
}

// A repairer repairs one table.
type repairer struct {
	pipeline     *catalog.Pipeline
	source, lake reconcile.Reader
	table        *catalog.Table
	options      *Options
	result       TableResult
	open         [][]string // keys that are not known to agree

	writer   *sink.Sink
	next     uint64 // ordinal of the next row
	rejected error
}

// alone is a store without checkpoints: those speak of a stream.
type alone struct{ sink.Store }

// pauseAfter is the wait after the first round; each later one is longer by it.
const pauseAfter = 200 * time.Millisecond

func (r *repairer) run(ctx context.Context, store sink.Store) (err error) {
	if r.options.Changelogs && r.table.Mode != catalog.Changelog {
		return errors.New("a mirror is not repaired by appending: --repair sink or --repair sql does it")
	}
	if err := r.compare(ctx); err != nil || len(r.open) == 0 {
		r.result.Agreed = r.result.Keys - len(r.open)
		return err
	}
	r.result.Agreed = r.result.Keys - len(r.open)
	if err := r.begin(ctx, store); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.writer.Abandon()) }() // everything is flushed
	for r.result.Rounds < r.options.Rounds {
		before := r.lost()
		written := len(r.open)
		if err := r.write(ctx); err != nil {
			return err
		}
		r.result.Rounds++
		if err := r.compare(ctx); err != nil || len(r.open) == 0 {
			return err
		}
		if r.rejected != nil {
			return fmt.Errorf("write rows: %w", r.rejected)
		}
		if r.lost()-before == int64(written) {
			return errors.New("the lake holds these keys at positions above that of the source: an epoch may be missing from the pipeline file, or the source is not the one that the lake was filled from")
		}
		if err := r.options.Wait(ctx, time.Duration(r.result.Rounds)*pauseAfter); err != nil {
			return err
		}
	}
	return errors.New("they keep changing faster than they are written: run it again")
}

// begin opens the sink for the table.
func (r *repairer) begin(ctx context.Context, store sink.Store) error {
	one := *r.pipeline
	one.Tables = []*catalog.Table{r.table}
	o := r.options.Sink
	o.Reject = func(_ sink.Offset, err *sink.RejectError) error {
		r.rejected = err
		return nil
	}
	var err error
	if r.writer, err = sink.Open(ctx, &one, alone{store}, o); err != nil {
		return fmt.Errorf("open sink: %w", err)
	}
	r.next = r.writer.Handled()[shard]
	return nil
}

// lost counts rows that lost against what the lake holds.
func (r *repairer) lost() int64 { return r.writer.Stats()[0].Superseded }

// compare reads the open keys on both sides and keeps those that differ. It
// does not settle: writing a row that is only late does no harm.
func (r *repairer) compare(ctx context.Context) error {
	keys, err := reconcile.NewKeys(r.table, r.open)
	if err != nil {
		return err
	}
	report, err := reconcile.Run(ctx, r.pipeline, r.source, r.lake, reconcile.Options{
		Keys: map[string]*reconcile.Keys{r.table.Source: keys}, MaxFindings: 2*len(r.open) + 1, Now: r.options.Now,
	})
	if err != nil {
		return err
	}
	t := &report.Tables[0]
	if t.Verdict == reconcile.Inconclusive {
		return errors.New(t.Why)
	}
	differ := make(map[string]bool, len(t.Findings))
	for _, f := range t.Findings {
		differ[identify(f.Key)] = true
	}
	r.open = slices.DeleteFunc(r.open, func(key []string) bool { return !differ[identify(key)] })
	return nil
}

// write writes the source's rows of the open keys.
func (r *repairer) write(ctx context.Context) error {
	known := func(ctx context.Context) (cdc.Position, error) {
		inRows, err := newest(ctx, r.lake, r.table)
		return max(inRows, r.writer.Highest(r.table.Database(), r.table.Name())), err
	}
	err := read(ctx, r.pipeline, r.source, r.table, r.open, r.options.Now(), known, func(m moment, source row) error {
		out, err := r.deliverable(m, source)
		if err != nil {
			return err
		}
		d := sink.Delivery{Offset: sink.Offset{Shard: shard, Ordinal: r.next}, Row: out}
		if err := r.writer.Deliver(ctx, []sink.Delivery{d}); err != nil {
			return fmt.Errorf("write rows: %w", err)
		}
		r.next++
		if source.values == nil {
			r.result.Deleted++
		} else {
			r.result.Upserted++
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := r.writer.Flush(ctx); err != nil {
		return fmt.Errorf("write rows: %w", err)
	}
	return nil
}

// deliverable is a row as the sink takes it. A row that stays has no commit
// time: nobody may take it for a sign of how far the lake has come. When the
// source was read, its position tells, and the history of a changelog by it.
func (r *repairer) deliverable(m moment, source row) (*sink.Row, error) {
	columns, data := r.table.LakeColumns()
	values := make(map[string]any, len(columns))
	for i, c := range columns {
		values[c.Name] = nil
		if i < data && source.values != nil && source.values[i] != nil {
			values[c.Name] = string(source.values[i])
		}
	}
	for n, name := range r.table.Key {
		values[name] = source.key[n]
	}
	values[catalog.ColumnPosition] = string(m.position)
	out := &sink.Row{Database: r.table.Database(), Table: r.table.Name(), Operation: cdc.Update}
	gone := source.values == nil
	switch {
	case r.table.Mode == catalog.Changelog:
		out.Operation = cdc.Insert // whatever the row tells of
		values[catalog.ColumnOperation] = cdc.Load.String()
		if gone {
			values[catalog.ColumnOperation] = cdc.Delete.String()
		}
	case gone:
		out.Operation = cdc.Delete
		values[catalog.ColumnCommittedAt] = m.at.UTC().Format("2006-01-02T15:04:05.000000Z")
	}
	var err error
	if out.Data, err = json.Marshal(values); err != nil {
		return nil, fmt.Errorf("write row: %w", err)
	}
	return out, nil
}
