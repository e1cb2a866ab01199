package source

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"icehose/cdc/kinesis"
)

// A cursor is how far a file was read.
type cursor struct {
	place place
	read  int64 // bytes of whole lines, decompressed
	seen  int64 // bytes, with those of a line that has no end yet
	lines int
	file  os.FileInfo // as it was before it was last read; nil before that
	mark  mark        // of what was read, when it is followed

	extent *extent // that is told how far; nil where records are only counted

	unended bool // the last line that was read has no end
}

// unchanged says that a file that was read has not been touched since.
func (c *cursor) unchanged(now os.FileInfo) bool {
	return os.SameFile(c.file, now) && c.file.Size() == now.Size() && (c.file.ModTime().Equal(now.ModTime()) || !now.Mode().IsRegular())
}

// note tells how far the file is read that in is of.
func (c *cursor) note(in io.Reader) {
	if c.extent == nil {
		return
	}
	read := c.read
	if packed, ok := in.(interface{ Taken() int64 }); ok {
		read = packed.Taken()
	}
	c.extent.read.Store(read)
}

// open opens the file, which now describes, where the cursor stands. What comes
// before is checked; a compressed file is unpacked from its start again.
func (c *cursor) open(now os.FileInfo) (io.ReadCloser, error) {
	in, err := kinesis.Open(c.place.path)
	if err != nil || c.file == nil {
		return in, err
	}
	file, plain := in.(*os.File)
	same, holds := os.SameFile(c.file, now), false
	if plain && same {
		if holds, err = c.mark.ends(file, c.read); err == nil {
			_, err = file.Seek(c.read, io.SeekStart)
		}
	} else {
		holds, err = c.mark.holds(in, c.read)
	}
	// Of another file that begins with all that was read, as a copy that is made
	// anew does, nothing is missed; where nothing was read, that tells nothing,
	// and what was empty does not come here.
	if errors.Is(err, io.EOF) || err == nil && (!holds || !same && c.read == 0) {
		err = errReplaced
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

// isRecord says that a text is a whole record: nothing can follow it in its line.
func isRecord(text []byte) bool {
	_, err := kinesis.Parse(trim(text))
	return err == nil
}

// isUnfinished says that a text is the beginning of a JSON object.
func isUnfinished(text []byte) bool {
	var object json.RawMessage
	return text[0] == '{' && errors.Is(json.NewDecoder(bytes.NewReader(text)).Decode(&object), io.ErrUnexpectedEOF)
}

// trim takes off what JSON ignores around an object.
func trim(text []byte) []byte { return bytes.Trim(text, " \t\r\n") }

// isPattern says that a name can stand for several files.
func isPattern(name string) bool { return strings.ContainsAny(name, "*?[") }
