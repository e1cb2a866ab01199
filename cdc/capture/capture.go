// Package capture reads captured change records, whatever they were captured
// as: bare DMS records, records of a Kinesis stream (package cdc/kinesis, the
// output of "aws kinesis get-records", the event of a Lambda that reads the
// stream) or events with which Firehose invokes its processor Lambda.
//
// In come bytes, compressed or not; out come records in the order in which
// they stand there. JSON objects may be spread over lines or follow each other
// without anything between ("}{"), in an array or not. What cannot be read is a
// record too, with a Fault, and never hides a record that begins a line after
// it. Where nothing stands between objects, one that was cut takes along those
// that follow it, up to the next line that begins with an object. A file that
// ends inside an object or a list of them was cut off, and says so with an
// error. The package does not look into a record's data, and does not undo the
// aggregation of the Kinesis Producer Library, which DMS does not use.
package capture

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"

	"github.com/klauspost/compress/zstd"

	"icehose/cdc"
)

// A Format is what records were captured as.
type Format string

// The formats.
const (
	Auto       Format = "auto"        // one of the others, told by the first undamaged object
	DMS        Format = "dms"         // bare records as DMS writes them
	Stream     Format = "kinesis"     // records of a stream, as package cdc/kinesis writes them
	GetRecords Format = "get-records" // output of aws kinesis get-records, or the event of a Lambda that reads the stream
	Firehose   Format = "firehose"    // events of a Firehose processor Lambda
)

// ErrFormat is wrapped by the error that says that the first object is of no
// known format.
var ErrFormat = errors.New("neither a DMS record, a stream record nor an event: name the format")

// A Fault says why a record has no data.
type Fault uint8

// The faults.
const (
	None      Fault = iota
	BadJSON         // it, or what it was wrapped in, is not JSON of the format
	BadBase64       // its data is missing, or not base64
)

// A Record is one captured record.
type Record struct {
	ID           string // the record id of an event, else the sequence number, else "line N"
	Data         []byte // the DMS record; what could be had of it when Fault is not None
	Fault        Fault
	Origin       cdc.Origin // as far as the format tells
	PartitionKey string     // of the stream; empty when the format does not tell
	ArrivedAt    int64      // Unix milliseconds; 0 when the format does not tell
	Line         int        // where its object begins, from 1
}

// Read yields the records of r. An error ends it; it is of reading, not of a
// record.
func Read(r io.Reader, f Format) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for o, err := range Objects(r, f) {
			if err != nil {
				yield(Record{}, err)
				return
			}
			for _, record := range o.Records() {
				if !yield(record, nil) {
					return
				}
			}
		}
	}
}

// Objects yields the objects of r, as Split does, with their format. With Auto
// that is what the first undamaged one shows.
func Objects(r io.Reader, f Format) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		for o, err := range Split(r) {
			if err == nil && !o.Broken {
				if f == Auto || f == "" {
					f, err = detect(o.Text)
				}
				switch f {
				case DMS, Stream, GetRecords, Firehose, Auto:
				default:
					err = fmt.Errorf("no format %q", f)
				}
				if err != nil {
					err = fmt.Errorf("read records: line %d: %w", o.Line, err)
				}
				o.Format = f
			}
			if !yield(o, err) || err != nil {
				return
			}
		}
	}
}

// Records returns the records that stand in the object: one that is broken is
// a record with a fault.
func (o Object) Records() []Record {
	records := []Record{{Data: o.Text, Fault: BadJSON}}
	if !o.Broken {
		records = unwrap(o)
	}
	for i := range records {
		records[i].Line = o.Line
		if records[i].ID == "" {
			records[i].ID = "line " + strconv.Itoa(o.Line)
		}
	}
	return records
}

// Decompress returns what r holds: unpacked when it begins as gzip or zstd
// does, else as it is. Closing it does not close r.
func Decompress(r io.Reader) (io.ReadCloser, error) {
	in := bufio.NewReaderSize(r, 1<<16)
	head, err := in.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read records: %w", err)
	}
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("read records: gzip: %w", err)
		}
		return z, nil
	case bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, fmt.Errorf("read records: zstd: %w", err)
		}
		return z.IOReadCloser(), nil
	}
	return io.NopCloser(in), nil
}
