package catalog_test

import (
	"strings"
	"testing"

	"icehose/catalog"
)

// A table that has the name of a changelog's current table is refused, wherever it
// stands and whatever named it; beside a mirror, or in another database, it is not.
func TestNameOfACurrentTable(t *testing.T) {
	const head = "version: 1\ndatabase: d\nsource: {engine: postgresql, position: postgres}\ntables:\n"
	log := "  - {source: s.t, mode: changelog, key: [id], columns: [{name: id, type: int}]}\n"
	mirror := strings.Replace(log, "changelog", "mirror", 1)
	folded := "  - {source: s.t_folded, mode: mirror, key: [id], columns: [{name: id, type: int}]}\n"
	for name, test := range map[string]struct{ text, want string }{
		"after it":             {head + log + folded, `p.yaml:6: tables[1].source: the current table that icehose merge makes of tables[0], the changelog s.t, has this name: give one of the two another target:, got "d.t_folded"`},
		"before it":            {head + folded + log, `p.yaml:5: tables[0].source: the current table that icehose merge makes of tables[1], the changelog s.t, has this name`},
		"by a target":          {head + log + strings.Replace(folded, "s.t_folded,", "s.other, target: t_folded,", 1), `p.yaml:6: tables[1].target: the current table that icehose merge makes of tables[0]`},
		"a changelog too":      {head + log + strings.Replace(folded, "mirror", "changelog", 1), `p.yaml:6: tables[1].source: the current table that`},
		"beside a mirror":      {head + mirror + folded, ""},
		"in another database":  {head + log + strings.Replace(folded, "s.t_folded,", "s.t_folded, target: e.t_folded,", 1), ""},
		"of a table elsewhere": {head + strings.Replace(log, "s.t,", "s.t, target: e.t,", 1) + folded, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := catalog.Parse("p.yaml", []byte(test.text))
			if (err == nil) != (test.want == "") || err != nil && !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
