// Package dump reads the source of a reconcile run from files: one file per
// table, written by the source's own tools or by capture.
//
// In comes a directory with a file SCHEMA.TABLE.ndjson or SCHEMA.TABLE.csv for
// each table, plain or compressed (.zst, .gz), in any row order, in UTF-8 with a
// byte order mark or without:
//
//	ndjson  one JSON object a line, column -> the text that the database
//	        writes for the value (value::text), as a JSON string, or null
//	csv     PostgreSQL's COPY ... (FORMAT csv, HEADER): an empty field without
//	        quotes is NULL, with quotes the empty text
//
// PostgreSQL's text of money depends on a language. That of en_US and C is read as
// its number, any other is an error: money::numeric is no such text.
//
// Out go row digests and row hashes (a reconcile.Reader). Every column of the
// table must be there, no other may be, and none twice; columns that the
// pipeline file excludes may be missing. Files are streamed: memory holds one
// row. The package does not know when a dump was taken: its user declares it
// to be final, the last state of a source that no longer changes.
package dump

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"icehose/catalog"
	"icehose/cdc/kinesis"
	"icehose/internal/canon"
	"icehose/reconcile"
)

// Options say what a dump is.
type Options struct {
	// Final declares that the dump shows the source after its last change, so
	// that a lake which holds all changes must equal it.
	Final bool
	// Engine wrote the texts: PostgreSQL (the default), MySQL or MariaDB.
	Engine catalog.Engine
}

// A Reader reads a dump directory.
type Reader struct {
	dir  string
	form canon.Form
	csv  bool // the engine's CSV is one that this package reads
}

var _ reconcile.Reader = (*Reader)(nil)

// Open returns a Reader of the dump in dir. Files are opened when their table
// is read.
func Open(dir string, o Options) (*Reader, error) {
	if !o.Final {
		return nil, errors.New("open dump: a dump has no position of its own: it must be declared final")
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("open dump: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("open dump: %s is not a directory", dir)
	}
	switch o.Engine {
	case catalog.PostgreSQL, "":
		return &Reader{dir: dir, form: canon.Postgres, csv: true}, nil
	case catalog.MySQL, catalog.MariaDB:
		return &Reader{dir: dir, form: canon.MySQL}, nil
	case catalog.Oracle, catalog.SQLServer, catalog.DMS:
	}
	return nil, fmt.Errorf("open dump: the texts of engine %q have no known form", o.Engine)
}

const (
	extNDJSON = ".ndjson"
	extCSV    = ".csv"
)

// find returns the one file of t, and its format.
func (r *Reader) find(t *catalog.Table) (path, format string, err error) {
	if t.Source != filepath.Base(t.Source) {
		return "", "", fmt.Errorf("find dump of %q: the name does not fit a file", t.Source)
	}
	for _, ext := range []string{extNDJSON, extCSV} {
		for _, compression := range []string{"", ".zst", ".gz"} {
			candidate := filepath.Join(r.dir, t.Source+ext+compression)
			switch _, err := os.Stat(candidate); {
			case errors.Is(err, fs.ErrNotExist):
			case err != nil:
				return "", "", fmt.Errorf("find dump of %s: %w", t.Source, err)
			case path != "":
				return "", "", fmt.Errorf("find dump of %s: both %s and %s are there", t.Source, filepath.Base(path), filepath.Base(candidate))
			default:
				path, format = candidate, ext
			}
		}
	}
	if path == "" {
		return "", "", fmt.Errorf("find dump of %s: no file %s%s or %s%s, plain, .zst or .gz", t.Source, t.Source, extNDJSON, t.Source, extCSV)
	}
	if format == extCSV && !r.csv {
		return "", "", fmt.Errorf("find dump of %s: CSV is read in PostgreSQL's form only", t.Source)
	}
	return path, format, nil
}

// Bytes of a file per row of it, for the estimate of Open.
const (
	plainRow      = 128
	compressedRow = 16
)

// Open implements reconcile.Reader: every view shows the same rows. It
// estimates their number from the file's size.
func (r *Reader) Open(_ context.Context, t *catalog.Table, _ bool) (reconcile.View, error) {
	path, format, err := r.find(t)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read dump: %w", err)
	}
	perRow := int64(compressedRow)
	if strings.HasSuffix(path, format) {
		perRow = plainRow
	}
	return &view{reader: r, table: t, rows: info.Size() / perRow}, nil
}

// State implements reconcile.Reader: a dump does not move.
func (*Reader) State(context.Context, []*catalog.Table) (reconcile.State, error) {
	return reconcile.State{Mark: final}, nil
}

const final = "final"

// A view is the dump of one table.
type view struct {
	reader *Reader
	table  *catalog.Table
	rows   int64
}

// Pinned implements reconcile.View.
func (v *view) Pinned() reconcile.Pinned { return reconcile.Pinned{Moment: final, Rows: v.rows} }

// Digests implements reconcile.View.
func (v *view) Digests(ctx context.Context, part reconcile.Part) ([]canon.Digest, error) {
	return reconcile.DigestRows(v.table, v.reader.scan(ctx, v.table), part)
}

// Rows implements reconcile.View.
func (v *view) Rows(ctx context.Context, part reconcile.Part) iter.Seq2[reconcile.Row, error] {
	return reconcile.SelectRows(v.table, v.reader.scan(ctx, v.table), part)
}

// Close implements reconcile.View.
func (*view) Close() error { return nil }

// A value is one column of a row.
type value struct {
	text []byte
	null bool
}

// A record is one row of a file. Its bytes are valid until the next.
type record struct {
	line   int // where it begins, from 1
	names  [][]byte
	values []value
}

// A decoder reads one format. next fills the record and returns io.EOF after
// the last one; after any error the line is that of the error.
type decoder interface {
	next(rec *record) error
}

// newDecoder returns the decoder of a file. The header, if it has one, goes to place
// at once: without rows nothing else would check it.
func newDecoder(format string, in io.Reader, place func(header [][]byte) error) (decoder, error) {
	if format != extCSV {
		return newNDJSON(in), nil
	}
	d := newCSV(in)
	header, err := d.readHeader()
	if err != nil {
		return nil, err
	}
	return d, place(header)
}

// newText reads a file without the byte order mark that some programs write
// before UTF-8: it is no part of the first name.
func newText(r io.Reader) *bufio.Reader {
	in := bufio.NewReaderSize(r, 1<<16)
	if mark, err := in.Peek(3); err == nil && string(mark) == "\uFEFF" {
		_, _ = in.Discard(len(mark)) // it is there
	}
	return in
}

// checkEvery is after how many rows a scan looks whether it was cancelled.
const checkEvery = 1024

// scan yields the rows of t, encoded.
func (r *Reader) scan(ctx context.Context, t *catalog.Table) iter.Seq2[*reconcile.Encoder, error] {
	return func(yield func(*reconcile.Encoder, error) bool) {
		path, format, err := r.find(t)
		if err != nil {
			yield(nil, err)
			return
		}
		in, err := kinesis.Open(path)
		if err != nil {
			yield(nil, fmt.Errorf("read dump: %w", err))
			return
		}
		defer in.Close() //nolint:errcheck // a file that was only read has nothing left to say
		encoder, err := reconcile.NewEncoder(t)
		if err != nil {
			yield(nil, err)
			return
		}
		fields := newFields(t, encoder)
		fail := func(line int, err error) {
			yield(nil, fmt.Errorf("read dump: %s: line %d: %w", filepath.Base(path), line, err))
		}
		d, err := newDecoder(format, in, fields.place)
		if err != nil {
			fail(1, err)
			return
		}
		var rec record
		for n := 0; ; n++ {
			if n%checkEvery == 0 && ctx.Err() != nil {
				yield(nil, ctx.Err())
				return
			}
			err := d.next(&rec)
			if errors.Is(err, io.EOF) {
				return
			}
			if err == nil {
				err = fields.encode(&rec, r.form)
			}
			if err != nil {
				fail(rec.line, err)
				return
			}
			if !yield(encoder, nil) {
				return
			}
		}
	}
}
