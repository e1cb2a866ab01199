package dmslint

import (
	"fmt"
	"slices"
	"strings"

	"icehose/catalog"
	"icehose/cdc"
)

// lintTarget looks at the settings of a Kinesis endpoint. All of them default
// to false.
func (l *linter) lintTarget(d document) {
	p := l.options.Pipeline
	off := func(name string) *node {
		if n := setting(d.root, name); !n.truth(false) {
			return n
		}
		return nil
	}
	if n := off("IncludeTransactionDetails"); n != nil && needsTransactions(p) {
		l.find(d, n, Wrong, "no-transaction-details",
			"changes carry no stream-position and no record number, so nothing says which of two is newer: each fails no_position",
			"set IncludeTransactionDetails to true")
	}
	l.lintNulls(d)
	if n := off("PartitionIncludeSchemaTable"); n != nil {
		l.find(d, n, Slow, "bare-partition-key", "equal keys of different tables go to one shard: row 1 of every table, for example",
			"set PartitionIncludeSchemaTable to true")
	}
	if n := off("UseLargeIntegerValue"); n != nil {
		l.find(d, n, Wrong, "large-integers-as-doubles", "integers of more than 16 digits are written as doubles and lose digits: they fail damaged_number",
			"set UseLargeIntegerValue to true (DMS 3.5.4 or newer)")
	}
	if n := off("IncludeTableAlterOperations"); n != nil {
		l.find(d, n, Risk, "no-table-alterations", "nothing tells of added, dropped and renamed columns: drift shows as failed rows, or not at all",
			"set IncludeTableAlterOperations to true")
	}
	if n := off("IncludeControlDetails"); n != nil {
		l.find(d, n, Risk, "no-control-details", "control records name no columns: drift is seen and cannot be described",
			"set IncludeControlDetails to true")
	}
	if n := d.root.field("MessageFormat"); n == nil || n.text() == "json" {
		l.find(d, setting(d.root, "MessageFormat"), Slow, "pretty-printed", "records have line breaks and tabs: more bytes, more shards",
			"set MessageFormat to json-unformatted")
	}
}

// lintNulls compares how the endpoint writes nulls with what the pipeline file
// says of its tables, each of which may say it for itself. Where nulls are left
// out nothing is wrong between the two, and empty texts are lost all the same.
func (l *linter) lintNulls(d document) {
	p := l.options.Pipeline
	included := setting(d.root, "IncludeNullAndEmpty")
	said := func(n catalog.Nulls) bool {
		return p != nil && slices.ContainsFunc(p.Tables, func(t *catalog.Table) bool { return t.Nulls == n })
	}
	if included.truth(false) {
		if said(catalog.NullsOmitted) {
			l.find(d, included, Risk, "nulls-differ", "the pipeline file says nulls: omitted, so that a column that is lost on the way counts as null",
				"set nulls: included in the pipeline file")
		}
		return
	}
	if said(catalog.NullsIncluded) {
		l.find(d, included, Wrong, "nulls-differ", "the pipeline file says nulls: included: each row with a null fails missing_column",
			"set IncludeNullAndEmpty to true")
	}
	switch {
	case p == nil:
		l.find(d, included, Risk, "nulls-omitted", "null, an empty text and an unchanged large value all look alike: the column is not there",
			"set IncludeNullAndEmpty to true, and nulls: included in the pipeline file")
	case said(catalog.NullsOmitted):
		l.find(d, included, Risk, "nulls-omitted", "null and an empty text look alike, the column is not there: the pipeline file says nulls: omitted, which is "+
			"its default, and so an empty text becomes null, or fails missing_column in a column with not_null",
			"set IncludeNullAndEmpty to true, and nulls: included in the pipeline file")
	}
}

// needsTransactions reports whether a table's order comes from the transaction
// details.
func needsTransactions(p *catalog.Pipeline) bool {
	if p == nil {
		return true
	}
	for _, t := range p.Tables {
		switch t.Position.Source {
		case cdc.SourcePostgres, cdc.SourceMySQL, cdc.SourceSQLServer, cdc.SourceOracle:
			return true
		case cdc.SourceNone, cdc.SourceColumn:
		}
	}
	return false
}

// lintSource looks at a source endpoint.
func (l *linter) lintSource(d document) {
	engine := strings.ToLower(d.root.field("EngineName").text())
	attributes := d.root.field("ExtraConnectionAttributes")
	switch {
	case strings.Contains(engine, "postgres"):
		l.lintPostgres(d, attributes)
	case strings.Contains(engine, "mysql"), strings.Contains(engine, "maria"), engine == "aurora":
		settings := d.root.field("MySQLSettings").or(d.root)
		if zone := settings.field("ServerTimezone"); zone.text() != "" && !strings.EqualFold(zone.text(), "UTC") {
			l.find(d, zone, Wrong, "server-timezone", "DMS shifts datetime values by the zone named here, although they have none", "remove ServerTimezone")
		}
	}
}

func (l *linter) lintPostgres(d document, attributes *node) {
	settings := d.root.field("PostgreSQLSettings").or(&node{path: "PostgreSQLSettings", line: d.root.line})
	// A setting may also be an attribute of the connection, name=value;...
	is := func(name string) (*node, bool) {
		for pair := range strings.SplitSeq(attributes.text(), ";") {
			key, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
			if strings.EqualFold(key, name) {
				return attributes, strings.EqualFold(value, "true") || value == "1" || strings.EqualFold(value, "y")
			}
		}
		n := setting(settings, name)
		return n, n.truth(false)
	}
	if n, on := is("HeartbeatEnable"); !on {
		l.find(d, n, Risk, "no-heartbeat", "while the database is idle the slot does not move: the log grows, and nothing shows that the lake is up to date",
			"set HeartbeatEnable to true and HeartbeatFrequency to 5")
	}
	if n, on := is("FailTasksOnLobTruncation"); !on {
		l.find(d, n, Wrong, "silent-lob-truncation", "a text or bytea longer than LobMaxSize is cut off without a word",
			"set FailTasksOnLobTruncation to true")
	}
	if n, on := is("mapUnboundedNumericAsString"); !on && l.mayHave(unboundedNumeric) {
		l.find(d, attributes.or(n), Wrong, "truncated-numeric", "numeric without a precision is cut to 28 digits, 6 of them after the point",
			"add mapUnboundedNumericAsString=true to ExtraConnectionAttributes (DMS 3.4.4 or newer)")
	}
	if n, on := is("MapBooleanAsBoolean"); !on && l.mayHave(boolean) {
		l.find(d, n, Risk, "boolean-as-text", "booleans are written as the texts true and false, of type char(5): a boolean column takes them, a text column cannot tell them from text",
			"set MapBooleanAsBoolean to true on the source endpoint")
	}
	if n := settings.field("PluginName"); strings.EqualFold(n.text(), "pglogical") {
		l.find(d, n, Risk, "pglogical", "pglogical ignores REPLICA IDENTITY FULL: before-images and deletes have the key alone, whatever the table says",
			"set PluginName to test_decoding if a table has REPLICA IDENTITY FULL")
	}
}

// mayHave reports whether a column of the pipeline is of a kind; without a
// pipeline, any may be.
func (l *linter) mayHave(kind func(*catalog.Column) bool) bool {
	if l.options.Pipeline == nil {
		return true
	}
	for _, t := range l.options.Pipeline.Tables {
		for _, c := range t.Columns {
			if !c.Exclude && kind(c) {
				return true
			}
		}
	}
	return false
}

func boolean(c *catalog.Column) bool { return c.Type.Kind == catalog.Boolean }

func unboundedNumeric(c *catalog.Column) bool {
	return strings.EqualFold(c.SourceType, "numeric") || strings.EqualFold(c.SourceType, "decimal")
}

// lintStream looks at a Kinesis stream.
func (l *linter) lintStream(d document) {
	retention := setting(d.root, "RetentionPeriodHours")
	hours := retention.number(24)
	if horizon := int(l.options.Horizon.Hours()); l.options.Horizon > 0 && hours > horizon {
		l.find(d, retention, Risk, "short-horizon",
			fmt.Sprintf("the stream keeps %d hours and the sink remembers deleted keys for %d: a replay from the start fails older_than_horizon", hours, horizon),
			fmt.Sprintf("give the sink a horizon of more than %d hours, or the stream a shorter retention", hours))
	}
	if hours <= 24 {
		l.find(d, retention, Risk, "short-retention", "what is not delivered within a day is gone, and only a reload brings it back",
			"raise RetentionPeriodHours to 72 or more")
	}
}
