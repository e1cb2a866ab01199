package iceberg

import (
	"fmt"
	"slices"
	"strings"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"icehose/catalog"
)

// A cell is what must be compacted together: the data files of one partition
// and the equality deletes that act on them, by sequence number.
type cell struct {
	partition     string
	data, deletes []liveFile
	// mixed says that the table's partitioning has changed: which delete acts on
	// which file is then no matter of one partition. spec is the current one's id.
	mixed bool
	spec  int32
}

// A rewrite is one commit of compaction.
type rewrite struct {
	why       RewriteReason
	partition string
	data      []liveFile // replaced by files of the rows that are left
	deletes   []liveFile // removed
	// fold says that older data files stay on which deletes still act: the keys
	// of those are carried over into one new delete file.
	fold bool
}

func (r *rewrite) summary() Rewrite {
	out := Rewrite{Why: r.why, Partition: r.partition, DataFiles: len(r.data), DeleteFiles: len(r.deletes), Carried: r.fold}
	for _, f := range r.data {
		out.Bytes += f.file.FileSizeBytes()
		out.Rows += f.file.Count()
	}
	return out
}

// cells groups the files of a snapshot. Position deletes, which the sink never
// writes, belong to no cell: they go when what they speak of is rewritten.
func cells(live *liveFiles, specs table.Metadata, t *catalog.Table) []*cell {
	byKey := make(map[string]*cell)
	var keys []string
	current := int32(specs.DefaultPartitionSpec()) //nolint:gosec // ids are 32 bits wide
	former := false
	find := func(f liveFile) *cell {
		spec := f.file.SpecID()
		former = former || spec != current
		key := partitionText(specs.PartitionSpecByID(int(spec)), f.file.Partition())
		id := fmt.Sprintf("%d/%s", spec, key)
		if byKey[id] == nil {
			byKey[id] = &cell{partition: key}
			keys = append(keys, id)
		}
		return byKey[id]
	}
	for _, f := range live.data {
		c := find(f)
		c.data = append(c.data, f)
	}
	for _, f := range live.deletes {
		if f.file.ContentType() == iceberg.EntryContentEqDeletes {
			c := find(f)
			c.deletes = append(c.deletes, f)
		}
	}
	out := make([]*cell, 0, len(keys))
	for _, key := range keys {
		out = append(out, byKey[key])
	}
	deleted := slices.ContainsFunc(out, func(c *cell) bool { return len(c.deletes) > 0 })
	byKeyDeleted := t.Mode == catalog.Mirror && len(t.Key) > 0 && t.DeleteFormat() == catalog.EqualityDeletes
	if !former || !deleted && !byKeyDeleted {
		return out
	}
	all := &cell{mixed: true, data: live.data, spec: current}
	for _, f := range live.deletes {
		if f.file.ContentType() == iceberg.EntryContentEqDeletes {
			all.deletes = append(all.deletes, f)
		}
	}
	return []*cell{all}
}

// partitionText names a partition: field=value, in the order of the spec.
func partitionText(spec *iceberg.PartitionSpec, values map[int]any) string {
	if spec == nil || spec.NumFields() == 0 {
		return ""
	}
	var parts []string
	for _, f := range spec.Fields() {
		parts = append(parts, fmt.Sprintf("%s=%v", f.Name, values[f.FieldID]))
	}
	return strings.Join(parts, "/")
}

// plan decides what a cell needs; nil for nothing.
func (c *cell) plan(m *Maintenance) *rewrite {
	if c.mixed {
		return c.planMixed(m)
	}
	if r := c.planDeleted(m); r != nil {
		return r
	}
	if r := c.planSmall(m); r != nil {
		return r
	}
	if dead := c.dead(c.data); len(dead) >= m.DeleteFiles {
		return &rewrite{why: DeadDeletes, partition: c.partition, deletes: dead}
	}
	return nil
}

// dead returns the deletes that act on none of the data files.
func (c *cell) dead(data []liveFile) []liveFile {
	var dead []liveFile
	for _, d := range c.deletes {
		if len(data) == 0 || d.seq <= data[0].seq {
			dead = append(dead, d)
		}
	}
	return dead
}

func isSmall(f liveFile, m *Maintenance) bool { return f.file.FileSizeBytes() < m.TargetFileSize/4*3 }

// planDeleted rewrites the oldest files when delete files speak of too large a
// part of the rows that they can act on. A sink deletes a key only where a row
// of it is, so a delete record stands for a row that still takes space.
func (c *cell) planDeleted(m *Maintenance) *rewrite {
	if len(c.deletes) == 0 {
		return nil
	}
	newest := c.deletes[len(c.deletes)-1].seq
	old := 0
	var rows, deleted int64
	for ; old < len(c.data) && c.data[old].seq < newest; old++ {
		rows += c.data[old].file.Count()
	}
	for _, d := range c.deletes {
		if old > 0 && d.seq > c.data[0].seq {
			deleted += d.file.Count()
		}
	}
	if rows == 0 || float64(deleted) < m.DeleteRatio*float64(rows) {
		return nil
	}
	n, bytes := 0, int64(0)
	for n < old && (n == 0 || bytes+c.data[n].file.FileSizeBytes() <= m.MaxRewrite) {
		bytes += c.data[n].file.FileSizeBytes()
		n++
	}
	for n == old && old < len(c.data) && isSmall(c.data[n], m) && bytes+c.data[n].file.FileSizeBytes() <= m.MaxRewrite {
		bytes += c.data[n].file.FileSizeBytes() // everything old is there: take the small ones behind it along
		n, old = n+1, old+1
	}
	return &rewrite{why: DeletedRows, partition: c.partition, data: c.data[:n], deletes: c.dead(c.data[n:])}
}

// sizeRatio is by how much an older file may exceed the newer ones together to
// be rewritten with them. It makes files grow geometrically, so that a row is
// rewritten a logarithmic number of times.
const sizeRatio = 2

// planSmall rewrites the newest files when there are many small ones, or many
// delete files. Only a run of the newest can be put together without touching
// the older ones: its delete files act on everything older.
func (c *cell) planSmall(m *Maintenance) *rewrite {
	small := 0
	for _, f := range c.data {
		if isSmall(f, m) {
			small++
		}
	}
	from, bytes, rows := len(c.data), int64(0), int64(0)
	for from > 0 {
		f := c.data[from-1]
		size := f.file.FileSizeBytes()
		// Tiny files are never worth sparing, and sizes without a pattern must not hold it up for ever.
		large := from < len(c.data) && size > sizeRatio*bytes && size > m.TargetFileSize/64 && small < 4*m.MinFiles
		tooMany := len(c.deletes) > 0 && from < len(c.data) && rows+f.file.Count() > carriedKeys
		if !isSmall(f, m) || large || tooMany || bytes+size > m.MaxRewrite {
			break
		}
		bytes, rows = bytes+size, rows+f.file.Count()
		from--
	}
	// Files of one commit have the same sequence number: all of them, or none.
	boundary := int64(-1)
	if from > 0 {
		boundary = c.data[from-1].seq
	}
	for from < len(c.data) && c.data[from].seq == boundary {
		from++
	}
	r := &rewrite{why: SmallFiles, partition: c.partition, data: c.data[from:], fold: from > 0}
	carried := int64(0)
	for _, d := range slices.Backward(c.deletes) {
		if d.seq <= boundary || r.fold && carried+d.file.Count() > carriedKeys {
			break
		}
		carried += d.file.Count()
		r.deletes = append(r.deletes, d)
	}
	r.fold = r.fold && len(r.deletes) > 0
	// There must be fewer files afterwards, or it would be due again at once.
	fewerData := len(r.data) >= m.MinFiles && len(r.data) > len(packFiles(r.data, m.TargetFileSize))
	fewerDeletes := len(r.deletes) >= m.DeleteFiles && (len(r.deletes) > 1 || len(r.deletes) == 1 && !r.fold)
	if !fewerData && !fewerDeletes {
		return nil
	}
	return r
}

// packFiles splits files into groups that make one file each: of the least
// size that is not small.
func packFiles(files []liveFile, target int64) [][]liveFile {
	var groups [][]liveFile
	full := int64(0)
	for _, f := range files {
		if len(groups) == 0 || full >= target/4*3 {
			groups, full = append(groups, nil), 0
		}
		last := len(groups) - 1
		groups[last], full = append(groups[last], f), full+f.file.FileSizeBytes()
	}
	return groups
}

// planMixed rewrites the oldest files that are of a former partitioning or that
// a delete may act on, until there are none: then the deletes can go, and the
// table is no longer mixed. A sink that writes equality deletes refuses the
// table until then, so it is always due.
func (c *cell) planMixed(m *Maintenance) *rewrite {
	newest := int64(-1)
	if n := len(c.deletes); n > 0 {
		newest = c.deletes[n-1].seq
	}
	r := &rewrite{why: OldPartitions}
	var left []liveFile
	var bytes int64
	for _, f := range c.data {
		candidate, size := f.file.SpecID() != c.spec || f.seq < newest, f.file.FileSizeBytes()
		if !candidate || len(r.data) > 0 && bytes+size > m.MaxRewrite {
			left = append(left, f)
			continue
		}
		r.data, bytes = append(r.data, f), bytes+size
	}
	if r.deletes = c.dead(left); len(r.data) == 0 && len(r.deletes) == 0 {
		return nil
	}
	return r
}
