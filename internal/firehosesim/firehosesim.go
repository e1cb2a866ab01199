// Package firehosesim stands in for what lies between a Kinesis data stream
// and a Firehose destination: it cuts each shard into invocation batches and,
// from a seed, delivers them as badly as Firehose and its retries are allowed to.
//
// In come the records of a stream, each shard in its own order; out come
// batches. Every record is delivered at least once. Nothing is promised about
// order, neither between shards nor, when the delivery is hostile, within one.
package firehosesim

import (
	"iter"
	"math/rand/v2"
	"slices"

	"icehose/cdc/kinesis"
)

// A Record is a record and its 0-based number in its shard.
type Record struct {
	kinesis.Record
	Ordinal uint64
}

// A Batch is what one invocation of the transform is given. A batch holds
// records of one shard, none of them twice: Firehose tells the answers apart
// by the record's id.
type Batch struct {
	Records []Record
	// Again says that the batch was delivered before, byte for byte.
	Again bool
}

// Settings say how batches are cut and how hostile the delivery is. The zero
// value of a probability switches that hostility off.
type Settings struct {
	BatchRecords int // records in a batch at most
	BatchBytes   int // bytes of record data in a batch at most, unless one record is larger

	Retry     float64 // a batch is delivered once more, some batches later
	Duplicate float64 // a record is delivered again at once, in a batch of its own kind
	Late      float64 // a record is held back and delivered some batches later
	Stale     float64 // a record is delivered again long after
	Delay     int     // how many batches later, at most
}

// Calm cuts batches as Firehose does by default (1 MB) and delivers each shard
// in order, once.
func Calm() Settings { return Settings{BatchRecords: 500, BatchBytes: 1 << 20} }

// Hostile is Calm plus everything that Kinesis, Firehose and their retries may
// do to order and number.
func Hostile() Settings {
	s := Calm()
	s.Retry, s.Duplicate, s.Late, s.Stale, s.Delay = 0.10, 0.02, 0.03, 0.02, 40
	return s
}

// pending is a batch that is due after a number of batches.
type pending struct {
	due   int
	batch Batch
}

// Deliver yields the batches of a stream. shards holds the records of each
// shard in order. The same seed gives the same batches.
func Deliver(shards [][]Record, s Settings, seed uint64) iter.Seq[Batch] {
	return func(yield func(Batch) bool) {
		d := &delivery{settings: s, random: rand.New(rand.NewPCG(seed, 0x1ce4052)), left: slices.Clone(shards)}
		d.run(yield)
	}
}

type delivery struct {
	settings Settings
	random   *rand.Rand
	left     [][]Record // what each shard still has
	waiting  []pending
	count    int // batches delivered
}

func (d *delivery) run(yield func(Batch) bool) {
	for {
		if i := slices.IndexFunc(d.waiting, func(p pending) bool { return p.due <= d.count }); i >= 0 {
			batch := d.waiting[i].batch
			d.waiting = slices.Delete(d.waiting, i, i+1)
			if !d.send(batch, yield) {
				return
			}
			continue
		}
		batch, ok := d.next()
		if !ok {
			if len(d.waiting) == 0 {
				return
			}
			// The shards are read to their ends: what waits is due now.
			for i := range d.waiting {
				d.waiting[i].due = d.count
			}
			d.random.Shuffle(len(d.waiting), func(i, j int) { d.waiting[i], d.waiting[j] = d.waiting[j], d.waiting[i] })
			continue
		}
		if len(batch.Records) > 0 && !d.send(batch, yield) {
			return
		}
	}
}

func (d *delivery) send(b Batch, yield func(Batch) bool) bool {
	d.count++
	if !b.Again && d.happens(d.settings.Retry) {
		again := Batch{Records: b.Records, Again: true}
		d.waiting = append(d.waiting, pending{due: d.later(), batch: again})
	}
	return yield(b)
}

// next cuts a batch off a shard chosen at random, so that shards run apart.
func (d *delivery) next() (b Batch, ok bool) {
	var open []int
	for i, records := range d.left {
		if len(records) > 0 {
			open = append(open, i)
		}
	}
	if len(open) == 0 {
		return Batch{}, false
	}
	shard := open[d.random.IntN(len(open))]
	limit := max(1, d.settings.BatchRecords)
	if d.settings.Delay > 0 {
		limit = 1 + d.random.IntN(limit)
	}
	var late, stale, twice []Record
	size := 0
	records := d.left[shard]
	n := 0
	for n < len(records) && n < limit {
		r := records[n]
		if size > 0 && size+len(r.Data) > d.settings.BatchBytes {
			break
		}
		n++
		size += len(r.Data)
		if d.happens(d.settings.Late) {
			late = append(late, r)
			continue
		}
		b.Records = append(b.Records, r)
		if d.happens(d.settings.Duplicate) {
			twice = append(twice, r)
		}
		if d.happens(d.settings.Stale) {
			stale = append(stale, r)
		}
	}
	d.left[shard] = records[n:]
	if len(twice) > 0 {
		d.waiting = append(d.waiting, pending{due: d.count + 1, batch: Batch{Records: twice}})
	}
	for _, held := range [][]Record{late, stale} {
		if len(held) > 0 {
			d.waiting = append(d.waiting, pending{due: d.later(), batch: Batch{Records: held}})
		}
	}
	return b, true
}

func (d *delivery) later() int { return d.count + 1 + d.random.IntN(max(1, d.settings.Delay)) }

func (d *delivery) happens(probability float64) bool {
	return probability > 0 && d.random.Float64() < probability
}
