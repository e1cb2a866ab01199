package dump

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"strings"

	"icehose/cdc/kinesis"
)

// ReadFile yields the rows of one dump file, in either format, for others than
// reconcile: the texts of the columns that place chooses among the names, nil
// for NULL, valid until the next row. place is called for the header or the
// first row, and whenever the names change; it returns the place in names of
// each column.
func ReadFile(ctx context.Context, path string, place func(names []string) ([]int, error)) iter.Seq2[[][]byte, error] {
	return func(yield func([][]byte, error) bool) {
		in, err := kinesis.Open(path)
		if err != nil {
			yield(nil, fmt.Errorf("read dump: %w", err))
			return
		}
		defer in.Close() //nolint:errcheck // a file that was only read has nothing left to say
		r := recordPicker{place: place}
		d, err := newDecoder(FormatOf(path), in, r.see)
		if err != nil {
			yield(nil, fmt.Errorf("read dump: %s: line 1: %w", filepath.Base(path), err))
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
				err = r.pick(&rec)
			}
			if err != nil {
				yield(nil, fmt.Errorf("read dump: %s: line %d: %w", filepath.Base(path), rec.line, err))
				return
			}
			if !yield(r.row, nil) {
				return
			}
		}
	}
}

// FormatOf returns the extension that says how a dump file is read: ".ndjson"
// or ".csv", whatever its compression; empty if it is neither.
func FormatOf(path string) string {
	for _, ext := range []string{extNDJSON, extCSV} {
		for _, compression := range []string{"", ".zst", ".gz"} {
			if strings.HasSuffix(path, ext+compression) {
				return ext
			}
		}
	}
	return ""
}

// A recordPicker puts the values of records into the order of columns.
type recordPicker struct {
	place  func(names []string) ([]int, error)
	names  []string // of the last record
	places []int
	row    [][]byte
}

// see finds the columns among names, if they are others than before.
func (r *recordPicker) see(names [][]byte) (err error) {
	if r.same(names) {
		return nil
	}
	r.names = r.names[:0]
	for _, name := range names {
		r.names = append(r.names, string(name))
	}
	r.places, err = r.place(r.names)
	return err
}

func (r *recordPicker) pick(rec *record) error {
	if err := r.see(rec.names); err != nil {
		return err
	}
	r.row = r.row[:0]
	for _, at := range r.places {
		v := rec.values[at]
		switch {
		case v.null:
			r.row = append(r.row, nil)
		case v.text == nil:
			r.row = append(r.row, []byte{}) // empty, not null
		default:
			r.row = append(r.row, v.text)
		}
	}
	return nil
}

func (r *recordPicker) same(names [][]byte) bool {
	if len(names) != len(r.names) || r.places == nil {
		return false
	}
	for i, name := range names {
		if string(name) != r.names[i] {
			return false
		}
	}
	return true
}
