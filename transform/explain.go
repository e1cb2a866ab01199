package transform

import (
	"bytes"
	"slices"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/cdc/dms"
)

// A Rule is what in the pipeline file decided where a record goes.
type Rule string

// The rules, in the order in which they are asked.
const (
	RuleNone     Rule = ""                 // the record could not be decoded
	RuleInternal Rule = "internal"         // tables named awsdms_* are the task's own
	RuleExclude  Rule = "exclude"          // exclude: or include:, or Options.Only
	RuleControl  Rule = "control"          // control records are dropped
	RuleUnknown  Rule = "on_unknown_table" // no entry of tables:
	RuleTable    Rule = "table"            // an entry of tables:
)

// A Handling is what a column's value was for the row.
type Handling string

// The handlings.
const (
	Taken     Handling = "taken"     // made from the record's value
	WasNull   Handling = "null"      // the record says null
	WasAbsent Handling = "absent"    // the record does not have it: null
	Unchanged Handling = "unchanged" // the update did not carry it
	NotNeeded Handling = "not_kept"  // a delete keeps its key only
	Masked    Handling = "masked"    // mask: null
	LeftOut   Handling = "excluded"  // exclude: true
	Refused   Handling = "refused"   // the record fails because of it
)

// An ExplainedColumn is what became of one column of the table.
type ExplainedColumn struct {
	Column     *catalog.Column
	Field      string    // its name in the record; empty when the record does not have it
	Value      cdc.Value // of the record
	FromBefore bool      // of the before-image: a delete's key that only it had, or the former value that is refused
	Handling   Handling
	Row        []byte // the JSON that stands in the row; nil when there is none
	Reason     Reason // when Refused
}

// An Explanation is how one record came to its result. It holds values of the
// record, for a person who asked for them.
type Explanation struct {
	Result   Result
	Decode   error       // why the record could not be decoded; a *cdc.DecodeError
	Change   *cdc.Change // nil when it could not; aliases the record
	Rule     Rule
	Table    *catalog.Table // as delivered; nil when the file does not describe it
	Entry    int            // its index in tables:
	Position cdc.Position   // empty when the change has none, or was not asked for one
	OldKey   string         // the row's cdc_old_key; empty when it is null
	Absent   string         // the row's cdc_absent; empty when it is null
	Columns  []ExplainedColumn
	Ignored  []string // fields of the record that no column is made from, in record order
}

// Explain transforms one record alone and says how. Values pass through the
// functions that Batch calls.
func (t *Transformer) Explain(record Record) Explanation { return t.ExplainWithin(record, nil) }

// ExplainWithin is Explain of a record whose answer has to fit in room.
func (t *Transformer) ExplainWithin(record Record, room Room) Explanation {
	e := Explanation{Result: t.BatchWithin([]Record{record}, room)[0]}
	if record.Unread != "" {
		return e
	}
	settings := dms.Settings{BeforeImage: t.pipeline.Source.BeforeImage, BeforePrefix: t.pipeline.Source.BeforePrefix}
	c := new(cdc.Change)
	if e.Decode = dms.New(settings).Decode(record.Data, c); e.Decode != nil {
		return e
	}
	e.Change = c
	w := newWorker(t, settings)
	var routed Result
	p := w.route(&routed, c)
	switch {
	case routed.Reason == InternalTable:
		e.Rule = RuleInternal
	case routed.Reason == Excluded:
		e.Rule = RuleExclude
	case routed.Reason == Control:
		e.Rule = RuleControl
	case p == nil:
		e.Rule = RuleUnknown
	default:
		e.Rule = RuleTable
		e.Table, e.Entry = p.table, p.index
		w.explain(p, c, record.Origin, &e)
	}
	return e
}

func (w *worker) explain(p *plan, c *cdc.Change, origin cdc.Origin, e *Explanation) {
	if position, reason := p.appendPosition(nil, w.t.pipeline, c, origin); reason == "" {
		e.Position = cdc.Position(position)
	}
	for len(w.keys) < len(p.keyOrder) {
		w.keys = append(w.keys, span{})
	}
	w.key, w.absent, w.oldKey, w.hasOldKey = w.key[:0], w.absent[:0], w.oldKey[:0], false
	var badData, badBefore int
	w.values, badData = w.bind(p, c.Data, w.values)
	w.before, badBefore = w.bind(p, c.Before, w.before)
	asked := c.HasBefore && p.keyed && (c.Operation == cdc.Update || c.Operation == cdc.Delete) // for the before-image
	at := 0
	for _, source := range p.table.Columns {
		if source.Exclude {
			e.Columns = append(e.Columns, ExplainedColumn{Column: source, Handling: LeftOut})
			continue
		}
		out := w.explainColumn(p, at, c)
		switch {
		case at == badData:
			out.Handling, out.Reason, out.Row = Refused, AmbiguousColumn, nil
		case at == badBefore && asked:
			w.refuseBefore(&out, c, at, AmbiguousColumn)
		case source.Name == e.Result.Column && out.Reason == "": // its value is good, so the former one is not
			w.refuseBefore(&out, c, at, e.Result.Reason)
		}
		e.Columns = append(e.Columns, out)
		at++
	}
	if e.Result.Outcome == Ok && p.table.Mode == catalog.Changelog {
		e.Absent = string(w.absent)
		if asked && c.Operation == cdc.Update {
			if reason, _ := w.compareKeys(p, c); reason == "" && w.hasOldKey {
				e.OldKey = string(w.oldKey)
			}
		}
	}
	for _, f := range c.Data {
		if p.find(f.Name) == noColumn && !slices.Contains(e.Ignored, string(f.Name)) {
			e.Ignored = append(e.Ignored, string(f.Name))
		}
	}
}

// refuseBefore makes the former value of a column what is refused.
func (w *worker) refuseBefore(out *ExplainedColumn, c *cdc.Change, at int, reason Reason) {
	out.Handling, out.Reason, out.Row, out.FromBefore = Refused, reason, nil, true
	if v := value(c.Before, w.before[at]); v != nil {
		out.Field, out.Value = string(c.Before[w.before[at]-1].Name), *v
	}
}

// explainColumn follows one column through the functions that make a row.
func (w *worker) explainColumn(p *plan, at int, c *cdc.Change) ExplainedColumn {
	col := &p.columns[at]
	out := ExplainedColumn{Column: col.source}
	fields, place := c.Data, w.values[at]
	v := value(fields, place)
	if (v == nil || v.Kind == cdc.Null) && col.key >= 0 && c.HasBefore && c.Operation == cdc.Delete {
		fields, place, out.FromBefore = c.Before, w.before[at], w.before[at] > 0
		v = value(fields, place)
	}
	if v != nil {
		out.Field, out.Value = string(fields[place-1].Name), *v
	}
	row, reason := w.appendColumn(nil, p, col, c.Operation, v)
	if reason != "" {
		out.Handling, out.Reason = Refused, reason
		return out
	}
	out.Row = bytes.Clone(row)
	switch {
	case col.source.Mask == catalog.MaskNull:
		out.Handling = Masked
	case c.Operation == cdc.Delete && p.keyed && col.key < 0:
		out.Handling = NotNeeded
	case c.Operation == cdc.Update && p.partial(col, out.Value.Kind):
		out.Handling = Unchanged
	case out.Value.Kind == cdc.Null:
		out.Handling = WasNull
	case out.Value.Kind == cdc.Missing:
		out.Handling = WasAbsent
	default:
		out.Handling = Taken
	}
	return out
}
