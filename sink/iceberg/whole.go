package iceberg

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"

	lake "icehose/catalog/iceberg"
)

// A committer commits what was staged on a table that was loaded, if the lists of
// manifests that it is made from were whole. A list, or a manifest, that was cut
// behind a block reads as a shorter one, and what is committed on top of it
// would lose the rest for good.
type committer struct {
	*lakeCatalog
	base *table.Table
}

// bases is what is known of the newest snapshots of tables, by their names: a
// commit on top of one reads its own list, which is new, and nothing else.
type bases struct {
	mu    sync.Mutex
	known map[string]lake.Base
}

func (b *bases) of(id table.Identifier) lake.Base {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.known[strings.Join(id, ".")]
}

func (b *bases) put(id table.Identifier, base lake.Base) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known == nil {
		b.known = make(map[string]lake.Base)
	}
	b.known[strings.Join(id, ".")] = base
}

// CommitTable implements table.CatalogIO.
func (c *committer) CommitTable(ctx context.Context, id table.Identifier, requirements []table.Requirement, updates []table.Update) (
	table.Metadata, string, error,
) {
	added, err := addedSnapshots(updates)
	if err != nil {
		return nil, "", err
	}
	base, err := c.check(ctx, id, added)
	if err != nil {
		return nil, "", err
	}
	metadata, location, err := c.lakeCatalog.CommitTable(ctx, id, requirements, updates)
	if err == nil && len(added) > 0 {
		c.bases.put(id, base)
	}
	return metadata, location, err
}

// check checks the lists of snapshots that are to be committed, each on top of
// the one before it, and returns what is known of the last then.
func (c *committer) check(ctx context.Context, id table.Identifier, added []*table.Snapshot) (base lake.Base, err error) {
	if len(added) == 0 {
		return base, nil
	}
	lists, err := lake.NewLists(ctx, c.base, isOurs)
	if err != nil {
		return base, err
	}
	base = c.bases.of(id)
	for _, s := range added {
		switch parent := s.ParentSnapshotID; {
		case parent == nil:
			base = lake.Base{}
		case *parent != base.SnapshotID:
			if base, err = c.parent(ctx, id, lists, *parent); err != nil {
				return base, err
			}
		}
		next, err := lists.Next(base, s)
		if errors.Is(err, lake.ErrDamaged) && base.SnapshotID != 0 {
			// What was cut since may be one of its manifests.
			if _, cut := c.parent(ctx, id, lists, base.SnapshotID); errors.Is(cut, lake.ErrDamaged) {
				err = cut
			}
		}
		if err != nil {
			return base, err
		}
		base = next
	}
	return base, nil
}

// parent checks a snapshot that this process has not made, or not last.
func (c *committer) parent(ctx context.Context, id table.Identifier, lists *lake.Lists, parent int64) (lake.Base, error) {
	s := c.base.SnapshotByID(parent)
	if s == nil { // the table is the outcome of a commit
		current, err := c.LoadTable(ctx, id)
		if err != nil {
			return lake.Base{}, err
		}
		if s = current.SnapshotByID(parent); s == nil {
			return lake.Base{}, fmt.Errorf("%w: snapshot %d, on which the commit is based, is gone", table.ErrCommitFailed, parent)
		}
		if lists, err = lake.NewLists(ctx, current, isOurs); err != nil {
			return lake.Base{}, err
		}
	}
	return lists.Base(ctx, s)
}

// addedSnapshots returns the snapshots that updates add, in their order.
func addedSnapshots(updates []table.Update) ([]*table.Snapshot, error) {
	var added []*table.Snapshot
	for _, u := range updates {
		if u.Action() != table.UpdateAddSnapshot {
			continue
		}
		text, err := json.Marshal(u)
		if err != nil {
			return nil, fmt.Errorf("look at snapshot: %w", err)
		}
		var add struct {
			Snapshot *table.Snapshot `json:"snapshot"`
		}
		if err := json.Unmarshal(text, &add); err != nil {
			return nil, fmt.Errorf("look at snapshot: %w", err)
		}
		if add.Snapshot != nil {
			added = append(added, add.Snapshot)
		}
	}
	return added, nil
}

// explain names the file that an attempt of a commit on top of a snapshot failed
// for, if it is one of the snapshot's: the library's errors name none.
func explain(ctx context.Context, current *table.Table, err error) error {
	s := current.CurrentSnapshot()
	if s == nil || ctx.Err() != nil || MayPass(err) || errors.Is(err, lake.ErrDamaged) || errors.Is(err, table.ErrCommitFailed) {
		return err
	}
	lists, failed := lake.NewLists(ctx, current, isOurs)
	if failed == nil {
		_, failed = lists.Base(ctx, s)
	}
	if errors.Is(failed, lake.ErrDamaged) || errors.Is(failed, fs.ErrNotExist) {
		return failed
	}
	return err
}

// A guard is how the library reads the newest snapshot of a table: it gives no
// manifest that has lost its end, and knows which files were opened, since the
// library's errors name none.
type guard struct {
	iceio.IO
	lists     *lake.Lists
	manifests map[string]iceberg.ManifestFile

	mu     sync.Mutex
	opened []string // in their order, each once
}

// guarded returns a table that is read through a guard. The list of its newest
// snapshot is whole.
func guarded(ctx context.Context, current *table.Table) (*table.Table, *guard, error) {
	lists, err := lake.NewLists(ctx, current, isOurs)
	if err != nil {
		return nil, nil, err
	}
	g := &guard{IO: lists.FS(), lists: lists, manifests: make(map[string]iceberg.ManifestFile)}
	if s := current.CurrentSnapshot(); s != nil {
		manifests, err := lists.Whole(s)
		if err != nil {
			return nil, nil, err
		}
		for _, m := range manifests {
			g.manifests[m.FilePath()] = m
		}
	}
	files := func(context.Context) (iceio.IO, error) { return g, nil }
	return table.New(current.Identifier(), current.Metadata(), current.MetadataLocation(), files, nil), g, nil
}

// Open implements io.IO.
func (g *guard) Open(name string) (iceio.File, error) {
	if m, ok := g.manifests[name]; ok {
		return g.lists.OpenManifest(m)
	}
	g.mu.Lock()
	if !slices.Contains(g.opened, name) {
		g.opened = append(g.opened, name)
	}
	g.mu.Unlock()
	return g.IO.Open(name)
}

// blame names the file that an error of a read comes from: one that is shorter
// than its manifest says, and else the one that was opened last.
func (g *guard) blame(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, lake.ErrDamaged) || errors.Is(err, fs.ErrNotExist) || ctx.Err() != nil {
		return err
	}
	g.mu.Lock()
	opened := slices.Clone(g.opened)
	g.mu.Unlock()
	sizes := make(map[string]int64)
	for _, m := range g.manifests {
		_, failed := readManifest(g.IO, m, func(e iceberg.ManifestEntry) { sizes[e.DataFile().FilePath()] = e.DataFile().FileSizeBytes() })
		if failed != nil {
			return fmt.Errorf("%w: %w", failed, err)
		}
	}
	for _, name := range slices.Backward(opened) {
		if size, failed := sizeOf(g.IO, name); failed == nil && size < sizes[name] {
			return fmt.Errorf("file %s %w: it has %d of %d bytes; restore it, or go back to a snapshot without it: %w", name, lake.ErrDamaged, size, sizes[name], err)
		}
	}
	for _, name := range slices.Backward(opened) {
		if path.Ext(name) == ".parquet" {
			return fmt.Errorf("%w (the file opened last is %s)", err, name)
		}
	}
	return err
}

// blamed yields what batches yields, with the file that an error comes from.
func (g *guard) blamed(ctx context.Context, batches iter.Seq2[arrow.RecordBatch, error]) iter.Seq2[arrow.RecordBatch, error] {
	return func(yield func(arrow.RecordBatch, error) bool) {
		for batch, err := range batches {
			if !yield(batch, g.blame(ctx, err)) {
				return
			}
		}
	}
}

func sizeOf(files iceio.IO, name string) (int64, error) {
	f, err := files.Open(name)
	if err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err = errors.Join(err, f.Close()); err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// locate returns where the SQLite catalog says that the metadata of a table is.
func (s *Store) locate(ctx context.Context, id table.Identifier) (location string) {
	last := len(id) - 1
	row := s.db.QueryRowContext(ctx, "SELECT metadata_location FROM iceberg_tables WHERE catalog_name = ? AND table_namespace = ? AND table_name = ?",
		catalogName, strings.Join(id[:last], "."), id[last])
	if err := row.Scan(&location); err != nil {
		return "" // the error that it is wanted for tells more
	}
	return location
}

// unreadable adds to the error of a table whose metadata is damaged where that
// is: the library does not say.
func (c *lakeCatalog) unreadable(ctx context.Context, id table.Identifier, err error) error {
	_, syntax := errors.AsType[*json.SyntaxError](err)
	if c.locate == nil || !syntax && !errors.Is(err, table.ErrInvalidMetadata) {
		return err
	}
	location := c.locate(ctx, id)
	if location == "" || strings.Contains(err.Error(), path.Base(location)) {
		return err
	}
	return fmt.Errorf("table metadata %s %w: %w; restore it", location, lake.ErrDamaged, err)
}
