package artifact

import (
	"fmt"
	"strings"
)

// An aggregate is a query that groups rows c, and one around it.
type aggregate struct {
	inner, outer []string // columns
}

// newestValue adds a column: the value of an expression at the greatest of the
// positions, given by a column of the inner query, of the rows for which a
// condition holds, "" for all. That is the greatest of several values there, and
// null if all of them are.
func (f *fold) newestValue(a *aggregate, n int, expression string, nullable bool, condition, top, name string) {
	var conditions []string
	if condition != "" {
		conditions = append(conditions, condition)
	}
	if nullable { // no engine compares pairs that have nulls like another
		conditions = append(conditions, expression+" IS NOT NULL")
	}
	pair := fmt.Sprintf("cdc_%d", n)
	a.inner = append(a.inner, f.d.greatestPair(f.order(), expression, conditions)+" AS "+pair)
	first, second := f.d.parts("a." + pair)
	a.outer = append(a.outer, fmt.Sprintf("CASE WHEN %s = a.%s THEN %s END AS %s", first, top, second, f.d.quote(name)))
}

// query renders the aggregate of the rows c of a source, grouped by keys.
func (a *aggregate) query(keys, outerKeys, source, group string) string {
	return fmt.Sprintf("SELECT %s,\n  %s\nFROM (\n  SELECT %s,\n    %s\n%s\n  GROUP BY %s\n) AS a",
		outerKeys, strings.Join(a.outer, ",\n  "), keys, strings.Join(a.inner, ",\n    "), indent(source), group)
}
