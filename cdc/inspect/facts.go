package inspect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"icehose/cdc"
	"icehose/cdc/capture"
)

// facts are what records say about the settings of endpoint and task.
type facts struct {
	pretty, oneLine             int64
	details, noDetails          int64 // changes with and without transaction details
	keyValue, noKeyValue        int64 // records whose key type has a value
	qualified, bare             int64 // primary keys with and without schema and table
	controls, controlDetails    int64
	alters                      int64
	nulls, empties              int64 // values in loads and inserts
	columnsVary                 bool
	updates, before, beforeFull int64 // updates; with a before-image; with one of more than the key
	otherNames                  map[string]int64
	prefixed                    int64 // records with BI_ columns
	trueBooleans, textBooleans  int64
	exponents                   int64
	loads, changes              int64
	changeByKey                 int64
	internal                    map[string]int64
	examined                    int
}

func newFacts() facts {
	return facts{otherNames: make(map[string]int64), internal: make(map[string]int64)}
}

// see takes in one decoded record.
func (f *facts) see(r *capture.Record, c *cdc.Change, t *table) {
	if bytes.IndexByte(bytes.TrimSpace(r.Data), '\n') >= 0 {
		f.pretty++
	} else {
		f.oneLine++
	}
	if t.internal {
		f.internal[c.Table]++
	}
	if c.Operation == cdc.Control {
		f.seeControl(c)
		return
	}
	f.seeKey(r, c)
	if t.internal {
		return
	}
	switch c.Operation {
	case cdc.Load:
		f.loads++
	case cdc.Insert, cdc.Update, cdc.Delete:
		f.changes++
		if c.PartitionKeyType == "primary-key" {
			f.changeByKey++
		}
		if c.HasRecordID || c.StreamPosition != "" || !c.CommittedAt.IsZero() {
			f.details++
		} else {
			f.noDetails++
		}
	case cdc.Control:
	}
	if c.Operation == cdc.Update {
		f.seeBefore(r, c, t)
	}
	f.seeValues(c, t)
}

func (f *facts) seeControl(c *cdc.Change) {
	f.controls++
	if c.ControlBody != nil {
		f.controlDetails++
	}
	switch c.ControlName {
	case "rename-table", "change-columns", "add-column", "drop-column", "rename-column", "column-type-change":
		f.alters++
	}
}

func (f *facts) seeKey(r *capture.Record, c *cdc.Change) {
	if c.PartitionKeyType == "schema-table" || c.PartitionKeyType == "" {
		return
	}
	if c.PartitionKeyValue != "" {
		f.keyValue++
	} else {
		f.noKeyValue++
	}
	key := c.PartitionKeyValue
	if key == "" {
		key = r.PartitionKey
	}
	if c.PartitionKeyType != "primary-key" || key == "" {
		return
	}
	if strings.HasPrefix(key, c.Schema+"."+c.Table+".") {
		f.qualified++
	} else {
		f.bare++
	}
}

// maxExamined is how many updates without a before-image are searched for one
// of another name.
const maxExamined = 200

func (f *facts) seeBefore(r *capture.Record, c *cdc.Change, t *table) {
	f.updates++
	if c.HasBefore {
		f.before++
		if len(c.Before) > max(len(t.key), 1) {
			f.beforeFull++
		}
		return
	}
	for _, field := range c.Data {
		if bytes.HasPrefix(field.Name, []byte("BI_")) && lookup(c.Data, strings.ToLower(string(field.Name[3:]))).Kind != cdc.Missing {
			f.prefixed++
			return
		}
	}
	if f.examined >= maxExamined {
		return
	}
	f.examined++
	var top map[string]json.RawMessage
	if json.Unmarshal(r.Data, &top) != nil {
		return
	}
	for name, raw := range top {
		if name != "data" && name != "metadata" && name != "control" && len(raw) > 0 && raw[0] == '{' {
			f.otherNames[name]++
		}
	}
}

func (f *facts) seeValues(c *cdc.Change, t *table) {
	if c.Operation != cdc.Delete {
		for i := range c.Data {
			v := &c.Data[i].Value
			switch v.Kind {
			case cdc.Null:
				f.nulls++
			case cdc.Bool:
				f.trueBooleans++
			case cdc.String:
				switch len(v.Raw) {
				case 2:
					f.empties++
				case 6, 7:
					if s := string(v.Raw); s == `"true"` || s == `"false"` {
						f.textBooleans++
					}
				}
			case cdc.Number:
				if isExponentInteger(v.Raw) {
					f.exponents++
					t.exponents[string(c.Data[i].Name)]++
				}
			case cdc.Missing, cdc.Object, cdc.Array:
			}
		}
	}
	if c.Operation == cdc.Load || c.Operation == cdc.Insert {
		if n := len(c.Data); t.maxColumns == 0 {
			t.minColumns, t.maxColumns = n, n
		} else {
			t.minColumns, t.maxColumns = min(t.minColumns, n), max(t.maxColumns, n)
		}
		f.columnsVary = f.columnsVary || t.minColumns != t.maxColumns
	}
}

// isExponentInteger reports whether a number is written as doubles print large
// integers: 17 significant digits at most and an exponent of 16 or more.
func isExponentInteger(raw []byte) bool {
	at := bytes.IndexAny(raw, "eE")
	if at < 0 {
		return false
	}
	exponent := strings.TrimLeft(strings.TrimPrefix(string(raw[at+1:]), "+"), "0")
	return exponent >= "16" && exponent <= "19" && len(exponent) == 2
}

// A settingList collects settings.
type settingList []Setting

func (l *settingList) add(name, value, evidence string, args ...any) {
	*l = append(*l, Setting{name, value, fmt.Sprintf(evidence, args...)})
}

// either adds a setting that is on or off, by the records that show it.
func (l *settingList) either(name string, on, off int64, what string) {
	switch {
	case on > 0 && off > 0:
		l.add(name, "mixed", "%d of %d %s", on, on+off, what)
	case on > 0:
		l.add(name, "true", "%d %s", on, what)
	case off > 0:
		l.add(name, "false", "0 of %d %s", off, what)
	default:
		l.add(name, "unknown", "no record shows it")
	}
}

// settings says what the facts tell about each setting.
func (f *facts) settings() []Setting {
	var l settingList
	switch {
	case f.pretty > 0 && f.oneLine > 0:
		l.add("MessageFormat", "mixed", "%d records over several lines, %d on one", f.pretty, f.oneLine)
	case f.pretty > 0:
		l.add("MessageFormat", "json", "%d records over several lines", f.pretty)
	case f.oneLine > 0:
		l.add("MessageFormat", "json-unformatted", "%d records on one line", f.oneLine)
	}
	l.either("IncludeTransactionDetails", f.details, f.noDetails, "changes have record number, commit time or position")
	l.either("IncludePartitionValue", f.keyValue, f.noKeyValue, "records have partition-key-value")
	l.either("PartitionIncludeSchemaTable", f.qualified, f.bare, "primary keys begin with schema and table")
	l.either("IncludeControlDetails", f.controlDetails, f.controls-f.controlDetails, "control records have details")
	if f.alters > 0 {
		l.add("IncludeTableAlterOperations", "true", "%d control records of altered tables", f.alters)
	} else {
		l.add("IncludeTableAlterOperations", "unknown", "no control record of an altered table")
	}
	f.beforeSettings(&l)
	f.valueSettings(&l)
	f.taskSettings(&l)
	return l
}

// valueSettings are those that change how values are written.
func (f *facts) valueSettings(l *settingList) {
	switch {
	case f.nulls > 0:
		l.add("IncludeNullAndEmpty", "true", "%d nulls are written", f.nulls)
	case f.columnsVary:
		l.add("IncludeNullAndEmpty", "false", "no null is written, and rows of one table differ in their columns")
	default:
		l.add("IncludeNullAndEmpty", "unknown", "no null is written, and no row lacks a column")
	}
	switch {
	case f.trueBooleans > 0:
		l.add("MapBooleanAsBoolean", "true", "%d booleans", f.trueBooleans)
	case f.textBooleans > 0:
		l.add("MapBooleanAsBoolean", "false", "%d texts that are true or false", f.textBooleans)
	default:
		l.add("MapBooleanAsBoolean", "unknown", "no boolean")
	}
	if f.exponents > 0 {
		l.add("UseLargeIntegerValue", "false", "%d large numbers in exponent form", f.exponents)
	} else {
		l.add("UseLargeIntegerValue", "unknown", "no large number in exponent form")
	}
}

// taskSettings are those of the task.
func (f *facts) taskSettings(l *settingList) {
	switch {
	case f.changes == 0:
		l.add("ParallelApplyThreads", "unknown", "no changes")
	case f.changeByKey > 0:
		l.add("ParallelApplyThreads", "unknown", "%d changes by primary key: above 0, or object mapping rules", f.changeByKey)
	default:
		l.add("ParallelApplyThreads", "0", "no change is partitioned by primary key")
	}
	if names := slices.Sorted(maps.Keys(f.internal)); len(names) > 0 {
		l.add("ControlTablesSettings", "seen", "%s", strings.Join(names, ", "))
	}
}

// beforeSettings are those of the before-image.
func (f *facts) beforeSettings(l *settingList) {
	other, most := "", int64(0)
	for name, n := range f.otherNames {
		if n > most || n == most && name < other {
			other, most = name, n
		}
	}
	switch {
	case f.updates == 0:
		l.add("EnableBeforeImage", "unknown", "no update")
	case f.before > 0:
		l.add("EnableBeforeImage", "true", "%d of %d updates have one", f.before, f.updates)
		if f.beforeFull > 0 {
			l.add("BeforeImage ColumnFilter", "all or non-lob", "%d have more columns than the key", f.beforeFull)
		} else {
			l.add("BeforeImage ColumnFilter", "pk-only", "none has more columns than the key; or the source sends no more (replica identity)")
		}
	case f.prefixed > 0:
		l.add("add-before-image-columns", "BI_", "%d updates have such columns", f.prefixed)
	case other != "":
		l.add("BeforeImage FieldName", other, "%d of %d updates have an object of this name", most, f.examined)
	default:
		l.add("EnableBeforeImage", "false", "none of %d updates has one", f.updates)
	}
}
