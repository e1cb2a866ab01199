package discover

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"icehose/catalog"
)

// noteGone notes the columns of the file that the source does not have any
// more, and which new one each may have become. Where only one can be meant, that
// stands beside the new column too: once the lake has it, a rename is too late.
func (u *updater) noteGone(fresh *proposal, have *catalog.Table, sources []*catalog.SourceColumn) {
	var gone []*catalog.Column
	for i, c := range have.Columns {
		if c != nil && sources[i] == nil && !c.Exclude {
			gone = append(gone, c)
		}
	}
	for _, c := range gone {
		var became []*proposedColumn
		for i := range fresh.columns {
			if mayBecome(c, &fresh.columns[i]) {
				became = append(became, &fresh.columns[i])
			}
		}
		u.noteGoneColumn(c, became, have, fresh.source)
		if len(became) != 1 || slices.ContainsFunc(gone, func(other *catalog.Column) bool { return other != c && mayBecome(other, became[0]) }) {
			continue
		}
		became[0].because(fmt.Sprintf("perhaps %[1]s, renamed: then write renamed_from: %[1]s here "+
			"and remove %[1]s before catalog apply, which would add an empty column", oneLine(c.Name)))
	}
}

// mayBecome reports whether a new column may be one that is gone.
func mayBecome(c *catalog.Column, fresh *proposedColumn) bool {
	return !fresh.Exclude && fresh.TypeText == c.TypeText && (c.SourceType == "" || fresh.SourceType == c.SourceType)
}

func (u *updater) noteGoneColumn(c *catalog.Column, became []*proposedColumn, have *catalog.Table, t *catalog.SourceTable) {
	n := Note{
		Kind: Attention, Table: t.FullName(), Column: c.Name, Text: "the source has no such column: kept", Meanwhile: "it is null in new rows",
		Edit: "write exclude: true, or remove it, when its values are of no more use",
	}
	switch {
	case slices.Contains(have.Key, c.Name):
		n.Meanwhile = "every record fails missing_key"
	case cmp.Or(have.Nulls, u.nulls) == catalog.NullsIncluded, c.NotNull && c.Default == nil:
		n.Meanwhile = "records without it fail missing_column"
	}
	if len(became) > 0 {
		names := make([]string, len(became))
		for i, other := range became {
			names[i] = other.Name
		}
		n.Edit = fmt.Sprintf("if it was renamed to %s, write renamed_from: %s there and remove it here, before catalog apply adds a new column; "+
			"otherwise write exclude: true, or remove it, when its values are of no more use",
			strings.Join(names, " or "), c.Name)
	}
	for _, text := range have.PartitionText {
		if f, err := catalog.ParsePartitionField(text); err == nil && f.Column == c.Name {
			n.Edit += "; partition: " + text + " names it too"
		}
	}
	u.note(n)
}
