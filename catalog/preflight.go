package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A Severity says how much a Finding of a preflight matters.
type Severity string

// The severities, the worst first.
const (
	SeverityError   Severity = "error"   // changes are lost or do not come at all
	SeverityWarning Severity = "warning" // harm that comes later, or to some tables
	SeverityNote    Severity = "note"    // to be known
)

// A Finding is something about a source server that hurts replication, with
// the statement that fixes it.
type Finding struct {
	ID          string   `json:"id"` // snake_case, of a closed list for each engine
	Severity    Severity `json:"severity"`
	Object      string   `json:"object,omitempty"` // a setting, slot, table or account
	What        string   `json:"what"`
	Consequence string   `json:"consequence"`
	Fix         string   `json:"fix"`
}

// SortFindings puts the worst first, and those of one kind together.
func SortFindings(findings []Finding) {
	rank := func(s Severity) int { return slices.Index([]Severity{SeverityError, SeverityWarning, SeverityNote}, s) }
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(rank(a.Severity), rank(b.Severity)), strings.Compare(a.ID, b.ID), strings.Compare(a.Object, b.Object))
	})
}

// CheckTables looks for what the tables of a source themselves bring: no key,
// values out of line, names that the lake cannot tell apart.
func CheckTables(s *SourceSchema) []Finding {
	var found []Finding
	folded := make(map[string]string)
	for _, t := range s.Tables {
		name := t.FullName()
		if len(t.Key) == 0 {
			found = append(found, Finding{
				ID: "no_primary_key", Severity: SeverityWarning, Object: name, What: "the table has no primary key",
				Consequence: "DMS sends its inserts only: updates and deletes are ignored",
				Fix:         fmt.Sprintf("ALTER TABLE %s ADD PRIMARY KEY (...); or describe the table as a changelog that only grows", quoteTable(s.Engine, t)),
			})
		}
		var large []string
		for _, c := range t.Columns {
			if c.OutOfLine && !slices.Contains(t.Key, c.Name) {
				large = append(large, c.Name)
			}
			m, err := MapType(s.Words, c)
			if err != nil {
				found = append(found, Finding{
					ID: "unknown_type", Severity: SeverityWarning, Object: name + "." + c.Name, What: "no Iceberg type is known for " + c.Declared,
					Consequence: "icehose catalog discover refuses the column", Fix: "icehose catalog discover --as-text " + c.Type.Name,
				})
				continue
			}
			if slices.Contains(t.Key, c.Name) && (m.Type.Kind == Float || m.Type.Kind == Double) {
				found = append(found, Finding{
					ID: "float_key", Severity: SeverityWarning, Object: name + "." + c.Name, What: "the key has a " + c.Declared + " in it",
					Consequence: "Iceberg refuses equality on floating point: the table can only be a changelog without key", Fix: "a key of another type",
				})
			}
		}
		if len(large) > 0 && len(t.Key) > 0 {
			found = append(found, Finding{
				ID: "out_of_line", Severity: SeverityNote, Object: name, What: fmt.Sprintf("%d columns may be stored apart from their row: %s", len(large), strings.Join(large, ", ")),
				Consequence: "an update may leave out those it did not change, so a mirror cannot be kept: write mode changelog, may_be_unchanged on these columns",
				Fix:         "icehose catalog discover proposes it",
			})
		}
		if other, ok := folded[strings.ToLower(name)]; ok {
			found = append(found, Finding{
				ID: "names_collide", Severity: SeverityWarning, Object: name, What: "differs from " + other + " only in capitals",
				Consequence: "the lake's names have no capitals", Fix: "a target: for one of them in the pipeline file",
			})
		}
		folded[strings.ToLower(name)] = name
	}
	return found
}

func quoteTable(engine Engine, t *SourceTable) string {
	quote := `"`
	if engine == MySQL || engine == MariaDB {
		quote = "`"
	}
	parts := []string{t.Schema, t.Name}
	for i, p := range parts {
		parts[i] = quote + strings.ReplaceAll(p, quote, quote+quote) + quote
	}
	return strings.Join(parts, ".")
}
