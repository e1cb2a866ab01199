package discover

import (
	"strings"
)

// lakeName makes a name that every engine takes unquoted; changed says whether
// more than capitals had to go.
func lakeName(source string) (name string, changed bool) {
	lower := strings.ToLower(source)
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '_'
	}, lower)
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		name = "_" + name
	}
	if strings.HasPrefix(name, "cdc_") { // the names of metadata columns
		name = "source_" + name
	}
	return name, name != lower
}

// reserved reports whether a query engine of the lake reads the name as a word
// of its own unless it is quoted: the reserved words of Athena's queries
// (Trino) and of ANSI Spark.
func reserved(name string) bool {
	_, ok := reservedWords[name]
	return ok
}

//nolint:gochecknoglobals // constant table
var reservedWords = words(`all alter and anti any array as at authorization between both by case cast check collate column constraint create cross cube
	current_catalog current_date current_path current_role current_schema current_time current_timestamp current_user
	deallocate delete describe distinct drop else end escape except execute exists extract false fetch filter for foreign from full
	function grant group grouping having in inner insert intersect into is join json_array json_exists json_object json_query
	json_table json_value lateral leading left like listagg localtime localtimestamp natural normalize not null offset on only or order
	outer overlaps prepare primary recursive references right rollup select semi session_user skip some table then time timestamp to
	trailing trim true uescape union unique unknown unnest update user using values when where window with within
	partition date start rows range interval external location`)

func words(text string) map[string]struct{} {
	set := make(map[string]struct{})
	for word := range strings.FieldsSeq(text) {
		set[word] = struct{}{}
	}
	return set
}
