package dmslint

import (
	"fmt"
	"slices"
	"strings"

	"icehose/catalog"
)

// A rule is one rule of a table mapping.
type rule struct {
	*node
	kind, action  string
	schema, table string // of its object-locator
}

// named reports whether the rule's locator has no wildcards, as a rule of this
// kind reads it: in an explicit selection and in an object mapping a name is a
// name, elsewhere _ is any character.
func (r *rule) named() bool {
	name := r.schema + r.table
	if r.kind == "object-mapping" || r.action == "explicit" {
		return !strings.ContainsAny(name, "%[")
	}
	return !strings.ContainsAny(name, "%[_")
}

// matches reports whether the rule's locator matches a table.
func (r *rule) matches(schema, table string) bool {
	return like(r.schema, schema) && like(r.table, table)
}

// like is DMS's match: % is any text, _ any character, [x] is x itself.
func like(pattern, s string) bool {
	at, back, from := 0, -1, 0
	for i := 0; ; {
		if i == len(s) {
			return strings.Trim(pattern[at:], "%") == ""
		}
		if at < len(pattern) && pattern[at] == '%' {
			at++
			back, from = at, i
			continue
		}
		if n := one(pattern[at:], s[i]); n > 0 {
			at += n
			i++
			continue
		}
		if back < 0 {
			return false
		}
		from++ // let the last % take one character more
		at, i = back, from
	}
}

// one returns how much of a pattern's head matches a character; 0 for none.
func one(pattern string, c byte) int {
	if pattern == "" {
		return 0
	}
	end := strings.IndexByte(pattern, ']')
	switch {
	case pattern[0] == '[' && end > 0:
		if strings.IndexByte(pattern[1:end], c) >= 0 {
			return end + 1
		}
		return 0
	case pattern[0] == '_', pattern[0] == c:
		return 1
	}
	return 0
}

// rulesOf reads the rules of a mapping.
func rulesOf(root *node) []*rule {
	var out []*rule
	list := root.field("rules")
	if list == nil {
		return nil
	}
	for _, n := range list.items {
		locator := n.field("object-locator")
		out = append(out, &rule{
			node: n, kind: n.field("rule-type").text(), action: n.field("rule-action").text(),
			schema: locator.field("schema-name").text(), table: locator.field("table-name").text(),
		})
	}
	return out
}

// lintMapping looks at the rules one by one and together.
func (l *linter) lintMapping(d document) {
	rules := rulesOf(d.root)
	ids := make(map[string]int)
	for _, r := range rules {
		for _, name := range []string{"rule-id", "rule-name"} {
			id := r.field(name)
			key := name + " " + id.text()
			if line, twice := ids[key]; twice && id != nil {
				l.find(d, id, Wrong, "duplicate-rule", fmt.Sprintf("another rule, at line %d, has this %s: DMS refuses the mapping or takes one of them", line, name), "number the rules")
			} else if id != nil {
				ids[key] = id.line
			}
		}
		switch r.kind {
		case "selection":
			l.lintSelection(d, r)
		case "object-mapping":
			l.lintObjectMapping(d, r)
		case "transformation":
			l.lintTransformation(d, r)
		case "table-settings", "post-processing": // how tables are loaded
		default:
			l.find(d, r.field("rule-type").or(r.node), Wrong, "unknown-rule-type", "DMS has no such rules: it refuses the mapping, and nothing of the rule is looked at here",
				"want selection, transformation, object-mapping or table-settings")
		}
	}
	if !slices.ContainsFunc(rules, func(r *rule) bool { return r.kind == "selection" && r.action != "exclude" }) {
		l.find(d, d.root.field("rules"), Wrong, "nothing-selected", "no rule selects a table: the task fails, or runs and sends nothing", "write a selection rule for each table; icehose catalog generate does")
	}
	l.lintDefaults(d, rules)
	l.lintTables(d, rules)
}

func (l *linter) lintSelection(d document, r *rule) {
	if r.action == "include" && !r.named() && !strings.ContainsAny(r.schema+r.table, "%[") {
		l.find(d, r.field("object-locator").field("table-name").or(r.node), Risk, "underscore-wildcard",
			"in an include rule _ is any character: the rule may select other tables too", "use rule-action explicit, or [_]")
	}
	if filters := r.field("filters"); filters != nil && len(filters.items) > 0 {
		l.find(d, filters, Risk, "source-filter", "a delete has the key alone: with a filter on another column it does not pass, and the row stays in the lake",
			"filter by key columns alone, or exclude rows in the pipeline")
	}
}

func (l *linter) lintObjectMapping(d document, r *rule) {
	locator := r.field("object-locator").or(r.node)
	if !r.named() {
		l.find(d, locator.field("table-name").or(locator), Wrong, "mapping-wildcard",
			"DMS takes no wildcards in object mappings: the task fails with 'Exact schema and table required', or the rule does not count",
			"write a rule for each table; icehose catalog generate does")
	}
	if r.action == "map-record-to-document" {
		l.find(d, r.field("rule-action"), Wrong, "record-to-document", "the columns are in one field _doc, where nothing looks for them: every row is incomplete",
			"use map-record-to-record")
	}
	parameters := r.field("mapping-parameters")
	if n := parameters.field("attribute-mappings"); n != nil && len(n.items) > 0 {
		l.find(d, n, Risk, "attribute-mappings", "columns arrive under other names, or within others, than the pipeline file says", "leave attribute-mappings out")
	}
	t := l.tableOf(r)
	for _, column := range parameters.field("exclude-columns").elements() {
		if t != nil && t.IsKey(strings.ToLower(column.text())) {
			l.find(d, column, Wrong, "key-excluded", "the column is part of the key: every change fails missing_key", "take it out of exclude-columns")
		}
	}
	l.lintPartitionKey(d, r, t, parameters)
}

// tableOf finds the pipeline's table of an exact rule; nil if there is none.
func (l *linter) tableOf(r *rule) *catalog.Table {
	if l.options.Pipeline == nil || !r.named() {
		return nil
	}
	return l.options.Pipeline.BySource(r.schema, r.table)
}

// The consequence of a partition key that puts all records into one shard.
const oneShard = "all records go to one shard: 1,000 a second at most, and one report had 92, where another key gave 416,666"

// lintPartitionKey looks at what decides the shard of a record. t is nil when
// the table is not known.
func (l *linter) lintPartitionKey(d document, r *rule, t *catalog.Table, parameters *node) {
	keyed := t == nil || len(t.Key) > 0
	place := parameters.field("partition-key-type")
	switch kind := place.text(); kind {
	case "primary-key":
		if !keyed {
			l.find(d, place, Risk, "primary-key-without-key", "the table has no key: DMS has nothing to make a partition key of", "use schema-table")
		}
	case "schema-table":
		if keyed {
			l.find(d, place, Slow, "one-shard-per-table", "of this table, "+oneShard, "use primary-key, which keeps the order of each key")
		}
	case "constant":
		l.find(d, place, Slow, "constant-partition-key", oneShard, "use primary-key")
	case "transaction-id":
		l.find(d, place, Wrong, "transaction-partition-key", "changes of one key are in different shards, which are read in any order: a Firehose mirror keeps whichever comes last",
			"use primary-key")
	case "attribute-name":
		l.lintAttribute(d, parameters.field("partition-key-name").or(place), t)
	default:
		l.find(d, place.or(parameters.or(r.node)), Wrong, "no-partition-key-type",
			"the load of a row goes by its key and its changes by the table's name, to different shards: a change may overtake the load",
			"set partition-key-type to primary-key, or schema-table for a table without a key")
	}
}

// lintAttribute looks at a column as partition key.
func (l *linter) lintAttribute(d document, place *node, t *catalog.Table) {
	name := strings.ToLower(place.text())
	if t == nil {
		l.find(d, place, Risk, "attribute-partition-key",
			"a column that is null, has few values or changes: "+oneShard+"; and a change of it moves the row to another shard, out of order",
			"use primary-key")
		return
	}
	if t.IsKey(name) {
		if len(t.Key) > 1 {
			l.find(d, place, Risk, "part-of-key", "rows that share this part of the key share a shard: with few values, "+oneShard, "use primary-key")
		}
		return
	}
	l.find(d, place, Wrong, "attribute-partition-key",
		"it is no key column: it may change or be null, and a delete does not carry it, so changes of one key go to different shards, out of order",
		"use primary-key")
}

func (l *linter) lintTransformation(d document, r *rule) {
	action := r.field("rule-action").or(r.node)
	target := r.field("rule-target").text()
	switch kind := r.action; {
	case kind == "add-before-image-columns":
		prefix := r.field("before-image-def").field("column-prefix")
		if p := l.options.Pipeline; p != nil && p.Source.BeforePrefix != prefix.text() {
			l.find(d, prefix.or(action), Wrong, "before-image-name", fmt.Sprintf("the pipeline file has before_prefix: %q: old values are taken for columns", p.Source.BeforePrefix),
				"make column-prefix and before_prefix: equal")
		}
	case kind == "remove-column" || kind == "change-data-type":
		l.find(d, action, Risk, "columns-changed", "columns do not arrive as the source has them, and the pipeline file says what the source has", "exclude or convert columns in the pipeline file")
	case slices.Contains([]string{"rename", "convert-lowercase", "convert-uppercase", "add-prefix", "remove-prefix", "replace-prefix", "add-suffix", "remove-suffix", "replace-suffix"}, kind):
		l.find(d, action, Risk, "names-changed", "records name the "+target+" otherwise than the source does: source: in the pipeline file must have the new name, and object mappings the old one",
			"rename in the pipeline file, with target: and name:")
	}
}

// prefixed reports whether a mapping adds before-image columns.
func (l *linter) prefixed() bool {
	for _, d := range l.mappings {
		for _, r := range rulesOf(d.root) {
			if r.kind == "transformation" && r.action == "add-before-image-columns" {
				return true
			}
		}
	}
	return false
}

// lintDefaults finds selected tables that no object mapping names.
func (l *linter) lintDefaults(d document, rules []*rule) {
	parallel := slices.ContainsFunc(l.tasks, func(t document) bool {
		return t.root.field("TargetMetadata").field("ParallelApplyThreads").number(0) > 0
	})
	for _, r := range rules {
		if r.kind != "selection" || r.action == "exclude" {
			continue
		}
		mapped := slices.ContainsFunc(rules, func(m *rule) bool {
			return m.kind == "object-mapping" && m.named() && m.schema == r.schema && m.table == r.table
		})
		wild := strings.ContainsAny(r.schema+r.table, "%[")
		if mapped || wild && l.options.Pipeline != nil {
			continue // lintTables names the tables behind a wildcard
		}
		place := r.field("object-locator").field("table-name").or(r.node)
		if wild {
			l.find(d, place, Risk, "selection-wildcard", "tables that match and have no object mapping of their own go by default keys: their loads by the row's key, their changes by the table's name",
				"name the tables, each with an object mapping; icehose catalog generate does")
			continue
		}
		l.unmapped(d, place, r.schema+"."+r.table, parallel)
	}
}

// unmapped says what a table without an object mapping does.
func (l *linter) unmapped(d document, place *node, table string, parallel bool) {
	if parallel {
		l.find(d, place, Risk, "table-without-mapping", table+" has no object mapping: its partition key is the row's key because of parallel apply, and changes when that is turned off",
			"add a rule with partition-key-type primary-key")
		return
	}
	l.find(d, place, Wrong, "table-without-mapping",
		table+" has no object mapping: the load of a row goes by its key and its changes by the table's name, to different shards, and all changes to one",
		"add a rule with partition-key-type primary-key, or schema-table for a table without a key")
}

// lintTables holds the mapping against the tables of the pipeline.
func (l *linter) lintTables(d document, rules []*rule) {
	p := l.options.Pipeline
	if p == nil {
		return
	}
	for _, t := range p.Tables {
		schema, name, _ := strings.Cut(t.Source, ".")
		var by *rule
		for _, r := range rules {
			if r.kind != "selection" || !r.matches(schema, name) {
				continue
			}
			if r.action == "exclude" {
				by = nil
				break
			}
			by = r
		}
		if by == nil {
			l.find(d, d.root.field("rules"), Wrong, "table-not-selected", t.Source+" is in the pipeline file and no rule selects it: it stays empty", "add a selection rule")
			continue
		}
		mapped := slices.ContainsFunc(rules, func(m *rule) bool {
			return m.kind == "object-mapping" && m.named() && m.schema == schema && m.table == name
		})
		if strings.ContainsAny(by.schema+by.table, "%[") && !mapped {
			l.unmapped(d, by.field("object-locator").field("table-name").or(by.node), t.Source, false)
		}
	}
	for _, r := range rules {
		if r.kind == "selection" && r.action != "exclude" && r.named() && p.BySource(r.schema, r.table) == nil && !p.Excluded(r.schema+"."+r.table) {
			l.find(d, r.field("object-locator").field("table-name").or(r.node), Wrong, "table-unknown",
				r.schema+"."+r.table+" is not in the pipeline file: its records fail unknown_table", "add it to tables: or to exclude:")
		}
	}
}
