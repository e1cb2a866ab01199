// Package dms decodes the JSON records that AWS DMS writes to a Kinesis stream
// or a Kafka topic.
//
// In come the bytes of one record; out goes a cdc.Change whose values are
// slices of those bytes. One pass checks the whole record against
// RFC 8259 (structure, escapes, number grammar, UTF-8, at most 64 levels,
// nothing but space after it). Of a key that occurs twice the last one counts,
// at every level. A record that breaks the grammar or lacks what its operation
// needs fails with a *cdc.DecodeError that has an offset, a constant reason
// and no value. The package does not interpret columns, does not make
// positions, and does not split records that stand in one buffer ("}{").
//
// # What AWS does not document, and how it is accepted
//
//   - Layout: pretty-printed or on one line, keys in any order, unknown keys
//     ignored at the top level and in metadata (an "attributes" key, or any
//     that a newer engine adds).
//   - record-type: when missing, the operation decides. Of control records
//     only metadata is needed: control may be missing, null, or hold anything.
//   - Control operations: the eight documented ones and every other name, or
//     none, of a record whose type is control (a restart of the task, the
//     bodies of ALTER records): name and raw body are passed on.
//   - schema-name and table-name: missing, null and empty are the same. A data
//     record must name a table; its schema may be empty (awsdms_* tables).
//     Names are passed on as written, renamed or not by a mapping.
//   - Before-image: an object under the configured name, columns with the
//     configured prefix inside data, or both; with any operation, since
//     awsdms_status has been seen with one that the settings had turned off.
//     null is none, {} is one without columns.
//   - transaction-id, transaction-record-id and prev-*: a number or a string
//     of decimal digits, leading zeros allowed in a string. Any other form (SQL
//     Server's and Oracle's are not documented; an exponent has lost digits;
//     above 64 bits) counts as absent, so that a position made from it fails
//     with cdc.ErrNoPosition and nothing else does.
//   - stream-position: a string or a number (an Oracle SCN), passed on as text.
//     What PostgreSQL's middle number means and which of its two LSNs is the
//     commit, and the forms of MySQL, Oracle and SQL Server, are not read here.
//   - partition-key-value: passed on as text; the form of composite keys is
//     not documented and never parsed. partition-key-type is not a closed set.
//   - timestamp and commit-timestamp: a calendar time with T or a space, 0 to 9
//     fraction digits of which six are kept, and Z or an offset. Any other form
//     gives the zero time: whoever needs the time must refuse zero.
//   - Values: decimals, unsigned and long integers as numbers or strings, in any
//     spelling; booleans as true, "true", 1; NaN and infinity as null or text;
//     time, bit, binary with or without 0x, arrays as text or JSON; zero dates
//     as null, missing or text: the kind and the raw text are kept, and package
//     transform decides by the table's columns.
//   - Unchanged large values (TOAST, LOB): missing and null stay different.
//   - Columns of object mappings (_doc, $AR_H_CHANGE_SEQ copies, empty on load)
//     are columns like any other.
//   - Size: no limit of its own, since what DMS does with large rows is unknown.
package dms

import "icehose/cdc"

// Settings are the parts of an endpoint's and task's settings that change how
// a record is read.
type Settings struct {
	// BeforeImage is BeforeImageSettings.FieldName, by default "before-image".
	// The names data, metadata and control keep their own meaning.
	BeforeImage string
	// BeforePrefix is the value of an add-before-image-columns rule, such as
	// "BI_". Columns of data that start with it move to Change.Before without
	// it. Empty means that no column is one.
	BeforePrefix string
	// RowsOnly leaves what says nothing about the row out of a Change: its
	// partition key, and the prev-transaction fields.
	RowsOnly bool
}

// A Decoder decodes records. It keeps the names of schemas and tables it has
// seen, so it belongs to one goroutine at a time. Changes that it decoded
// stay valid when it decodes more, except the one it decodes into.
type Decoder struct {
	settings Settings
	texts    texts
	keys     keys
	meta     metadata
}

// New returns a Decoder.
func New(s Settings) *Decoder {
	if s.BeforeImage == "" {
		s.BeforeImage = "before-image"
	}
	return &Decoder{settings: s, texts: texts{names: make(map[string]string)}, keys: keys{seen: make(map[string]*key)}}
}

// Decode decodes one record into c, whose former content is lost and whose
// slices are used again. The result aliases record, which must not change as
// long as c is in use. Decoding data records allocates nothing per record once
// c has its size, apart from a block for some hundred stream positions.
//
// The error is a *cdc.DecodeError; c then holds nothing of use.
func (d *Decoder) Decode(record []byte, c *cdc.Change) error {
	*c = cdc.Change{Data: c.Data[:0], Before: c.Before[:0]}
	s := scanner{b: record}
	var top envelope
	if !d.walk(&s, &top, c) || !d.assemble(&s, &top, c) {
		return &cdc.DecodeError{Offset: s.i, Reason: s.reason}
	}
	return nil
}

// An envelope is what the top level of a record had. A part that is not there
// has the zero kind.
type envelope struct {
	data, before, metadata part
	control                cdc.Value
}

// A part is where a top-level value began and what kind it was.
type part struct {
	kind cdc.Kind
	at   int
}

// walk reads the record once. It fills c.Data, c.Before and d.meta, last
// occurrence winning.
func (d *Decoder) walk(s *scanner, top *envelope, c *cdc.Change) bool {
	switch ch := s.space(); {
	case s.i == len(s.b):
		return s.fail(s.i, reasonEmpty)
	case ch != '{':
		return s.fail(s.i, reasonNotObject)
	}
	s.i++
	for m := d.keys.object(&d.keys.top); m.next(s); {
		var ok bool
		switch at, name := s.i, m.key.name; {
		case string(name) == "data":
			top.data.at = at
			top.data.kind, c.Data, ok = s.fields(&d.keys, c.Data[:0])
		case string(name) == "metadata":
			top.metadata.at = at
			top.metadata.kind, ok = d.meta.read(s, &d.keys)
		case string(name) == "control":
			ok = s.value(&top.control, 1)
		case string(name) == d.settings.BeforeImage:
			top.before.at = at
			top.before.kind, c.Before, ok = s.fields(&d.keys, c.Before[:0])
		default:
			ok = s.value(new(cdc.Value), 1)
		}
		if !ok {
			return false
		}
	}
	if s.reason != "" {
		return false
	}
	if s.space(); s.i < len(s.b) {
		return s.fail(s.i, reasonTrailing)
	}
	return true
}

// assemble turns what walk found into the change that it means.
func (d *Decoder) assemble(s *scanner, top *envelope, c *cdc.Change) bool {
	switch top.metadata.kind {
	case cdc.Object:
	case cdc.Missing:
		return s.fail(s.i, reasonNoMetadata)
	case cdc.Null, cdc.Bool, cdc.Number, cdc.String, cdc.Array:
		return s.fail(top.metadata.at, reasonMetadataKind)
	}
	if at, reason := d.meta.apply(&d.texts, c, d.settings.RowsOnly); reason != "" {
		return s.fail(max(at, top.metadata.at), reason)
	}
	if c.Operation == cdc.Control {
		// A record with a row in it is never dropped as control because of a
		// missing record-type: its copy would be gone.
		if len(c.Data) > 0 && len(d.meta.text(fieldRecordType)) == 0 {
			return s.fail(top.metadata.at, reasonOperation)
		}
		c.Data, c.Before = c.Data[:0], c.Before[:0]
		if top.control.Kind != cdc.Null {
			c.ControlBody = top.control.Raw
		}
		return true
	}
	switch top.data.kind {
	case cdc.Object:
	case cdc.Missing:
		return s.fail(s.i, reasonNoData)
	case cdc.Null, cdc.Bool, cdc.Number, cdc.String, cdc.Array:
		return s.fail(top.data.at, reasonDataKind)
	}
	switch top.before.kind {
	case cdc.Object:
		c.HasBefore = true
	case cdc.Missing, cdc.Null:
	case cdc.Bool, cdc.Number, cdc.String, cdc.Array:
		return s.fail(top.before.at, reasonBeforeKind)
	}
	if c.Table == "" {
		return s.fail(top.metadata.at, reasonNoTable)
	}
	d.splitBefore(c)
	return true
}

// splitBefore moves the before-image columns of data to c.Before.
func (d *Decoder) splitBefore(c *cdc.Change) {
	prefix := d.settings.BeforePrefix
	if prefix == "" {
		return
	}
	kept := c.Data[:0]
	for _, f := range c.Data {
		if len(f.Name) < len(prefix) || string(f.Name[:len(prefix)]) != prefix {
			kept = append(kept, f)
			continue
		}
		c.HasBefore = true
		c.Before = append(c.Before, cdc.Field{Name: f.Name[len(prefix):], Value: f.Value})
	}
	c.Data = kept
}
