package discover

import (
	"strings"

	"icehose/catalog"
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
	if strings.HasPrefix(name, "cdc_") || catalog.ReservedColumn(name) { // the names of metadata columns
		name = "source_" + strings.TrimPrefix(name, "_")
	}
	return name, name != lower
}
