package dmslint

import (
	"fmt"

	"icehose/catalog"
	"icehose/catalog/artifact"
)

// defaultLOB is DMS's default of LobMaxSize, in KB.
const defaultLOB = 32

// largestLOB is the LobMaxSize, in KB, up to which one text fits into a record
// of 1 MB with what is around it.
const largestLOB = 900

// lintTask looks at the settings of a task.
func (l *linter) lintTask(d document) {
	target := d.root.field("TargetMetadata").or(&node{path: "TargetMetadata", line: d.root.line})
	if n := target.field("BatchApplyEnabled"); n.truth(false) {
		l.find(d, n, Wrong, "batch-apply", "Kinesis does not support it, and it may lose data", "set BatchApplyEnabled to false")
	}
	if n := target.field("ParallelApplyThreads"); n.number(0) > 0 && l.mayMirror() {
		l.find(d, n, Wrong, "parallel-apply", "threads overtake each other: changes of one key reach the stream out of order, and a Firehose mirror keeps the older one",
			"set ParallelApplyThreads to 0, or make the tables changelogs")
	}
	l.lintLOBs(d, target)
	l.lintBeforeImage(d)
	if n := d.root.field("FullLoadSettings").field("TargetTablePrepMode"); n != nil && n.text() != "DO_NOTHING" {
		l.find(d, n, Risk, "table-prep-mode", "each start of the task writes drop-table records, which look like a table that was dropped",
			"set TargetTablePrepMode to DO_NOTHING")
	}
	control := d.root.field("ControlTablesSettings")
	for _, name := range []string{"StatusTableEnabled", "HistoryTableEnabled", "SuspendedTablesTableEnabled", "FullLoadExceptionTableEnabled"} {
		if n := control.field(name); n.truth(false) {
			l.find(d, n, Slow, "control-tables", "DMS writes rows of its own awsdms tables into the stream, which are dropped again", "set "+name+" to false")
		}
	}
	behaviour := d.root.field("ErrorBehavior").or(&node{path: "ErrorBehavior", line: d.root.line})
	for _, e := range []struct{ name, def, consequence string }{
		{"DataTruncationErrorPolicy", "LOG_ERROR", "a value that DMS cuts off is written all the same"},
		{"DataErrorPolicy", "LOG_ERROR", "a record that DMS cannot process is left out, and only the task's log says so"},
		{"TableErrorPolicy", "SUSPEND_TABLE", "one table stops while the task runs on: the lake is old and nothing fails"},
	} {
		n := setting(behaviour, e.name)
		policy := n.text()
		if policy == "" {
			policy = e.def
		}
		if policy != "STOP_TASK" {
			l.find(d, n, Risk, "silent-errors", e.consequence, "set "+e.name+" to STOP_TASK")
		}
	}
}

// lintLOBs holds the LOB settings against the record size of Kinesis.
func (l *linter) lintLOBs(d document, target *node) {
	if n := target.field("FullLobMode"); n.truth(false) {
		l.find(d, n, Wrong, "full-lob-mode", "Kinesis does not take full LOBs", "set FullLobMode to false, LimitedSizeLobMode to true and a LobMaxSize")
	}
	if n := target.field("SupportLobs"); n != nil && !n.truth(true) {
		l.find(d, n, Wrong, "no-lobs", "text, json and bytea columns are left out", "set SupportLobs to true")
	}
	size := setting(target, "LobMaxSize")
	limit := largestLOB
	if l.options.Pipeline != nil {
		limit = artifact.LOBSize(l.options.Pipeline)
	}
	if kb := size.number(defaultLOB); kb > limit {
		l.find(d, size, Wrong, "lob-over-record", fmt.Sprintf("a row whose LOBs are %d KB each does not fit into a record of 1 MB: it is lost or the task fails", kb),
			fmt.Sprintf("set LobMaxSize to %d or less", limit))
	}
	if size.value == nil {
		l.find(d, size, Risk, "default-lob-size", "LOBs are cut at 32 KB", fmt.Sprintf("set LobMaxSize to what the columns need, up to %d", limit))
	}
}

// lintBeforeImage looks for the key as it was before a key change.
func (l *linter) lintBeforeImage(d document) {
	p := l.options.Pipeline
	before := d.root.field("BeforeImageSettings")
	enabled, prefixed := before.field("EnableBeforeImage").truth(false), l.prefixed()
	switch {
	case !enabled && !prefixed:
		place := setting(before.or(&node{path: "BeforeImageSettings", line: d.root.line}), "EnableBeforeImage")
		l.find(d, place, Wrong, "no-before-image", "an update that changes the key leaves the row of the old key behind, and nothing shows it",
			"enable BeforeImageSettings with FieldName before-image and ColumnFilter pk-only")
	case enabled && prefixed:
		l.find(d, before.field("EnableBeforeImage"), Risk, "two-before-images", "the mapping adds before-image columns too: old values are there twice, and once among the data",
			"use one of the two")
	case enabled && p != nil && p.Source.BeforePrefix == "":
		if name := setting(before, "FieldName"); name.text() != p.Source.BeforeImage {
			l.find(d, name, Wrong, "before-image-name", fmt.Sprintf("the pipeline file looks for it under %q: no key change is noticed", p.Source.BeforeImage),
				"make FieldName and before_image: equal")
		}
	}
}

// mayMirror reports whether a table is a mirror with a key; without a pipeline,
// any may be.
func (l *linter) mayMirror() bool {
	if l.options.Pipeline == nil {
		return true
	}
	for _, t := range l.options.Pipeline.Tables {
		if t.Mode == catalog.Mirror && len(t.Key) > 0 {
			return true
		}
	}
	return false
}
