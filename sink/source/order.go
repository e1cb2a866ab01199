package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"icehose/cdc/kinesis"
)

// openingSize is how much of a file is looked at, unpacked, before anything is
// yielded: enough for a record of every shard where shards alternate.
const openingSize = 16 << 10

// openingMost is how much is looked at where that does not tell by which order of
// their names files follow each other.
const openingMost = 4 << 20

// An opening is the first record of a shard in a file, as far as it was looked at. Those without a decimal sequence number tell nothing.
type opening struct {
	shard, sequence string
	at              place
	line            int
}

func (o *opening) where() string { return fmt.Sprint(o.at.path, ":", o.line) }

// An order is how the files of one name are sorted: by the alphabet, or once
// sequence numbers have shown that it must be so, by the numbers in their names.
type order struct {
	numbers bool
	settled bool // as much was looked at as there is to
}

func (o *order) compare(a, b string) int {
	if o != nil && o.numbers {
		return compareNumbers(a, b)
	}
	return strings.Compare(a, b)
}

// compareNumbers compares two names in which digits side by side are a number.
// Where numbers are equal or have as many digits, it is as the alphabet has it.
func compareNumbers(a, b string) int {
	for a != "" && b != "" {
		m, n := digits(a), digits(b)
		if m == 0 || n == 0 {
			if a[0] != b[0] {
				return cmp.Compare(a[0], b[0])
			}
			a, b = a[1:], b[1:]
			continue
		}
		x, y := strings.TrimLeft(a[:m], "0"), strings.TrimLeft(b[:n], "0")
		if c := cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(x, y), strings.Compare(a[:m], b[:n])); c != 0 {
			return c
		}
		a, b = a[m:], b[n:]
	}
	return cmp.Compare(len(a), len(b))
}

// digits returns how many digits a text begins with.
func digits(s string) int { return len(s) - len(strings.TrimLeft(s, "0123456789")) }

// A listing is what is known of the files that are read.
type listing struct {
	orders   []order              // by index in Names
	openings map[string][]opening // by path, of files in which something stood when they were looked at
	cursors  map[string]*cursor   // by path
	held     []*holding
	unpacker *zstd.Decoder // of look, for one file after another; nil before the first
}

func (f *Files) newListing() *listing {
	l := &listing{orders: make([]order, len(f.Names)), openings: make(map[string][]opening), cursors: make(map[string]*cursor)}
	maps.Copy(l.openings, f.checked)
	return l
}

// Check refuses files that are not in the order of the stream, as far as the
// first records of those that are there show it, and names of which no file is
// there. Records does the same before it yields anything: Check is for those who
// want to know before they open what the records go into; Records then does not
// look again.
func (f *Files) Check(ctx context.Context) error {
	l := f.newListing()
	defer l.close()
	err := f.check(ctx, l)
	f.checked = l.openings
	return err
}

func (f *Files) check(ctx context.Context, l *listing) error {
	if slices.Contains(f.Names, "-") {
		return nil // which read refuses along with others
	}
	places, err := f.list(l)
	if err != nil || f.Redriven {
		return err
	}
	for _, at := range places {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // reading says it, or does not begin
		}
		l.look(at)
	}
	latest := make(map[string]opening) // by shard
	for _, at := range places {
		for _, o := range l.openings[at.path] {
			before, any := latest[o.shard]
			if any && !isBehind(o.sequence, before.sequence) {
				return misplaced(&before, &o)
			}
			latest[o.shard] = o
		}
	}
	return nil
}

// isBehind says that a decimal sequence number is greater than another one.
func isBehind(a, b string) bool {
	c, err := compareSequences(a, b)
	return err != nil || c > 0
}

// misplaced is the error about two files of which the second one read has to
// come first, or that are the same.
func misplaced(before, after *opening) error {
	if before.sequence == after.sequence {
		return fmt.Errorf("read records: %s and %s have the same record, sequence number %s of shard %s: %w: "+
			"the files probably have the same records: give one of them; nothing was delivered",
			before.where(), after.where(), after.sequence, after.shard, ErrOrder)
	}
	advice := "give " + after.at.path + " before " + before.at.path
	if before.at.name == after.at.name {
		advice = "their names do not sort as they follow each other: give each file by its name, " + after.at.path + " before " + before.at.path
	} else if filepath.Dir(after.at.path) == filepath.Dir(before.at.path) && compareNumbers(after.at.path, before.at.path) < 0 {
		advice += ", or their folder, or a pattern in quotes: its files are read by the numbers in their names"
	}
	return fmt.Errorf("read records: %s comes before %s, although it is later in the stream: "+
		"shard %s has sequence number %s in %s, and then %s in %s: %w: %s; nothing was delivered",
		before.at.path, after.at.path, after.shard, before.sequence, before.where(), after.sequence, after.where(), ErrOrder, advice)
}

// look notes the openings of a file that was empty or not there before. What
// cannot be read tells nothing here: the reading says why.
func (l *listing) look(at place) {
	if _, done := l.openings[at.path]; done {
		return
	}
	info, err := os.Stat(at.path)
	if err != nil || info.Size() == 0 && info.Mode().IsRegular() {
		return
	}
	if !info.Mode().IsRegular() { // which can be read only once
		l.openings[at.path] = nil
		return
	}
	l.lookAt(at, openingSize)
}

// lookAt notes the openings of a file as far as limit bytes show them.
func (l *listing) lookAt(at place, limit int) {
	var found []opening
	size, err := l.scan(at.path, limit, func(line int, r *kinesis.Record) bool {
		_, undecimal := compareSequences(r.SequenceNumber, "0")
		if undecimal == nil && !slices.ContainsFunc(found, func(o opening) bool { return o.shard == r.ShardID }) {
			found = append(found, opening{shard: r.ShardID, sequence: r.SequenceNumber, at: at, line: line})
		}
		return true
	})
	if size > 0 || err != nil && !isCut(err) {
		l.openings[at.path] = found
	}
}

// scan hands out the records of a file with their lines, as long as some are
// wanted and no more than limit bytes were read, unless that is negative. It
// returns the size of the lines that it has read; half of one does not count.
func (l *listing) scan(path string, limit int, record func(line int, r *kinesis.Record) bool) (size int, err error) {
	in, err := l.open(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	lines := newLines(in)
	for n := 1; limit < 0 || size < limit; n++ {
		text, err := lines.next()
		r, bad := kinesis.Parse(text)
		if err == nil || bad == nil {
			size += len(text)
		}
		if bad == nil && !record(n, &r) {
			return size, nil
		}
		if err != nil {
			return size, err
		}
	}
	return size, nil
}

// open opens a file as kinesis.Open does. What unpacks a .zst file is used again:
// to make it takes longer than to read a small file.
func (l *listing) open(path string) (io.ReadCloser, error) {
	if !strings.HasSuffix(path, ".zst") {
		return kinesis.Open(path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if l.unpacker == nil {
		l.unpacker, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	}
	if err == nil {
		err = l.unpacker.Reset(file)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return struct {
		io.Reader
		io.Closer
	}{l.unpacker, file}, nil
}

// arrange sorts the files of one name, which come by the alphabet. Where that is
// not the order of their records, and that of the numbers in their names is, the
// latter holds; else nothing tells, and the order is what it always was: the
// ordinals of a lake that was filled before depend on it. While both differ and a
// file is followed, one that is still empty has to wait until it can tell.
func (f *Files) arrange(l *listing, group []place) []place {
	by := group[0].by
	sorted := slices.SortedFunc(slices.Values(group), func(p, q place) int { return compareNumbers(p.path, q.path) })
	if f.Redriven || slices.Equal(sorted, group) {
		return group
	}
	for _, at := range group {
		l.look(at)
	}
	if !by.numbers {
		by.numbers = l.numbered(by, group, sorted)
	}
	if by.numbers {
		group = sorted
	}
	if !f.Follow {
		return group
	}
	return slices.DeleteFunc(group, func(at place) bool {
		_, tells := l.openings[at.path]
		c := l.cursors[at.path]
		return !tells && (c == nil || c.read == 0)
	})
}

// numbered says that files follow each other by the numbers in their names, and
// not by the alphabet. While their openings allow both, as where each has records
// of other shards, more of them is looked at, once.
func (l *listing) numbered(by *order, alphabet, numbers []place) bool {
	for limit := openingSize; ; {
		a, n := l.ascend(alphabet), l.ascend(numbers)
		if !a || !n || by.settled || limit >= openingMost {
			by.settled = true
			return !a && n
		}
		limit *= 16
		for _, at := range alphabet {
			if len(l.openings[at.path]) > 0 {
				l.lookAt(at, limit)
			}
		}
	}
}

// ascend says that the openings of files do not go back.
func (l *listing) ascend(places []place) bool {
	latest := make(map[string]string) // by shard
	for _, at := range places {
		for _, o := range l.openings[at.path] {
			if c, err := compareSequences(o.sequence, cmp.Or(latest[o.shard], "0")); err == nil && c < 0 {
				return false
			}
			latest[o.shard] = o.sequence
		}
	}
	return true
}

// jumps says that a place comes behind another one by the numbers in their names,
// and not by the alphabet.
func (p place) jumps(from place) bool {
	return p.name == from.name && p.by != nil && p.by.numbers && p.path < from.path
}
