package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"icehose/cdc"
	"icehose/cdc/capture"
	"icehose/cdc/kinesis"
	"icehose/sink"
)

// Files are recorded streams: files of package cdc/kinesis, plain, .gz or .zst.
// They are one stream, in the order of Names and, of a folder or a pattern, of
// the alphabet, or of the numbers in their names (part-2 before part-10) where
// sequence numbers show that this is the stream's. A shard may go on from file to
// file but never back, since its records would be numbered otherwise the next
// time. Within a shard sequence numbers ascend, as a stream gives them out; what
// does not is ErrOrder, before anything is yielded if the first records of the
// files that are there show it (Check). A file that is followed keeps its name
// and only grows: one that holds no more what was read of it is an error.
type Files struct {
	// Names are files, folders (what they hold that ends in .ndjson, .json or
	// .jsonl, compressed or not), patterns as of filepath.Match, or one "-"
	// for Input.
	Names []string
	Input io.Reader
	// Follow goes on when everything was read: with what files have grown by,
	// and with new files. A line counts once it has its end.
	Follow bool
	// Wait waits until it is worth to look again; required to follow. Its
	// error, which is that of its context, ends the source.
	Wait func(context.Context) error
	// Continue says that the files begin somewhere in the stream, not later
	// than behind the last handled record: what is handled is told by sequence
	// numbers, and records that are missing in between are not noticed.
	Continue bool
	// Uneven are the shards of which not all tables have the same records
	// (Sink.Uneven). With Continue their records can be numbered only where the
	// files go back to what every table has. Without, those of which there is no
	// such record are counted before anything is yielded: what one table alone
	// would take for the start of the stream may be its middle.
	Uneven map[string]sink.Uneven
	// Redriven says that the records failed before and come from a file of
	// failures, which is a stream of its own, known by the file's name.
	Redriven bool

	checked  map[string][]opening // what Check has seen
	progress progress
}

var _ Source = (*Files)(nil)

// maxLine bounds what one record may need in memory: six times the largest
// record of a stream (10 MiB), for a text that is escaped throughout.
const maxLine = 64 << 20

// A place is where a file stands among the others.
type place struct {
	name int // index in Names
	path string
	by   *order // of the files of that name
}

func (p place) before(q place) bool {
	return p.name < q.name || p.name == q.name && p.by.compare(p.path, q.path) < 0
}

func (p place) base() string { return filepath.Base(p.path) }

// Records implements Source.
func (f *Files) Records(ctx context.Context, after map[string]sink.Offset) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		n := &numbering{after: after, resumes: f.Continue, uneven: f.Uneven, redriven: f.Redriven, shards: make(map[string]*shard)}
		l := f.newListing()
		defer l.close()
		err := f.check(ctx, l)
		if err == nil {
			err = f.count(ctx, l, n)
		}
		if err == nil {
			err = f.read(ctx, l, n, yield)
		}
		if err != nil && !errors.Is(err, errStop) && ctx.Err() == nil {
			yield(Record{}, err)
		}
	}
}

// errStop is returned inside when the receiver wants no more.
var errStop = errors.New("stop")

func (f *Files) read(ctx context.Context, l *listing, n *numbering, yield func(Record, error) bool) error {
	if slices.Contains(f.Names, "-") {
		if len(f.Names) > 1 {
			return errors.New("read records: standard input cannot be read along with files")
		}
		return f.readInput(ctx, n, yield)
	}
	for {
		places, err := f.list(l)
		if err != nil {
			return err
		}
		if path := l.lost(); path != "" {
			return fmt.Errorf("read records: %s: %w", path, errReplaced)
		}
		for _, at := range places {
			c := l.cursors[at.path]
			if c == nil {
				c = &cursor{place: at}
				l.cursors[at.path] = c
			}
			c.extent = f.progress.reading(at.path)
			if err := f.readFile(ctx, l, c, n, yield); err != nil {
				return err
			}
		}
		if !f.Follow {
			return n.end()
		}
		if err := f.Wait(ctx); err != nil {
			return err
		}
	}
}

// list returns the files that are there, in order. One that was read before may
// be gone.
func (f *Files) list(l *listing) ([]place, error) {
	var places []place
	taken := make(map[string]bool)
	for i, name := range f.Names {
		paths, err := Expand(name)
		if errors.Is(err, fs.ErrNotExist) && l.cursors[name] != nil {
			continue
		}
		if err == nil && len(paths) == 0 && !f.Follow {
			err = errors.New("no file is there")
		}
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", name, err)
		}
		var group []place
		for _, path := range paths {
			same := cleaned(path)
			if taken[same] {
				continue
			}
			taken[same] = true
			group = append(group, place{i, path, &l.orders[i]})
		}
		if len(group) > 1 {
			group = f.arrange(l, group)
		}
		places = append(places, group...)
	}
	return places, nil
}

// Expand returns the files that a name of Files stands for, in order.
func Expand(name string) ([]string, error) {
	info, err := os.Stat(name)
	switch {
	case err == nil && !info.IsDir():
		return []string{name}, nil
	case err == nil:
		entries, err := os.ReadDir(name)
		if err != nil {
			return nil, err
		}
		var paths []string
		for _, e := range entries {
			if isRecords(e.Name()) {
				paths = append(paths, filepath.Join(name, e.Name()))
			}
		}
		return onlyFiles(paths), nil
	case isPattern(name):
		paths, err := filepath.Glob(name)
		slices.Sort(paths)
		return onlyFiles(paths), err
	}
	return nil, err
}

func onlyFiles(paths []string) []string {
	return slices.DeleteFunc(paths, func(path string) bool {
		info, err := os.Stat(path)
		return err != nil || !info.Mode().IsRegular()
	})
}

// isRecords tells by its name whether a file of a folder holds records.
func isRecords(name string) bool {
	switch filepath.Ext(strings.TrimSuffix(strings.TrimSuffix(name, ".gz"), ".zst")) {
	case ".ndjson", ".json", ".jsonl":
		return !strings.HasPrefix(name, ".")
	}
	return false
}

// readInput reads standard input, compressed or not, to its end.
func (f *Files) readInput(ctx context.Context, n *numbering, yield func(Record, error) bool) error {
	in, err := capture.Decompress(f.Input)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // what was read is checked as it is read
	c := &cursor{place: place{path: "-"}}
	if err := f.lines(ctx, c, in, true, n, yield); err != nil {
		return err
	}
	return n.end()
}

// readFile yields what a file has beyond the cursor.
func (f *Files) readFile(ctx context.Context, l *listing, c *cursor, n *numbering, yield func(Record, error) bool) error {
	info, err := os.Stat(c.place.path)
	if err == nil && c.file != nil && c.read == 0 && !os.SameFile(c.file, info) && l.wasEmpty(c.file) {
		*c = cursor{place: c.place, extent: c.extent} // with the other file nothing is lost
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) && c.file != nil:
		return nil // read and taken away
	case err != nil:
		return fmt.Errorf("read records: %w", err)
	case c.file != nil && c.unchanged(info):
		return nil
	case c.file != nil && info.Size() < c.file.Size() && os.SameFile(c.file, info):
		return fmt.Errorf("read records: %s has shrunk while it was followed", c.place.path)
	}
	grows := f.Follow && info.Mode().IsRegular()
	in, err := c.open(info)
	switch {
	case grows && isCut(err):
	case isCut(err):
		return cutError(c, err)
	case err != nil:
		return fmt.Errorf("read records: %s: %w", c.place.path, err)
	default:
		defer in.Close() //nolint:errcheck // what was read is checked as it is read
		if err := f.lines(ctx, c, in, !grows, n, yield); err != nil {
			return err
		}
	}
	c.mark.settle()
	c.file = info
	if grows {
		l.hold(c)
	}
	return nil
}

// isCut says that a compressed file ends in the middle.
func isCut(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) }

// cutError is the error about compressed records that end in the middle.
func cutError(c *cursor, err error) error {
	advice := "read it again once it is whole, or follow it"
	if c.place.path == "-" {
		advice = "read it again from its start"
	}
	return fmt.Errorf("read records: %s:%d: ends in the middle, and may still be being written: %s: %w", c.place.path, c.lines+1, advice, err)
}

// lines yields the records of in; last says that nothing will follow. Else a
// line without its end counts only when it is a whole record: those of files
// behind it are numbered after it.
func (f *Files) lines(ctx context.Context, c *cursor, in io.Reader, last bool, n *numbering, yield func(Record, error) bool) error {
	lines := newLines(in)
	defer c.note(in)
	for {
		text, err := lines.next()
		whole := err == nil
		switch {
		case err != nil && !isCut(err):
			return fmt.Errorf("read records: %s:%d: %w", c.place.path, c.lines+1, err)
		case err != nil && !errors.Is(err, io.EOF) && last:
			return cutError(c, err)
		}
		c.seen = c.read + int64(len(text))
		if !whole && (len(text) == 0 || !last && !isRecord(text)) {
			return nil
		}
		if ctx.Err() != nil {
			return errStop
		}
		c.read = c.seen
		c.note(in)
		if f.Follow {
			c.mark.add(text)
		}
		if err := f.line(c, text, whole, n, yield); err != nil {
			return err
		}
		if !whole {
			return nil
		}
	}
}

// line yields the record of one line, which may be the rest of one whose record
// was yielded before it had an end.
func (f *Files) line(c *cursor, text []byte, whole bool, n *numbering, yield func(Record, error) bool) error {
	text = trim(text)
	rest := c.unended
	if c.unended = !whole; !rest {
		c.lines++
	}
	if len(text) == 0 {
		return nil
	}
	if rest {
		return fmt.Errorf("read records: %s:%d: line goes on behind its record", c.place.path, c.lines)
	}
	out := Record{Place: c.place.path + ":" + strconv.Itoa(c.lines)}
	record, err := kinesis.Parse(text)
	if err != nil {
		out.Damaged, out.Fault, out.Data = true, err, slices.Clone(text)
		out.Unfinished = !whole && isUnfinished(text)
	} else {
		o, handled, err := n.number(&record, c.place, out.Place)
		if err != nil {
			return fmt.Errorf("read records: %s: %w", out.Place, err)
		}
		if handled {
			return nil
		}
		out.Offset, out.Origin = o, cdc.Origin{Shard: record.ShardID, Sequence: record.SequenceNumber}
		out.PartitionKey, out.ArrivedAt, out.Data = record.PartitionKey, record.ArrivedAt, record.Data
	}
	if !yield(out, nil) {
		return errStop
	}
	return nil
}
