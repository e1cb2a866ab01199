package sink

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"time"

	"icehose/cdc"
	"icehose/internal/canon"
)

// Room is the memory and the folder that guards share.
type Room struct{ r *indexRoom }

// NewRoom returns the room of a sink with these options.
func NewRoom(o Options) Room {
	o.defaults()
	return Room{newIndexRoom(&o)}
}

// FailFiles lets the files that are created from now on fail when all of them
// together have more than n bytes.
func (r Room) FailFiles(n int, err error) {
	r.r.open = func(path string) (runFile, error) {
		f, createErr := createFile(path)
		return &failingFile{f, &n, err}, createErr
	}
}

// StallFiles lets what is written into the second file that is created from now
// on, and into later ones, wait for the channel.
func (r Room) StallFiles(until <-chan struct{}) {
	files := 0
	r.r.open = func(path string) (runFile, error) {
		f, err := createFile(path)
		if files++; files == 1 {
			return f, err
		}
		return &stallingFile{f, until}, err
	}
}

type stallingFile struct {
	runFile
	until <-chan struct{}
}

// Write implements io.Writer.
func (f *stallingFile) Write(b []byte) (int, error) {
	select {
	case <-f.until:
	case <-time.After(time.Minute): // so that the test fails, and does not hang
	}
	return f.runFile.Write(b)
}

// HealFiles ends the others.
func (r Room) HealFiles() { r.r.open = createFile }

type failingFile struct {
	runFile
	left *int
	err  error
}

// Write implements io.Writer.
func (f *failingFile) Write(b []byte) (int, error) {
	if *f.left -= len(b); *f.left < 0 {
		return 0, f.err
	}
	return f.runFile.Write(b)
}

// Guard returns an empty guard in the room.
func (r Room) Guard() Guard { return Guard{r.r.guard(defaultHorizon)} }

// Close saves the guard and gives up the files, as the end of a sink does.
func (r Room) Close(ctx context.Context, g Guard, commit string) error {
	if err := g.g.save(ctx, "db.table", []string{"id long"}, commit); err != nil {
		return err
	}
	return r.r.abandon()
}

// Adopt takes over what Close left.
func (g Guard) Adopt(commit string) (bool, error) {
	return g.g.adopt("db.table", []string{"id long"}, commit, true)
}

// Refuse is Adopt of a table that somebody else has changed.
func (g Guard) Refuse(commit string) (bool, error) {
	return g.g.adopt("db.table", []string{"id long"}, commit, false)
}

// NoteName is the name of the note of a table's index.
func NoteName(table string) string { return noteName(table) }

// Files returns the runs of a guard.
func (g Guard) Files() (names []string) {
	if g.g.disk != nil {
		for _, r := range g.g.disk.runs {
			names = append(names, r.name)
		}
	}
	return names
}

// A Found is a row or a tombstone as storage has it.
type Found struct {
	Key       canon.Hash
	Position  Packed
	Deleted   bool
	Committed int64
}

// Rebuild restores a guard from storage and spills whenever spill says so.
func (g Guard) Rebuild(ctx context.Context, found []Found, spill func() bool) error {
	g.g.restoring = true
	for i := range found {
		if spill() {
			if err := g.g.spillKeys(ctx); err != nil {
				return err
			}
		}
		g.g.restore(found[i].Key, &found[i].Position, found[i].Deleted, found[i].Committed)
	}
	return g.g.restored(ctx)
}

// MakeRoom makes room for n more keys.
func (g Guard) MakeRoom(ctx context.Context, n int) error { return g.g.makeRoom(ctx, n) }

// Spill moves what is in memory to the disk.
func (g Guard) Spill(ctx context.Context) error { return g.g.spillKeys(ctx) }

// Merged waits for the merge that runs.
func (g Guard) Merged(ctx context.Context) error {
	if g.g.disk == nil {
		return nil
	}
	return g.g.disk.take(ctx, true)
}

// Judge checks a change and applies it if that says so.
func (g Guard) Judge(h canon.Hash, p Packed, deletes bool, committed int64) (verdict string, live bool, err error) {
	v, live, err := g.g.check(h, &p, deletes)
	if v == apply {
		g.g.set(h, &p, deletes, committed, live)
	}
	return [...]string{"", "apply", "superseded", "too old"}[v], live, err
}

// Holds reports whether a tombstone is the last of its key.
func (g Guard) Holds(h canon.Hash, p Packed) (bool, error) { return g.g.holds(h, &p) }

// Advance sets the clock, in Unix microseconds, and prunes.
func (g Guard) Advance(now int64) { g.g.advance(clock{now: now}) }

// Sees returns what the guard says of everything together.
func (g Guard) Sees() (rows int64, floor cdc.Position, err error) {
	err = g.g.sweep()
	if g.g.hasFloor {
		floor = g.g.floor.text()
	}
	return g.g.rows(), floor, err
}

// SetFloor sets the floor that was noted.
func (g Guard) SetFloor(floor cdc.Position) { g.g.takeFloor(floor) }

// Size returns the bytes of memory and disk.
func (g Guard) Size() (memory, disk int64) { return g.g.size() }

// NoTime is no time.
const NoTime = noTime

// Damage changes a byte, at a part of its length, of each file of the room's
// folder whose name ends so.
func (r Room) Damage(suffix string, part float64) error {
	files, err := filepath.Glob(filepath.Join(r.r.folder, "*"+suffix))
	for _, path := range files {
		var data []byte
		if data, err = os.ReadFile(path); err != nil {
			return err
		}
		data[int(part*float64(len(data)-1))] ^= 0x10
		if err = os.WriteFile(path, data, 0o600); err != nil {
			return err
		}
	}
	return err
}

// Abandon gives up the guards of the room.
func (r Room) Abandon() error { return r.r.abandon() }

// ErrIndexDamaged says that a file is not what was written.
var ErrIndexDamaged = errIndexDamaged

// Later returns p with its lowest digits replaced.
func Later(p Packed, n uint64) Packed {
	binary.BigEndian.PutUint64(p.head[10:], n)
	return p
}

// Change checks a change and applies it if that says so.
func (g Guard) Change(h canon.Hash, p Packed, deletes bool) {
	if v, live, _ := g.g.check(h, &p, deletes); v == apply {
		g.g.set(h, &p, deletes, 1, live)
	}
}

// Restoring begins what Restored ends.
func (g Guard) Restoring() { g.g.restoring = true }

// Restored ends what Restore was called for.
func (g Guard) Restored(ctx context.Context) error { return g.g.restored(ctx) }

// OnCancel calls f when the merge that runs is told to end.
func (g Guard) OnCancel(f func()) {
	m := g.g.disk.merging
	cancel := m.cancel
	m.cancel = func() {
		cancel()
		f()
	}
}
