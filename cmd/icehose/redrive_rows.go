package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"

	"icehose/transform/redrive"
)

// A rowFile is where --as-rows goes; without a name nothing is written.
type rowFile struct {
	file  *os.File
	out   *bufio.Writer
	count int64
}

func createRows(name string) (*rowFile, error) {
	if name == "" {
		return &rowFile{}, nil
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("write rows: %w", err)
	}
	return &rowFile{file: file, out: bufio.NewWriter(file)}, nil
}

func (f *rowFile) write(r redrive.Row) error {
	if f.file == nil {
		return nil
	}
	f.count++
	line := append([]byte(`{"database":`), strconv.Quote(r.Database)...)
	line = append(append(line, `,"table":`...), strconv.Quote(r.Table)...)
	line = append(append(append(line, `,"operation":"insert","row":`...), r.Data...), '}', '\n')
	if _, err := f.out.Write(line); err != nil {
		return fmt.Errorf("write rows: %w", err)
	}
	return nil
}

func (f *rowFile) close() error {
	if f.file == nil {
		return nil
	}
	if err := errors.Join(f.out.Flush(), f.file.Close()); err != nil {
		return fmt.Errorf("write rows: %w", err)
	}
	return nil
}
