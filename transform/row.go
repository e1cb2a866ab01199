package transform

import (
	"bytes"
	"time"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/internal/canon"
)

// operation says how a data change is delivered: the outcome table of the two
// write modes.
func (p *plan) operation(c *cdc.Change) (cdc.Operation, Reason) {
	if p.table.Mode == catalog.Changelog {
		return cdc.Insert, ""
	}
	switch c.Operation {
	case cdc.Load:
		_, announced := p.table.LoadAt(c.BuiltAt)
		if p.keyed && (announced || p.table.OnLoad == catalog.LoadUpsert) {
			return cdc.Update, ""
		}
		return cdc.Insert, ""
	case cdc.Insert:
		if p.keyed && p.table.OnInsert != catalog.InsertInsert {
			return cdc.Update, ""
		}
		return cdc.Insert, ""
	case cdc.Update:
		if p.keyed {
			return cdc.Update, ""
		}
	case cdc.Delete:
		if p.keyed {
			return cdc.Delete, ""
		}
	case cdc.Control: // route has dropped it
	}
	return 0, NoKey
}

// appendPosition appends the position of a data change. The epoch of a change
// is that of its commit; the epoch of a load that of the moment its floor was
// read.
func (p *plan) appendPosition(dst []byte, pipeline *catalog.Pipeline, c *cdc.Change, origin cdc.Origin) ([]byte, Reason) {
	none := p.table.Position.Source == cdc.SourceNone
	switch {
	case c.BuiltAt.IsZero() && (c.Operation == cdc.Load || none):
		return dst, NoPosition
	case c.CommittedAt.IsZero() && c.Operation != cdc.Load && p.epochs:
		return dst, NoPosition
	case c.Operation == cdc.Load:
		var epoch uint16
		load, announced := p.table.LoadAt(c.BuiltAt)
		if announced {
			epoch = pipeline.EpochAt(load.Since)
		}
		out, err := cdc.AppendLoadPosition(dst, epoch, load.Floor, c.BuiltAt, origin)
		if err != nil {
			return dst, NoPosition
		}
		return out, ""
	}
	epoch := pipeline.EpochAt(c.CommittedAt)
	if none {
		position, err := cdc.ArrivalPosition(epoch, c.BuiltAt, origin)
		if err != nil {
			return dst, NoPosition
		}
		return append(dst, position...), ""
	}
	body, err := p.table.Position.BodyOf(c)
	// Two changes of one transaction differ by the record number alone, unless
	// the position is a column, which numbers changes itself.
	if err != nil || !c.HasRecordID && p.table.Position.Source != cdc.SourceColumn {
		return dst, NoPosition
	}
	return cdc.AppendChangePosition(dst, epoch, body, c.TransactionRecordID), ""
}

// row appends the row of a change to w.rows. On failure it returns why, and
// the lake name of the column.
func (w *worker) row(p *plan, c *cdc.Change) (Reason, string) {
	w.key, w.absent, w.oldKey, w.hasOldKey = w.key[:0], w.absent[:0], w.oldKey[:0], false
	for len(w.keys) < len(p.keyOrder) {
		w.keys = append(w.keys, span{})
	}
	var bad int
	if w.values, bad = w.bind(p, c.Data, w.values); bad != noColumn {
		return AmbiguousColumn, p.columns[bad].source.Name
	}
	if c.HasBefore && p.keyed && (c.Operation == cdc.Update || c.Operation == cdc.Delete) {
		if w.before, bad = w.bind(p, c.Before, w.before); bad != noColumn {
			return AmbiguousColumn, p.columns[bad].source.Name
		}
	}
	dst := append(w.rows, '{')
	for i := range p.columns {
		col := &p.columns[i]
		dst = col.label.append(dst)
		v := value(c.Data, w.values[i])
		if col.key >= 0 && (v == nil || v.Kind == cdc.Null) && c.HasBefore && c.Operation == cdc.Delete {
			v = value(c.Before, w.before[i]) // a delete may have its key there only
		}
		var reason Reason
		if dst, reason = w.appendColumn(dst, p, col, c.Operation, v); reason != "" {
			return reason, col.source.Name
		}
	}
	if c.HasBefore && p.keyed && c.Operation == cdc.Update {
		if reason, column := w.compareKeys(p, c); reason != "" {
			return reason, column
		}
	}
	w.rows = append(w.appendMetadata(dst, p, c), '}')
	return "", ""
}

// appendColumn appends one column's JSON, by what the operation needs and what
// the endpoint writes.
func (w *worker) appendColumn(dst []byte, p *plan, c *column, o cdc.Operation, v *cdc.Value) ([]byte, Reason) {
	kind := cdc.Missing
	if v != nil {
		kind = v.Kind
	}
	absent := kind == cdc.Missing || kind == cdc.Null
	switch {
	case c.key >= 0 && absent:
		return dst, MissingKey
	case o == cdc.Delete && p.keyed && c.key < 0, c.source.Mask == catalog.MaskNull:
		return append(dst, "null"...), ""
	case o == cdc.Update && p.partial(c, kind):
		if p.table.Mode == catalog.Mirror {
			return dst, PartialRow
		}
		if len(w.absent) > 0 {
			w.absent = append(w.absent, ',')
		}
		w.absent = append(w.absent, c.source.Name...)
		return append(dst, "null"...), ""
	case kind == cdc.Missing && p.table.Nulls == catalog.NullsIncluded && o != cdc.Delete:
		return dst, MissingColumn
	case kind == cdc.Missing && c.required && o != cdc.Delete:
		return dst, MissingColumn
	case absent:
		return append(dst, "null"...), ""
	}
	return w.appendValue(dst, c, v)
}

// compareKeys compares the key before an update with the key after it. A key
// column that the before-image leaves out, or shows as null, did not change:
// some engines write changed columns only.
func (w *worker) compareKeys(p *plan, c *cdc.Change) (Reason, string) {
	w.oldKey = append(w.oldKey[:0], '[')
	for place, at := range p.keyOrder {
		old := w.key[w.keys[place].from:w.keys[place].to]
		if v := value(c.Before, w.before[at]); v != nil && v.Kind != cdc.Null {
			text, reason := w.textOf(&p.columns[at], v)
			if reason == "" {
				out, null, err := p.columns[at].canon.AppendValue(w.plain[:0], canon.Record, text)
				if err != nil || null {
					reason = problemOf(err)
				}
				w.plain = out
			}
			if reason != "" {
				if p.table.Mode == catalog.Mirror {
					w.hasOldKey = true // whatever it was, it is not the new key
					return "", ""
				}
				return reason, p.columns[at].source.Name
			}
			w.hasOldKey = w.hasOldKey || !bytes.Equal(w.plain, old)
			old = w.plain
		}
		if place > 0 {
			w.oldKey = append(w.oldKey, ',')
		}
		w.oldKey = append(w.oldKey, '"')
		w.oldKey = appendEscaped(w.oldKey, old)
		w.oldKey = append(w.oldKey, '"')
	}
	w.oldKey = append(w.oldKey, ']')
	return "", ""
}

// appendMetadata appends the metadata columns of the table's mode.
func (w *worker) appendMetadata(dst []byte, p *plan, c *cdc.Change) []byte {
	dst = p.metadata.position.append(dst)
	dst = append(dst, '"')
	dst = append(dst, w.position...)
	dst = append(dst, '"')
	dst = p.metadata.committedAt.append(dst)
	if c.CommittedAt.IsZero() || c.Operation == cdc.Load {
		dst = append(dst, "null"...)
	} else {
		dst = append(dst, '"')
		dst = w.appendTime(dst, c.CommittedAt)
		dst = append(dst, '"')
	}
	if p.table.Mode == catalog.Changelog {
		dst = p.metadata.operation.append(dst)
		dst = appendNullable(dst, []byte(c.Operation.String()), true)
		dst = p.metadata.oldKey.append(dst)
		dst = appendNullable(dst, w.oldKey, w.hasOldKey)
		dst = p.metadata.absent.append(dst)
		dst = appendNullable(dst, w.absent, len(w.absent) > 0)
	}
	return dst
}

// appendTime appends the canonical text of a timestamptz. Most changes of a
// batch were committed in the same second as the one before.
func (w *worker) appendTime(dst []byte, at time.Time) []byte {
	if second := at.Unix(); second != w.second || len(w.secondText) == 0 {
		w.second, w.secondText = second, at.UTC().AppendFormat(w.secondText[:0], "2006-01-02T15:04:05.")
	}
	dst = append(dst, w.secondText...)
	micros := uint32(at.Nanosecond()) / 1000
	high, low := micros/1000, micros%1000
	return append(dst, byte('0'+high/100), byte('0'+high/10%10), byte('0'+high%10), byte('0'+low/100), byte('0'+low/10%10), byte('0'+low%10), 'Z')
}

func appendNullable(dst, text []byte, present bool) []byte {
	if !present {
		return append(dst, "null"...)
	}
	dst = append(dst, '"')
	dst = appendEscaped(dst, text)
	return append(dst, '"')
}
