package catalog_test

import (
	"errors"
	"strings"
	"testing"

	"icehose/catalog"
)

// full has every kind of setting, each on a line of its own.
const full = `version: 1
database: d
source:
  engine: postgresql
  position: postgres
  nulls: included
  before_prefix: BI_
names: fold
include: [s.%]
exclude: [s.x]
routes:
  - match: s.%
    target: q_%
on_unknown_table: drop
epochs:
  - epoch: 1
    since: 2026-01-01T00:00:00Z
readers: [spark]
tables:
  - source: s.t
    mode: mirror
    key: [id]
    partition: [id]
    loads:
      - floor: "00000000016b37480000000000000000"
        since: 2026-03-01T10:00:00Z
        finished: true
    columns:
      - name: id
        type: long
        source: Id
      - name: a
        type: int
        default: 5
        not_null: true
        allow_lossy: ["null"]
`

// Whatever a person writes is taken, or refused with file and line.
func FuzzParse(f *testing.F) {
	lines := strings.Split(full, "\n")
	for i, line := range lines {
		key, _, ok := strings.Cut(line, ":")
		if !ok {
			f.Add(full)
			continue
		}
		for _, value := range []string{"", " [1]", " {a: 1}", " x y", " 5", " null", " [[1]]", " [null]", " 2026-01-01", " *nope", " &a b", " !!str 5", " .nan", " \"", " |\n    x", " <<", "\t"} {
			f.Add(strings.Join(lines[:i], "\n") + "\n" + key + ":" + value + "\n" + strings.Join(lines[i+1:], "\n"))
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		_, err := catalog.Parse("f", []byte(text))
		if err == nil {
			return
		}
		faults := []error{err}
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			faults = joined.Unwrap()
		}
		for _, fault := range faults {
			if place, ok := errors.AsType[*catalog.FileError](fault); !ok || place.Line == 0 {
				t.Errorf("no place in %q of\n%s", fault, text)
			}
		}
	})
}
