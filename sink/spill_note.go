package sink

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/internal/canon"
)

// An indexNote says what the files of a table's index reflect. It is written
// beside them at the end of a run, with a checksum behind it. Any commit after
// that makes it void.
type indexNote struct {
	Version int          `json:"version"`
	Table   string       `json:"table"`
	Key     []string     `json:"key"`    // columns and their types
	Commit  string       `json:"commit"` // the last one of the table
	Live    int64        `json:"live"`   // keys that have a row
	Floor   cdc.Position `json:"floor,omitempty"`
	Runs    []notedRun   `json:"runs"` // the newest first
}

type notedRun struct {
	Name string `json:"name"`
	ID   uint64 `json:"id"`
}

const indexVersion = 1

func noteName(table string) string {
	h := canon.HashRow([]byte(table))
	return fmt.Sprintf("%s%016x%s", indexPrefix, h.Hi, noteSuffix)
}

// tidy removes what earlier runs have left: files that no sound note names, and
// the notes of tables of the pipeline that are none, or of no mirror. Notes of
// others, with which the folder may be shared, stay with their files.
func (r *indexRoom) tidy(p *catalog.Pipeline) error {
	if !r.named {
		return nil
	}
	files, err := os.ReadDir(r.folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read folder of the index: %w", err)
	}
	mirrors := make(map[string]bool) // by the name of the note
	for _, t := range p.Tables {
		mirrors[noteName(tableName(t))] = t.Mode == catalog.Mirror
	}
	keep := make(map[string]bool)
	for _, f := range files {
		note := r.readNote(f.Name())
		if mirror, ours := mirrors[f.Name()]; note == nil || ours && !mirror {
			continue
		}
		keep[f.Name()] = true
		for _, file := range note.Runs {
			keep[file.Name] = true
		}
	}
	for _, f := range files {
		_, ours := mirrors[strings.TrimSuffix(f.Name(), newSuffix)]
		if (ours || isIndexFile(f.Name(), runSuffix)) && !keep[f.Name()] {
			if err := r.remove(f.Name()); err != nil {
				return fmt.Errorf("remove what is left of an index: %w", err)
			}
		}
	}
	return nil
}

func (r *indexRoom) remove(name string) error {
	if err := os.Remove(filepath.Join(r.folder, name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// readNote returns what a file notes, nil if it is no sound note.
func (r *indexRoom) readNote(name string) *indexNote {
	if !isIndexFile(name, noteSuffix) {
		return nil
	}
	data, err := os.ReadFile(filepath.Join(r.folder, name)) //nolint:gosec // a file of the sink's own folder
	if err != nil {
		return nil
	}
	text, sum, _ := bytes.Cut(data, []byte("\n"))
	var note indexNote
	if string(sum) != noteSum(text) || json.Unmarshal(text, &note) != nil || note.Version != indexVersion || noteName(note.Table) != name {
		return nil
	}
	for _, file := range note.Runs {
		if !isIndexFile(file.Name, runSuffix) {
			return nil
		}
	}
	return &note
}

func noteSum(text []byte) string { return fmt.Sprintf("%08x\n", checksum(text)) }

// adopt takes over the index that an earlier run has left, if it reflects the
// commit of a table that has this key, and nobody else has changed rows since
// (own). What cannot be taken over is removed.
func (g *guard) adopt(table string, key []string, commit string, own bool) (adopted bool, err error) {
	if g.room == nil || !g.room.named {
		return false, nil
	}
	note := g.room.readNote(noteName(table))
	if note == nil {
		return false, nil
	}
	disk := &spill{room: g.room}
	if own && commit != "" && note.Table == table && note.Commit == commit && slices.Equal(note.Key, key) {
		for _, file := range note.Runs {
			r, err := openRun(filepath.Join(g.room.folder, file.Name), file.Name, file.ID, g.room.filterLimit())
			if err != nil {
				break // whatever it is: the table has everything
			}
			r.saved = true
			disk.runs = append(disk.runs, r)
		}
	}
	if len(disk.runs) == len(note.Runs) && len(disk.runs) > 0 && g.takeFloor(note.Floor) {
		g.disk, g.live = disk, note.Live
		return true, nil
	}
	err = g.room.remove(noteName(table))
	for _, r := range disk.runs {
		err = errors.Join(err, r.file.Close())
	}
	for _, file := range note.Runs {
		err = errors.Join(err, g.room.remove(file.Name))
	}
	if err != nil {
		return false, fmt.Errorf("remove what is left of an index: %w", err)
	}
	return false, nil
}

// takeFloor raises the floor to the one noted; false if that is no position.
func (g *guard) takeFloor(noted cdc.Position) bool {
	if noted == "" {
		return true
	}
	p, ok := pack([]byte(noted))
	if ok {
		g.raise(&p)
	}
	return ok
}

// save leaves the index of a table for the next run, if it is on disk already
// and the folder is there to stay.
func (g *guard) save(ctx context.Context, table string, key []string, commit string) error {
	if g.disk == nil || !g.room.named {
		return nil
	}
	if err := errors.Join(g.sweep(), g.disk.stop()); err != nil {
		return err
	}
	if g.keys.count > 0 {
		if err := g.disk.write(ctx, &g.keys); err != nil {
			return err
		}
		g.keys = index{}
	}
	note := indexNote{Version: indexVersion, Table: table, Key: key, Commit: commit, Live: g.live}
	if g.hasFloor {
		note.Floor = g.floor.text()
	}
	for _, r := range g.disk.runs {
		note.Runs = append(note.Runs, notedRun{r.name, r.ID})
	}
	text, err := json.Marshal(&note)
	if err != nil {
		return err
	}
	path := filepath.Join(g.room.folder, noteName(table))
	if err := os.WriteFile(path+newSuffix, append(append(text, '\n'), noteSum(text)...), 0o600); err != nil {
		return err
	}
	if err := os.Rename(path+newSuffix, path); err != nil {
		return err
	}
	for _, r := range g.disk.runs {
		r.saved = true
	}
	return nil
}

// close saves the index of every table and closes the files. What could not be
// saved is gone: the next run builds it anew.
func (r *indexRoom) close(ctx context.Context, writers []*writer) (err error) {
	for _, w := range writers {
		if watcher, ok := w.store.(Watcher); ok && watcher.Meddled() {
			continue // the index does not know what somebody else wrote: the next run reads it
		}
		if w.guard != nil {
			err = errors.Join(err, w.guard.save(ctx, w.name(), w.keyTypes(), w.commitID))
		}
	}
	if err != nil {
		err = fmt.Errorf("save index in %s: %w", r.folder, err)
	}
	return errors.Join(err, r.abandon())
}
