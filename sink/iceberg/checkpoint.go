package iceberg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	iceio "github.com/apache/iceberg-go/io"
)

// errNoPlace says that a store has no folder of its own.
var errNoPlace = errors.New("the catalog places tables itself: give it a warehouse that is a URI")

// WriteCheckpoint implements sink.Checkpointer: a file beside the folders of
// the databases.
func (s *Store) WriteCheckpoint(ctx context.Context, name string, data []byte) error {
	if s.readOnly {
		return errors.New("write checkpoint: lake is open for reading only")
	}
	if s.location == "" {
		return nil // a record that nobody could find
	}
	place := s.location + "/" + name
	if isLocal(place) {
		if err := s.disk.replaceFile(place, data); err != nil {
			return s.lasting(fmt.Errorf("write checkpoint: %w", err))
		}
		return nil
	}
	files, err := s.storage(ctx)
	if err == nil {
		err = files.WriteFile(place, data)
	}
	if err != nil {
		return s.lasting(fmt.Errorf("write checkpoint: %w", oneLine(err)))
	}
	return nil
}

// ReadCheckpoint implements sink.Checkpointer.
func (s *Store) ReadCheckpoint(ctx context.Context, name string) ([]byte, error) {
	if s.location == "" {
		return nil, nil
	}
	files, err := s.storage(ctx)
	if err != nil {
		return nil, fmt.Errorf("read checkpoint: %w", oneLine(err))
	}
	data, err := files.ReadFile(s.location + "/" + name)
	if isMissing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read checkpoint: %w", oneLine(err))
	}
	return data, nil
}

// storage opens the file system of the warehouse.
func (s *Store) storage(ctx context.Context) (readWriter, error) {
	if s.location == "" {
		return nil, errNoPlace
	}
	if isLocal(s.location) {
		return s.disk, nil
	}
	opened, err := iceio.LoadFS(s.catalog.buckets.with(ctx), s.properties, s.location)
	if err != nil {
		return nil, err
	}
	files, ok := opened.(readWriter)
	if !ok {
		return nil, errors.New("storage cannot be written")
	}
	return files, nil
}

// isMissing reports whether an error says that there is no such file, on disk
// or in an object store.
func isMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || err != nil && (strings.Contains(err.Error(), "NoSuchKey") || strings.Contains(err.Error(), "code=NotFound"))
}
