// Package parquetfooter corrects what the footer of a Parquet file says of the
// file's columns. Format: parquet.thrift of apache/parquet-format, in Thrift's
// compact protocol.
package parquetfooter

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// ErrFooter says that a footer cannot be read.
var ErrFooter = errors.New("footer of a Parquet file not understood")

// magic ends a Parquet file, after the length of its footer.
const magic = "PAR1"

// Forget makes the footer at the end of a Parquet file tell no bounds of
// the columns named, in place: it gives the first of the fields that hold them a
// number that no field has, so that readers skip it and those after it, as they
// do with all that a later version of the format may add. What does not end as a
// Parquet file does is left alone: it is one that was given up.
func Forget(file []byte, columns map[string]bool) error {
	const trailer = 4 + len(magic)
	if len(columns) == 0 || len(file) < trailer || string(file[len(file)-len(magic):]) != magic {
		return nil
	}
	size := int(binary.LittleEndian.Uint32(file[len(file)-trailer:]))
	if size > len(file)-trailer {
		return fmt.Errorf("%w: it has %d bytes, %d were kept", ErrFooter, size, len(file)-trailer)
	}
	chunks, err := readChunks(file[len(file)-trailer-size : len(file)-trailer])
	if err != nil {
		return err
	}
	found := make(map[string]bool)
	for _, c := range chunks {
		found[c.path] = true
		if c.bounds == nil || !columns[c.path] {
			continue
		}
		if *c.bounds>>4 == 0 {
			return fmt.Errorf("%w: statistics in long form", ErrFooter)
		}
		*c.bounds |= 0xf0 // fifteen further than the field before
	}
	for name := range columns {
		if len(chunks) > 0 && !found[name] {
			return fmt.Errorf("%w: no column %s", ErrFooter, name)
		}
	}
	return nil
}

// A chunk is what a footer says of a column in one row group.
type chunk struct {
	path   string
	bounds *byte // header of the first field with a bound; nil for none
}

// readChunks reads a footer: FileMetaData of parquet.thrift in Thrift's compact
// protocol.
func readChunks(footer []byte) ([]*chunk, error) {
	t := &thrift{left: footer}
	var chunks []*chunk
	t.structs(4, func() { // row_groups
		t.structs(1, func() { // columns
			c := new(chunk)
			chunks = append(chunks, c)
			t.field(3, func() { t.fields(c.read(t)) }) // meta_data
		})
	})
	if t.broken || len(t.left) > 0 {
		return nil, fmt.Errorf("%w: it does not end where it should", ErrFooter)
	}
	return chunks, nil
}

// read returns what reads a field of ColumnMetaData.
func (c *chunk) read(t *thrift) func(id int, kind byte, header *byte) {
	return func(id int, kind byte, _ *byte) {
		switch id {
		case 3: // path_in_schema
			var path []string
			t.list(func(byte) { path = append(path, string(t.binary())) })
			c.path = strings.Join(path, ".")
		case 12: // statistics
			t.fields(func(id int, kind byte, header *byte) {
				if (id == 1 || id == 2 || id == 5 || id == 6) && c.bounds == nil { // max, min, max_value, min_value
					c.bounds = header
				}
				t.skip(kind)
			})
		default:
			t.skip(kind)
		}
	}
}
