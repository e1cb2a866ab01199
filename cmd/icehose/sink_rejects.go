package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"icehose/sink/iceberg"
	sinksource "icehose/sink/source"
)

// A failure is a record that could not be delivered, and why.
type failure struct {
	record                    *sinksource.Record
	reason, table, column, by string
}

// A rejectLine is a failure in the file of rejects. With its record's fields
// it is a record of a stream, as package cdc/kinesis reads them.
type rejectLine struct {
	Reason   string `json:"reason"`
	Stage    string `json:"stage"` // source, transform or sink
	Table    string `json:"table,omitempty"`
	Column   string `json:"column,omitempty"`
	Place    string `json:"place,omitempty"`
	Shard    string `json:"shardId,omitempty"`
	Sequence string `json:"sequenceNumber,omitempty"`
	Key      string `json:"partitionKey,omitempty"`
	Arrived  int64  `json:"approximateArrivalTimestamp,omitempty"`
	Data     string `json:"dataBase64"` // of a line that holds no record, the line
}

// rejects is the file of rejects; nil when none was asked for.
type rejects struct {
	file  *os.File
	force func(*os.File) error // to the disk
	dirty bool
}

// openRejects opens the file, and makes it when it is not there. It must not be
// one of those that are read: it would grow for ever.
func openRejects(path string, inputs []string, force func(*os.File) error) (*rejects, error) {
	if path == "" {
		return nil, nil //nolint:nilnil // no file is a state of its own
	}
	const flags, owner = os.O_APPEND | os.O_CREATE | os.O_WRONLY, 0o600
	file, err := os.OpenFile(path, flags|os.O_EXCL, owner)
	made := err == nil
	if !made {
		file, err = os.OpenFile(path, flags, owner)
	}
	if err != nil {
		return nil, fmt.Errorf("open rejects: %w", err)
	}
	r := &rejects{file: file, force: force}
	err = notRead(path, inputs)
	if err != nil && made {
		err = errors.Join(err, os.Remove(path))
	}
	if err == nil && made {
		err = iceberg.ForceFolder(filepath.Dir(path), force)
	}
	if err == nil {
		err = r.endLine()
	}
	if err != nil {
		return nil, fmt.Errorf("open rejects: %w", errors.Join(err, file.Close()))
	}
	return r, nil
}

// notRead refuses a file that is one of those that the inputs stand for.
func notRead(path string, inputs []string) error {
	for _, input := range inputs {
		files, err := sinksource.Expand(input)
		if err != nil {
			continue // the source says so
		}
		for _, file := range files {
			if !sameFile(file, path) {
				continue
			}
			if file == input {
				return fmt.Errorf("%s is also read", path)
			}
			return fmt.Errorf("%s is also read, as one of %s: keep it in another folder", path, input)
		}
	}
	return nil
}

// endLine ends the last line, which a full disk or a crash has cut: the next
// one would be lost in it. What was cut comes again, since no commit followed.
func (r *rejects) endLine() error {
	info, err := r.file.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return err
	}
	in, err := os.Open(r.file.Name())
	if err != nil {
		return err
	}
	last := make([]byte, 1)
	_, err = in.ReadAt(last, info.Size()-1)
	if err = errors.Join(err, in.Close()); err != nil || last[0] == '\n' {
		return err
	}
	r.dirty = true
	_, err = r.file.Write([]byte{'\n'})
	return err
}

// write appends a failure in one piece, so that a killed process leaves a
// whole line or none.
func (r *rejects) write(f *failure) error {
	if r == nil {
		return nil
	}
	record := f.record
	text, err := json.Marshal(rejectLine{
		Reason: f.reason, Stage: f.by, Table: f.table, Column: f.column, Place: record.Place, Shard: record.Origin.Shard,
		Sequence: record.Origin.Sequence, Key: record.PartitionKey, Arrived: record.ArrivedAt, Data: base64.StdEncoding.EncodeToString(record.Data),
	})
	if err != nil {
		return fmt.Errorf("write rejects: %w", err)
	}
	r.dirty = true
	if _, err := r.file.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("write rejects: %w", err)
	}
	return nil
}

// sync forces what was written to the disk.
func (r *rejects) sync() error {
	if r == nil || !r.dirty {
		return nil
	}
	if err := r.force(r.file); err != nil {
		return fmt.Errorf("write rejects: %w", err)
	}
	r.dirty = false
	return nil
}

func (r *rejects) close() error {
	if r == nil {
		return nil
	}
	if err := errors.Join(r.sync(), r.file.Close()); err != nil {
		return fmt.Errorf("close rejects: %w", err)
	}
	return nil
}
