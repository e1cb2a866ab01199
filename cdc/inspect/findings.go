package inspect

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A finder collects findings.
type finder struct {
	findings []Finding
	table    string
}

// add adds a finding when it has a count.
func (f *finder) add(severity Severity, id string, count int64, what, consequence, fix string, examples ...string) {
	if count > 0 {
		f.findings = append(f.findings, Finding{
			ID: id, Severity: severity, Table: f.table, Count: count, What: what, Consequence: consequence, Fix: fix, Examples: examples,
		})
	}
}

const fixPartitionKey = "give every table an object-mapping rule of its own with partition-key-type primary-key (schema-table for a table without a key), " +
	"the same for load and changes; DMS takes no wildcards there"

// findings lists what was found: problems first, then by id and table.
func (i *Inspector) findings(r *Report) []Finding {
	f := &finder{findings: []Finding{}}
	i.streamFindings(f, r)
	i.chainFindings(f, r)
	for _, name := range slices.Sorted(maps.Keys(i.tables)) {
		t := i.tables[name]
		f.table = name
		if !t.internal {
			t.orderFindings(f)
		}
		t.recordFindings(f, i.options.Large)
	}
	rank := map[Severity]int{Problem: 0, Warning: 1, Note: 2}
	slices.SortStableFunc(f.findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(rank[a.Severity], rank[b.Severity]), strings.Compare(a.ID, b.ID), strings.Compare(a.Table, b.Table))
	})
	return f.findings
}

func (i *Inspector) streamFindings(f *finder, r *Report) {
	f.add(Problem, "file_ends_early", int64(len(i.cut)), "the file is cut off or damaged: what follows is not known, and the report is of what was read",
		"records are missing from the report", "copy or capture the file again", i.cut...)
	reasons := slices.Sorted(maps.Keys(i.invalid))
	for n, reason := range reasons {
		reasons[n] = fmt.Sprintf("%s (%d)", reason, i.invalid[reason])
	}
	f.add(Problem, "invalid_records", r.Invalid, fmt.Sprintf("%d records are not as DMS writes them: %s", r.Invalid, strings.Join(reasons, ", ")),
		"they fail in the transform and reach no table", "find what wrote or cut them; other producers belong on a stream of their own", i.invalidIDs...)
	f.add(Warning, "capture_out_of_order", i.disorder, fmt.Sprintf("%d records have a lower sequence number than one before them in their shard", i.disorder),
		"the file is not in the order of arrival, so what is said about order is not to be relied on", "capture each shard in its order")
	if i.seen.forgot {
		f.add(Note, "duplicates_in_window", r.Records, fmt.Sprintf("duplicates were looked for among %d to %d records before each", i.options.Window, 2*i.options.Window),
			"those further apart are not counted", "give more memory with a larger window")
	}
	f.add(Warning, "keys_not_followed", i.untracked, fmt.Sprintf("%d records have keys beyond the first %d, which were not followed", i.untracked, i.options.Keys),
		"inversions of those keys are not counted", "give more memory with a larger number of keys")
	facts := &i.facts
	if facts.nulls == 0 && facts.columnsVary {
		f.add(Warning, "nulls_omitted", facts.oneLine+facts.pretty, "columns that are null are left out",
			"null cannot be told from unchanged, and a column that a mapping lost looks like null",
			"set IncludeNullAndEmpty=true and nulls: included")
	}
	f.add(Note, "pretty_printed", facts.pretty, fmt.Sprintf("%d records are spread over lines", facts.pretty),
		"records are about a fifth larger, and Firehose puts none between them", "set MessageFormat=json-unformatted")
	if facts.updates > 0 && facts.before+facts.prefixed == 0 {
		f.add(Note, "no_before_image", facts.updates, fmt.Sprintf("none of %d updates has a before-image", facts.updates),
			"a change of key cannot be seen: the old row stays in a mirror until it is reconciled", "set BeforeImageSettings (EnableBeforeImage, ColumnFilter pk-only)")
	}
}

func (i *Inspector) chainFindings(f *finder, r *Report) {
	ch := &i.chain
	gaps, heads := ch.gaps()
	forgotten := ""
	if ch.followed.forgot {
		forgotten = fmt.Sprintf(", or that another change followed more than %d changes before", ch.limit)
	}
	f.add(Problem, "chain_gap", int64(len(gaps)), fmt.Sprintf("%d changes follow a change that is not in the capture%s", len(gaps), forgotten),
		"changes are missing: lost, expired, or on a shard that was not captured",
		"see that every shard was captured from the same moment on; if so, compare the tables with the source and load what differs again", chainExamples(gaps, "which is not there")...)
	f.add(Warning, "chain_head", int64(len(heads)), fmt.Sprintf("%d changes follow a change that is not in the capture, but no chain that ended before them", len(heads)),
		"another task writes to this stream and was captured from its middle; if only one does, changes are missing",
		"give each task a stream of its own; if only one writes here, see that every shard was captured from the same moment on", chainExamples(heads, "which is not there")...)
	f.add(Warning, "chain_fork", ch.forks, fmt.Sprintf("%d changes name a predecessor that another change names too", ch.forks),
		"the task went on from an older point, or two tasks write to this stream: changes may come twice", "give each task a stream of its own; after a restart from an older point compare the tables with the source", chainExamples(ch.forked, "as another change does")...)
	f.add(Note, "task_restarted", ch.starts-1, fmt.Sprintf("%d changes have no predecessor", ch.starts),
		"the task started again: a restart (not a resume) makes the replication slot anew, and changes between are lost", "compare the tables with the source after every restart")
	if ch.full {
		f.add(Warning, "chain_not_followed", 1, "the chain has more open ends than were kept", "gaps are not all counted", "inspect a shorter capture, or give more memory with a larger --keys")
	}
	i.positionFindings(f, r)
	f.add(Note, "commit_time_falls", ch.commitBack, fmt.Sprintf("the commit time falls along %d of %d links between transactions", ch.commitBack, ch.commitsCompared),
		"times do not order changes", "order by position, never by time")
}

// chainExamples names the first of changes, and what is wrong with their predecessor.
func chainExamples(changes []node, wrong string) []string {
	slices.SortFunc(changes, func(a, b node) int {
		return cmp.Or(a.built.Compare(b.built), cmp.Compare(a.transaction, b.transaction), cmp.Compare(a.record, b.record))
	})
	var out []string
	for _, n := range changes[:min(len(changes), maxExamples)] {
		out = append(out, fmt.Sprintf("record %s follows transaction %d record %d, %s", n.idOfRec, n.prev.transaction, n.prev.record, wrong))
	}
	return out
}

// positionFindings are about positions along the chain.
func (i *Inspector) positionFindings(f *finder, r *Report) {
	const consequence, fix = "positions are not the order of commits: an older change can win",
		"if the source was restored or failed over, add an entry to epochs:; otherwise order by a column ($AR_H_CHANGE_SEQ)"
	ch := &i.chain
	f.add(Problem, "position_regressed", ch.fell, fmt.Sprintf("along the chain the position falls along %d of %d links between transactions", ch.fell, ch.ordered), consequence, fix)
	for _, name := range slices.Sorted(maps.Keys(ch.columns)) {
		order := ch.columns[name]
		f.table = name
		f.add(Warning, "position_regressed", order.fell,
			fmt.Sprintf("along the chain the position's column falls along %d of %d links between transactions", order.fell, order.compared),
			"an older change can win, unless the column numbers the changes of each row by itself",
			"if the source was restored or failed over, add an entry to epochs:; order_inverted says whether it falls within a row")
	}
	f.table = ""
	switch r.Chain.CommitNumber {
	case ReadingNeither:
		f.add(Problem, "position_regressed", min(ch.secondBack, ch.firstBack),
			fmt.Sprintf("along the chain the second number of the position falls %d times and the first %d times, of %d", ch.secondBack, ch.firstBack, ch.compared),
			consequence, fix)
	case ReadingFirst:
		f.add(Note, "commit_number", ch.compared, "the first number of the position follows the order of commits, the second does not",
			"none for rows: both numbers rise together between changes of one row", "nothing to do")
	case ReadingSecond, ReadingBoth, ReadingNone:
	}
}

func (t *table) orderFindings(f *finder) {
	problem, warning := Problem, Warning
	if t.folded {
		problem, warning = Note, Note
	}
	mismatch := len(t.loadKeys) > 0 && len(t.changeKeys) > 0 && !maps.EqualFunc(t.loadKeys, t.changeKeys, func(int64, int64) bool { return true })
	if mismatch && len(t.key) == 0 && t.described {
		mismatch = false // rows of a table without a key have no order to keep
	}
	if mismatch {
		f.add(problem, "key_mismatch", max(t.loadSplit, 1), fmt.Sprintf("loads are partitioned by %s, changes by %s; %d of %d keys have both on different shards",
			keyTypes(t.loadKeys), keyTypes(t.changeKeys), t.loadSplit, t.tracked),
			"a change can arrive before the load of its row", fixPartitionKey)
	} else {
		f.add(problem, "keys_on_several_shards", t.split, fmt.Sprintf("%d of %d keys have records on several shards", t.split, t.tracked),
			"changes of one row can arrive in any order", fixPartitionKey+"; a stream that was resharded does this once")
	}
	f.add(problem, "order_inverted", t.inShard, fmt.Sprintf("%d changes stand behind a newer change of their key in the same shard", t.inShard),
		"whoever applies records in the order of arrival ends with an old row; Firehose does",
		"ParallelApplyThreads=0, or compare positions when writing (changelog, or our sink), and reconcile")
	f.add(warning, "order_inverted_across_shards", t.across, fmt.Sprintf("%d changes arrived after a newer change of their key on another shard", t.across),
		"an old row can win where arrival decides", fixPartitionKey)
	f.add(problem, "load_after_change", t.loadInShard+t.loadAcross, fmt.Sprintf("%d loads arrived after a change of their row, %d of them on the same shard",
		t.loadInShard+t.loadAcross, t.loadInShard),
		"where arrival decides, the older loaded row wins or the row is there twice; positions rank it below",
		"deliver the table as a changelog or through our sink; in a Firehose mirror start changes after the load, and reconcile")
	f.add(warning, "loaded_again", t.loadedAgain, fmt.Sprintf("%d rows were loaded more than once", t.loadedAgain),
		"a mirror that inserts loads has them twice, and rows deleted between the loads stay", "on_load: upsert, and an entry under loads: for the reload")
	f.add(Warning, "loaded_after_changes", t.redefined, fmt.Sprintf("%d create-table records were written after changes", t.redefined),
		"a load began in the middle of the stream: without an entry under loads: its rows count as older than every change",
		"add the reload's floor and time under loads:")
	f.add(Problem, "no_position", t.noPosition, fmt.Sprintf("%d changes have no position that orders them", t.noPosition),
		"they fail no_position, unless the table's position is none", "set IncludeTransactionDetails=true, or add a column with $AR_H_CHANGE_SEQ and declare it")
	if len(t.key) > 0 {
		f.add(Warning, "key_missing", t.noKey, fmt.Sprintf("%d records lack a key column", t.noKey),
			"they fail missing_key", "check the key against the source and the task's removed columns")
	}
}

func (t *table) recordFindings(f *finder, large int) {
	f.add(Warning, "duplicates", t.duplicates, fmt.Sprintf("%d records came more than once", t.duplicates),
		"plain inserts are doubled; upserts and the fold of a changelog are not", "on_insert: update and on_load: upsert for mirrors")
	f.add(Note, "control_after_data", t.lateControl, fmt.Sprintf("%d control records arrived after data that was built later", t.lateControl),
		"whoever waits for create-table, or obeys drop-table, does so too late", "take schemas from the pipeline file, as icehose does")
	f.add(Warning, "large_records", t.large, fmt.Sprintf("%d records have %d bytes or more, the largest %d", t.large, large, t.maxBytes),
		"above 1 MiB Kinesis refuses a record, and what DMS does then is not documented", "leave large columns out of the mapping, or raise the stream's record limit (10 MiB)")
	names := slices.Sorted(maps.Keys(t.exponents))
	total := int64(0)
	for _, n := range t.exponents {
		total += n
	}
	f.add(Problem, "damaged_numbers", total, fmt.Sprintf("%d numbers are written in exponent form, as DMS writes integers beyond 17 digits", total),
		"digits are lost; in columns of type int, long or long decimals they fail damaged_number",
		"set UseLargeIntegerValue=true (engine 3.5.4), and load the rows again", names[:min(len(names), maxExamples)]...)
}
