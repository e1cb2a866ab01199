package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"

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
	dirty bool
}

// openRejects opens the file, which must not be one of those that are read:
// it would grow for ever.
func openRejects(path string, inputs []string) (*rejects, error) {
	if path == "" {
		return nil, nil //nolint:nilnil // no file is a state of its own
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open rejects: %w", err)
	}
	for _, input := range inputs {
		if sameFile(input, path) {
			return nil, errors.Join(fmt.Errorf("open rejects: %s is also read", path), file.Close())
		}
	}
	return &rejects{file: file}, nil
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
	if err := r.file.Sync(); err != nil {
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
