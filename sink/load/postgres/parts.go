package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/jackc/pgx/v5"

	"icehose/sink/load"
)

const (
	// partsPerReader is how many parts there are for each connection, so that
	// none has much to do when the others have ended.
	partsPerReader = 8
	leastBlocks    = 128 // in a part: 1 MiB
)

// split cuts the table into ranges of blocks. The last range of each relation
// has no end, because a relation grows.
func (r *reader) split(ctx context.Context, s *load.Snapshot) error {
	rows, err := r.conns[0].Query(ctx, tree+`SELECT format('%I.%I', nspname, relname), (pg_relation_size(oid) / current_setting('block_size')::int)::bigint, reltuples::bigint FROM leaf`, r.oid)
	if err != nil {
		return fmt.Errorf("split table: %w", err)
	}
	type relation struct {
		Name   string
		Blocks int64
		Rows   int64
	}
	relations, err := pgx.CollectRows(rows, pgx.RowToStructByPos[relation])
	if err != nil {
		return fmt.Errorf("split table: %w", err)
	}
	var blocks int64
	for _, rel := range relations {
		blocks += rel.Blocks
		if s.Estimate >= 0 && rel.Rows >= 0 {
			s.Estimate += rel.Rows
		} else {
			s.Estimate = -1 // never analyzed
		}
	}
	size := max(blocks/int64(r.options.Parallel*partsPerReader), leastBlocks)
	for _, rel := range relations {
		for from := int64(0); ; from += size {
			where := fmt.Sprintf(" WHERE ctid >= '(%d,0)'::tid", from)
			last := from+size >= rel.Blocks
			if !last {
				where += fmt.Sprintf(" AND ctid < '(%d,0)'::tid", from+size)
			}
			s.Parts = append(s.Parts, r.part("COPY (SELECT "+r.columns+" FROM ONLY "+rel.Name+where+") TO STDOUT"))
			if last {
				break
			}
		}
	}
	return nil
}

// part yields the rows of a COPY.
func (r *reader) part(statement string) load.Part {
	return func(ctx context.Context) iter.Seq2[[][]byte, error] {
		return func(yield func([][]byte, error) bool) {
			var conn *pgx.Conn
			select {
			case conn = <-r.free:
			case <-ctx.Done():
				yield(nil, ctx.Err())
				return
			}
			defer func() { r.free <- conn }()
			w := &copyRows{yield: yield}
			_, err := conn.PgConn().CopyTo(ctx, w, statement)
			switch {
			case w.stopped: // the connection is of no more use, and nobody wants it
			case err == nil && len(w.rest) > 0:
				yield(nil, errors.New("read rows: the last one does not end"))
			case err != nil:
				yield(nil, fmt.Errorf("read rows: %w", err))
			}
		}
	}
}

// copyRows yields the rows of COPY's text format as they are written to it.
type copyRows struct {
	yield   func([][]byte, error) bool
	stopped bool
	rest    []byte // the beginning of a row
	row     [][]byte
	text    []byte
	ends    []int
}

var errStopped = errors.New("nobody wants more rows")

// Write implements io.Writer.
func (w *copyRows) Write(data []byte) (int, error) {
	size := len(data)
	if len(w.rest) > 0 {
		w.rest = append(w.rest, data...)
		data = w.rest
	}
	for {
		end := bytes.IndexByte(data, '\n') // one in a value is escaped
		if end < 0 {
			break
		}
		if err := w.parse(data[:end]); err != nil {
			return 0, err
		}
		if !w.yield(w.row, nil) {
			w.stopped = true
			return 0, errStopped
		}
		data = data[end+1:]
	}
	w.rest = append(w.rest[:0], data...)
	return size, nil
}

// parse reads one row: values with tabs between them, \N for NULL, and
// backslashes before what would be mistaken.
func (w *copyRows) parse(line []byte) error {
	w.text, w.ends = w.text[:0], w.ends[:0]
	for more := true; more; {
		var value []byte
		value, line, more = bytes.Cut(line, []byte{'\t'})
		if string(value) == `\N` {
			w.ends = append(w.ends, -1)
			continue
		}
		var ok bool
		if w.text, ok = appendUnescaped(w.text, value); !ok {
			return errors.New("a backslash that means nothing")
		}
		w.ends = append(w.ends, len(w.text))
	}
	w.row = w.row[:0]
	start := 0
	for _, end := range w.ends {
		if end < 0 {
			w.row = append(w.row, nil)
			continue
		}
		value := w.text[start:end:end]
		if value == nil {
			value = []byte{} // empty, not null
		}
		w.row = append(w.row, value)
		start = end
	}
	return nil
}

func appendUnescaped(dst, text []byte) ([]byte, bool) {
	for {
		at := bytes.IndexByte(text, '\\')
		if at < 0 {
			return append(dst, text...), true
		}
		if at+1 == len(text) {
			return dst, false
		}
		c := text[at+1]
		switch c {
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'v':
			c = '\v'
		case '\\':
		default:
			return dst, false // the server escapes nothing else
		}
		dst = append(append(dst, text[:at]...), c)
		text = text[at+2:]
	}
}
