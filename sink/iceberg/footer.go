package iceberg

import (
	"bytes"
	"errors"
	"io"
	"sync"

	iceio "github.com/apache/iceberg-go/io"

	"icehose/internal/parquetfooter"
)

// heldWrites is how many of its last writes a parquetFile holds back: the Parquet
// writer's last three are footer, length and magic number.
const heldWrites = 3

// A parquetFS writes Parquet files whose footers tell nothing wrong of columns
// with empty texts, see handed.
type parquetFS struct {
	iceio.WriteFileIO
	handed *handed
}

// Create implements io.WriteFileIO.
func (p *parquetFS) Create(name string) (iceio.FileWriter, error) {
	f, err := p.WriteFileIO.Create(name)
	if err != nil {
		return nil, p.handed.note(err)
	}
	return &parquetFile{FileWriter: f, handed: p.handed}, nil
}

// A parquetFile is one that is being written.
type parquetFile struct {
	iceio.FileWriter
	handed *handed
	last   [][]byte
	once   sync.Once
	ended  error
}

// Write implements io.Writer.
func (f *parquetFile) Write(p []byte) (int, error) {
	if len(f.last) < heldWrites {
		f.last = append(f.last, bytes.Clone(p))
		return len(p), nil
	}
	oldest := f.last[0]
	if _, err := f.FileWriter.Write(oldest); err != nil {
		return 0, f.handed.note(err)
	}
	copy(f.last, f.last[1:])
	f.last[heldWrites-1] = append(oldest[:0], p...)
	return len(p), nil
}

// ReadFrom implements io.ReaderFrom.
func (f *parquetFile) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{f}, r)
}

// Close implements io.Closer. The library may call it twice.
func (f *parquetFile) Close() error {
	f.once.Do(func() {
		tail := bytes.Join(f.last, nil)
		err := parquetfooter.Forget(tail, f.handed.columnsWithEmpty())
		if err == nil {
			_, err = f.FileWriter.Write(tail)
		}
		f.ended = f.handed.note(errors.Join(err, f.FileWriter.Close()))
	})
	return f.ended
}
