package redrive

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// journalHead begins a progress file; the name of the stream follows.
const journalHead = "icehose redrive progress 1 "

// journalRejected stands before the id of a record that the stream rejected.
const journalRejected = "rejected "

// A File is a Journal in a file: a line with the stream's name, then one id a
// line, with "rejected " before it where the stream does not take the record.
// Only whole lines count, so a file that was cut off while writing is fine.
type File struct {
	file *os.File
	done map[string]State
}

var _ Journal = (*File)(nil)

// OpenFile opens the progress file at path, or makes it. A file of another
// stream is refused.
func OpenFile(path, stream string) (*File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open progress file: %w", err)
	}
	f := &File{file: file, done: make(map[string]State)}
	if err := f.load(stream); err != nil {
		return nil, errors.Join(fmt.Errorf("open progress file %s: %w", path, err), file.Close())
	}
	return f, nil
}

func (f *File) load(stream string) error {
	head := journalHead + stream + "\n"
	in, whole := bufio.NewReader(f.file), int64(0)
	for n := 0; ; n++ {
		line, err := in.ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if err != nil {
			if n == 0 && !strings.HasPrefix(head, line) {
				return errors.New("not a progress file of this stream")
			}
			break
		}
		if n == 0 && line != head {
			return errors.New("not a progress file of this stream")
		}
		whole += int64(len(line))
		if n > 0 {
			id, rejected := strings.CutPrefix(strings.TrimSuffix(line, "\n"), journalRejected)
			f.done[id] = Taken
			if rejected {
				f.done[id] = Rejected
			}
		}
	}
	if err := f.file.Truncate(whole); err != nil {
		return err
	}
	if _, err := f.file.Seek(whole, 0); err != nil {
		return err
	}
	if whole > 0 {
		return nil
	}
	_, err := f.file.WriteString(head)
	return err
}

// State implements Journal.
func (f *File) State(id string) State { return f.done[id] }

// Note implements Journal.
func (f *File) Note(ids []string, state State) error {
	var text bytes.Buffer
	for _, id := range ids {
		if state == Rejected {
			text.WriteString(journalRejected)
		}
		text.WriteString(id + "\n")
	}
	if _, err := f.file.Write(text.Bytes()); err != nil {
		return fmt.Errorf("write progress file: %w", err)
	}
	if err := f.file.Sync(); err != nil {
		return fmt.Errorf("write progress file: %w", err)
	}
	for _, id := range ids {
		f.done[id] = state
	}
	return nil
}

// Close closes the file.
func (f *File) Close() error {
	if err := f.file.Close(); err != nil {
		return fmt.Errorf("close progress file: %w", err)
	}
	return nil
}
