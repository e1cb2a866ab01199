package dms

import "strings"

// texts makes strings from bytes of a record without one allocation each.
type texts struct {
	names map[string]string
	last  [fieldCount]string // the name that each metadata field had last
	block strings.Builder
}

const (
	maxNames    = 4096    // distinct names kept, so that hostile records cannot fill memory
	maxNameSize = 256     // bytes of a name worth keeping
	blockSize   = 1 << 15 // bytes of a block that once cuts strings from
)

// name returns b, the text of a metadata field, as a string that many records
// share.
func (t *texts) name(field int, b []byte) string {
	if t.last[field] == string(b) {
		return t.last[field]
	}
	if len(b) == 0 {
		return ""
	}
	if s, ok := t.names[string(b)]; ok {
		t.last[field] = s
		return s
	}
	if len(t.names) >= maxNames || len(b) > maxNameSize {
		return t.once(b)
	}
	s := string(b)
	t.names[s] = s
	return s
}

// once returns b as a string that is not expected again. Strings are cut from
// a block one after another and never overwritten; a block lives as long as
// one of its strings does.
func (t *texts) once(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if len(b) > blockSize/8 {
		return string(b)
	}
	if t.block.Cap()-t.block.Len() < len(b) {
		t.block.Reset()
		t.block.Grow(blockSize)
	}
	start := t.block.Len()
	t.block.Write(b)
	return t.block.String()[start:]
}
