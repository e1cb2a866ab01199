package merge

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/iceberg-go/table"

	"icehose/catalog"
	"icehose/internal/canon"
	"icehose/sink"
)

// The notes of a merge: properties of the current table, and of the summary of
// the snapshot that a merge made.
const (
	PropertyMerged   = sink.PropertyPrefix + "merged-snapshot" // of the changelog: everything up to it is merged; 0: the first merge has begun
	PropertyPosition = sink.PropertyPrefix + "merged-position" // the greatest position merged
	PropertyKind     = sink.PropertyPrefix + "position-kind"   // of the positions merged
	PropertyKey      = sink.PropertyPrefix + "merged-key"      // the key columns by which was merged, with commas
	PropertyChange   = sink.PropertyPrefix + "merged-change"   // the greatest position of a change merged, a blank, and when it was committed in Unix seconds
)

// PropertyOnto notes, in the summary of a snapshot, the one that it must have
// been made upon; 0 for none. A statement that the fence has kept from its work
// may still commit a snapshot, with nothing in it but the notes.
const PropertyOnto = sink.PropertyPrefix + "merged-onto"

// PropertyColumns notes the columns and the defaults by which was merged, as
// columnsNote gives them. When they have changed, every key is folded anew.
const PropertyColumns = sink.PropertyPrefix + "merged-columns"

// A newest is the change of the greatest position among some, and when it was
// committed; its position is "" if there is none.
type newest struct {
	position string
	seconds  int64 // Unix time
}

// never is a time after all others.
const never = 1 << 60

// text is PropertyChange.
func (n newest) text() string {
	if n.position == "" {
		return ""
	}
	return n.position + " " + strconv.FormatInt(n.seconds, 10)
}

func readNewest(text string) newest {
	position, time, _ := strings.Cut(text, " ")
	seconds, err := strconv.ParseInt(time, 10, 64)
	if err != nil {
		return newest{seconds: never}
	}
	return newest{position, seconds}
}

// readNotes finds out how far the current table is.
func (p *plan) readNotes(o Options) error {
	if p.current == nil {
		return nil
	}
	head := p.current.CurrentSnapshot()
	if head != nil {
		p.expected = head.SnapshotID
	}
	properties := p.current.Properties()
	p.property = properties[PropertyMerged]
	if err := p.checkOwn(); err != nil {
		return err
	}
	if err := p.readColumns(o); err != nil {
		return err
	}
	if p.rebuild {
		return nil
	}
	p.position, p.change = properties[PropertyPosition], readNewest(properties[PropertyChange])
	kind := p.t.Position.String()
	if noted := properties[PropertyKind]; noted != "" && noted != kind {
		return fmt.Errorf("%w: the positions merged so far are of kind %s, the pipeline file says %s, and the two do not compare: put the change of kind into epochs: of the pipeline file, then, once a change of the new epoch is there, icehose merge --rebuild",
			ErrRefused, noted, kind)
	}
	marker, err := p.marker(properties)
	if err != nil {
		return err
	}
	if !p.noted && hasRows(head) {
		return fmt.Errorf("%w: the current table has rows, and no note of how far it was merged: was it filled by something else, or restored? icehose merge --rebuild folds everything anew", ErrRefused)
	}
	if marker != 0 && p.log.Metadata().SnapshotByID(marker) == nil {
		return fmt.Errorf("%w: snapshot %d of the changelog, up to which was merged, has expired: icehose merge --rebuild folds everything anew; merge more often than snapshots expire", ErrRefused, marker)
	}
	p.from = marker
	// A run that was killed before it noted the columns may have had others.
	if len(p.missing) > 0 || p.noted && properties[PropertyColumns] != columnsNote(p.t) {
		p.from, p.position, p.change, p.rebuild = 0, "", newest{seconds: never}, true
	}
	return nil
}

// marker returns the furthest snapshot of the changelog that is noted, 0 for
// none: in the properties, or in the summary of a snapshot of the current table
// that did what its note says. Each note was true when it was made, and rows are
// never taken back.
func (p *plan) marker(properties map[string]string) (int64, error) {
	var best, bestSequence int64
	consider := func(text string) error {
		if text == "" {
			return nil
		}
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return fmt.Errorf("%w: property %s of the current table is not a snapshot: icehose merge --rebuild", ErrRefused, PropertyMerged)
		}
		p.noted = true
		if id == 0 {
			return nil
		}
		sequence := int64(-1) // expired
		if s := p.log.Metadata().SnapshotByID(id); s != nil {
			sequence = s.SequenceNumber
		}
		if best == 0 || sequence > bestSequence {
			best, bestSequence = id, sequence
		}
		return nil
	}
	if err := consider(properties[PropertyMerged]); err != nil {
		return 0, err
	}
	for s := p.current.CurrentSnapshot(); s != nil; {
		if s.Summary != nil && keepsItsNote(s) {
			if err := consider(s.Summary.Properties[PropertyMerged]); err != nil {
				return 0, err
			}
		}
		if s.ParentSnapshotID == nil {
			break
		}
		s = p.current.Metadata().SnapshotByID(*s.ParentSnapshotID)
	}
	return best, nil
}

// keepsItsNote reports whether a snapshot did what its note says: it was made
// upon the snapshot that the merge had read. Notes of before this was noted
// count if their snapshot changed something.
func keepsItsNote(s *table.Snapshot) bool {
	parent := int64(0)
	if s.ParentSnapshotID != nil {
		parent = *s.ParentSnapshotID
	}
	if onto, ok := s.Summary.Properties[PropertyOnto]; ok {
		return onto == strconv.FormatInt(parent, 10)
	}
	return slices.ContainsFunc([]string{"added-data-files", "deleted-data-files", "added-delete-files", "removed-delete-files"},
		func(name string) bool { return summaryCount(s, name) > 0 })
}

// notes are the properties after a run that has read up to a snapshot and a
// position.
func (p *plan) notes(merged int64, highest string) map[string]string {
	return map[string]string{
		PropertyMerged: strconv.FormatInt(merged, 10), PropertyPosition: max(p.position, highest), PropertyKind: p.t.Position.String(),
		PropertyKey: keyNote(p.t), PropertyColumns: columnsNote(p.t), PropertyChange: p.change.text(), PropertyFields: p.fieldsNote(),
	}
}

// keyNote is a table's key as the note has it.
func keyNote(t *catalog.Table) string { return strings.Join(t.Key, ",") }

// columnsNote is a digest of a table's columns and their defaults.
func columnsNote(t *catalog.Table) string {
	columns, data := t.LakeColumns()
	digest := sha256.New()
	for _, c := range columns[:data] {
		var fill []byte
		if c.Default != nil {
			fill = []byte(*c.Default)
		}
		digest.Write(canon.AppendField(canon.AppendField(nil, []byte(c.Name)), fill))
	}
	return hex.EncodeToString(digest.Sum(nil))
}
