package kinesis

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"

	"icehose/cdc"
)

// line is a Record as it stands in a file.
type line struct {
	Record
	Text   *text  `json:"data,omitempty"`
	Base64 string `json:"dataBase64,omitempty"`
}

// text is a string that JSON can hold without loss: encoding/json would read
// half a surrogate pair as U+FFFD.
type text string

// UnmarshalJSON implements json.Unmarshaler.
func (t *text) UnmarshalJSON(raw []byte) error {
	if raw[0] != '"' {
		return errors.New("data is not a string")
	}
	v := cdc.Value{Kind: cdc.String, Escaped: true, Raw: raw}
	content, ok := v.AppendText(make([]byte, 0, len(raw)))
	if !ok {
		return errors.New("data has half a surrogate pair")
	}
	*t = text(content)
	return nil
}

// Read yields the records of r in file order. The first error ends it and
// names the line.
func Read(r io.Reader) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		in := bufio.NewReaderSize(r, 1<<16)
		for n := 1; ; n++ {
			content, err := in.ReadBytes('\n')
			if len(bytes.TrimSpace(content)) > 0 {
				record, perr := parse(content)
				if perr != nil {
					yield(Record{}, fmt.Errorf("read stream record: line %d: %w", n, perr))
					return
				}
				if !yield(record, nil) {
					return
				}
			}
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(Record{}, fmt.Errorf("read stream record: line %d: %w", n, err))
				return
			}
		}
	}
}

// Parse reads one record, which may be spread over lines.
func Parse(object []byte) (Record, error) {
	record, err := parse(object)
	if err != nil {
		return Record{}, fmt.Errorf("read stream record: %w", err)
	}
	return record, nil
}

// ErrBare says that an object is a record of AWS DMS itself, without what its
// stream puts around it.
var ErrBare = errors.New("a record of AWS DMS without the shard and the sequence number that its stream gives it")

// isBare reports whether an object is such a record.
func isBare(in []byte) bool {
	var bare struct {
		Metadata map[string]json.RawMessage `json:"metadata"`
	}
	return json.Unmarshal(in, &bare) == nil && bare.Metadata["record-type"] != nil
}

func parse(in []byte) (Record, error) {
	record, err := parseLine(in)
	if err != nil && isBare(in) {
		err = ErrBare
	}
	return record, err
}

func parseLine(in []byte) (Record, error) {
	if !utf8.Valid(in) {
		return Record{}, errors.New("not UTF-8")
	}
	var l line
	if err := json.Unmarshal(in, &l); err != nil {
		var syntax *json.SyntaxError
		var mistyped *json.UnmarshalTypeError
		switch {
		case errors.As(err, &syntax):
			return Record{}, fmt.Errorf("not a JSON object at byte %d", syntax.Offset)
		case errors.As(err, &mistyped):
			return Record{}, fmt.Errorf("not a stream record at byte %d", mistyped.Offset)
		}
		return Record{}, err // of text, which has no value in it
	}
	switch {
	case l.Text != nil && l.Base64 != "":
		return Record{}, errors.New("both data and dataBase64")
	case l.Text != nil:
		l.Data = []byte(*l.Text)
	case l.Base64 != "":
		data, err := base64.StdEncoding.DecodeString(l.Base64)
		if err != nil {
			return Record{}, errors.New("dataBase64 is not base64")
		}
		l.Data = data
	default:
		return Record{}, errors.New("no data")
	}
	return l.Record, nil
}

// A Writer writes records as Read reads them.
type Writer struct {
	out *bufio.Writer
	enc *json.Encoder
}

// NewWriter returns a Writer on w. Flush must be called after the last record.
func NewWriter(w io.Writer) *Writer {
	out := bufio.NewWriterSize(w, 1<<16)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	return &Writer{out: out, enc: enc}
}

// Write writes one record.
func (w *Writer) Write(r Record) error {
	if !utf8.ValidString(r.ShardID) || !utf8.ValidString(r.SequenceNumber) || !utf8.ValidString(r.PartitionKey) {
		return errors.New("write stream record: shard, sequence number or partition key is not UTF-8")
	}
	l := line{Record: r}
	if utf8.Valid(r.Data) {
		content := text(r.Data)
		l.Text = &content
	} else {
		l.Base64 = base64.StdEncoding.EncodeToString(r.Data)
	}
	if err := w.enc.Encode(l); err != nil {
		return fmt.Errorf("write stream record: %w", err)
	}
	return nil
}

// Flush writes what is buffered.
func (w *Writer) Flush() error {
	if err := w.out.Flush(); err != nil {
		return fmt.Errorf("write stream record: %w", err)
	}
	return nil
}

// Open opens a file of records, decompressing by its name: .zst, .gz or plain,
// which is returned as the *os.File that it is. What is returned of a compressed
// one has a method Taken() int64: how many bytes of the file were read so far.
func Open(path string) (io.ReadCloser, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open records: %w", err)
	}
	packed := &counted{in: f}
	switch {
	case strings.HasSuffix(path, ".zst"):
		z, err := zstd.NewReader(packed, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open records: %w", err), f.Close())
		}
		return &decompressed{Reader: z, counted: packed, close: func() error { z.Close(); return f.Close() }}, nil
	case strings.HasSuffix(path, ".gz"):
		z, err := gzip.NewReader(packed)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open records: %w", err), f.Close())
		}
		return &decompressed{Reader: z, counted: packed, close: func() error { return errors.Join(z.Close(), f.Close()) }}, nil
	}
	return f, nil
}

type decompressed struct {
	io.Reader
	counted *counted
	close   func() error
}

// Taken returns how many bytes of the compressed file were read so far. It may
// be called while the file is read.
func (d *decompressed) Taken() int64 { return d.counted.n.Load() }

// A counted reader counts the bytes that were read.
type counted struct {
	in io.Reader
	n  atomic.Int64
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// Close implements io.Closer.
func (d *decompressed) Close() error { return d.close() }

// Create creates a file of records, compressing by its name as Open reads it.
// Close finishes the compressed stream and reports what a write had to say.
func Create(path string) (io.WriteCloser, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("create records: %w", err)
	}
	switch {
	case strings.HasSuffix(path, ".zst"):
		z, err := zstd.NewWriter(f, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("create records: %w", err), f.Close())
		}
		return &compressed{Writer: z, close: func() error { return errors.Join(z.Close(), f.Close()) }}, nil
	case strings.HasSuffix(path, ".gz"):
		z := gzip.NewWriter(f)
		return &compressed{Writer: z, close: func() error { return errors.Join(z.Close(), f.Close()) }}, nil
	}
	return f, nil
}

type compressed struct {
	io.Writer
	close func() error
}

// Close implements io.Closer.
func (c *compressed) Close() error { return c.close() }
