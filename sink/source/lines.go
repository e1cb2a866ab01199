package source

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"icehose/cdc/kinesis"
)

// A cursor is how far a file was read.
type cursor struct {
	place  place
	read   int64 // bytes of whole lines, decompressed
	lines  int
	opened bool
	size   int64 // of the file, when it was last read
}

// open opens the file where the cursor stands. A compressed file is unpacked
// from its start again.
func (c *cursor) open() (io.ReadCloser, error) {
	in, err := kinesis.Open(c.place.path)
	if err != nil {
		return nil, err
	}
	if file, ok := in.(*os.File); ok {
		_, err = file.Seek(c.read, io.SeekStart)
	} else {
		_, err = io.CopyN(io.Discard, in, c.read)
	}
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	return in, nil
}

// lines reads lines of at most maxLine bytes.
type lines struct {
	in   *bufio.Reader
	text []byte
}

func newLines(in io.Reader) *lines { return &lines{in: bufio.NewReaderSize(in, 1<<16)} }

// next returns the next line with its end, good until the next call. The error
// is that of the reader; the text with it is a line without end.
func (l *lines) next() ([]byte, error) {
	l.text = l.text[:0]
	for {
		part, err := l.in.ReadSlice('\n')
		if len(l.text)+len(part) > maxLine {
			return nil, fmt.Errorf("line is longer than %d bytes", maxLine)
		}
		if err == nil && len(l.text) == 0 {
			return part, nil
		}
		l.text = append(l.text, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return l.text, err
		}
	}
}

// trim takes off what JSON ignores around an object.
func trim(text []byte) []byte { return bytes.Trim(text, " \t\r\n") }

// isPattern says that a name can stand for several files.
func isPattern(name string) bool { return strings.ContainsAny(name, "*?[") }
