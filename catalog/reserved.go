package catalog

import "strings"

// ReservedTable reports whether a name cannot be that of a lake table or its
// database. Every statement that is generated quotes names, so a column may
// have any; but Athena's OPTIMIZE and VACUUM take no quotes, and a table with
// such a name could never be compacted there.
func ReservedTable(name string) bool {
	_, ok := athenaWords[name]
	return ok
}

// The views that are generated beside a table, by what their names have more.
const (
	CurrentViewSuffix = "_current" // the current rows
	HistorySuffix     = "_history" // every row that a key ever had
)

// GeneratedSuffixes are what the names of all views and tables that are
// generated beside a table have more.
func GeneratedSuffixes() []string {
	return []string{CurrentViewSuffix, CurrentSuffix, HistorySuffix}
}

// ReservedColumn reports whether a name cannot be that of a column: Iceberg's
// own columns, which each engine adds to every table. Spark refuses every read
// of a table that has one.
func ReservedColumn(name string) bool {
	_, ok := icebergColumns[name]
	return ok
}

// QuotedInQueries reports whether an engine of the lake reads the name as a word
// of its own unless it is quoted: the reserved words of Athena and Trino, of
// ANSI Spark, and of Athena's DDL.
func QuotedInQueries(name string) bool {
	_, ok := quotedWords[name]
	return ok || ReservedTable(name)
}

//nolint:gochecknoglobals // constant tables
var (
	// athenaWords are the reserved words of Trino's grammar, and two that
	// Athena adds.
	athenaWords = words(`alter and as between by case cast constraint create cross cube
		current_catalog current_date current_path current_role current_schema current_time current_timestamp current_user
		deallocate delete describe distinct drop else end escape except execute exists extract false first for from full
		group grouping having in inner insert intersect into is join json_array json_exists json_object json_query json_table json_value
		last left like listagg localtime localtimestamp natural normalize not null on or order outer prepare recursive right rollup
		select skip table then trim true uescape union unnest using values when where with`)
	quotedWords = words(`all anti any array at authorization both check collate column date external fetch filter foreign function grant
		interval lateral leading location offset only overlaps partition primary range references rows semi session_user some start
		time timestamp to trailing unique unknown update user window within`)
	icebergColumns = words(`_deleted _file _last_updated_sequence_number _partition _pos _row_id _spec_id`)
)

func words(text string) map[string]struct{} {
	set := make(map[string]struct{})
	for word := range strings.FieldsSeq(text) {
		set[word] = struct{}{}
	}
	return set
}
