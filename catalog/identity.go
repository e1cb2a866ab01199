package catalog

import (
	"slices"
	"strings"
)

// HasIdentity reports whether PostgreSQL's log names the row of an update or
// delete at all. Where it does not, PostgreSQL refuses both to whoever writes
// the table, once a publication has them.
func (t *SourceTable) HasIdentity() bool {
	switch t.ReplicaIdentity {
	case IdentityFull:
		return true
	case IdentityDefault:
		return len(t.Key) > 0 && !t.KeyDeferrable
	case IdentityIndex:
		return len(t.IdentityColumns) > 0
	case IdentityNothing:
	}
	return false
}

// An IdentityGap is a replica identity that does not tell rows apart as a key
// does: a delete comes without the key, and an update that changes the key
// without the old one.
type IdentityGap struct {
	Lacks []string // columns of the key
	What  string   // and why
	Fix   string   // a statement
}

// IdentityGap returns what PostgreSQL's log lacks of columns that tell rows
// apart, nil if it lacks none of them or where the replica identity is not
// known.
func (t *SourceTable) IdentityGap(key []string) *IdentityGap {
	const unnamed = ": the log does not say which row an update or delete means"
	gap := &IdentityGap{Lacks: slices.Clone(key)}
	switch t.ReplicaIdentity {
	case IdentityNothing:
		gap.What = "REPLICA IDENTITY NOTHING" + unnamed
	case IdentityDefault:
		if !t.KeyDeferrable {
			gap.Lacks = missing(key, t.Key)
		}
		gap.What = "the primary key is DEFERRABLE, which is no replica identity" + unnamed
		if !t.KeyDeferrable {
			gap.What = "the log has the primary key of a deleted row, not its " + strings.Join(gap.Lacks, ", ")
		}
	case IdentityIndex:
		gap.Lacks = missing(key, t.IdentityColumns)
		gap.What = "the log has " + strings.Join(t.IdentityColumns, ", ") + " of a deleted row, the columns of its replica identity, " +
			"not its " + strings.Join(gap.Lacks, ", ")
		if len(t.IdentityColumns) == 0 {
			gap.What = "the index that is its replica identity is gone or not valid" + unnamed
		}
	case IdentityFull:
		return nil
	default: // the source has none, or the format does not tell
		return nil
	}
	if len(gap.Lacks) == 0 {
		return nil
	}
	gap.Fix = "ALTER TABLE " + quoteTable(PostgreSQL, t) + " REPLICA IDENTITY DEFAULT"
	if t.KeyDeferrable || len(missing(key, t.Key)) > 0 {
		gap.Fix = "ALTER TABLE " + quoteTable(PostgreSQL, t) + " REPLICA IDENTITY FULL"
	}
	return gap
}

// missing returns the names that are not in have.
func missing(names, have []string) []string {
	var out []string
	for _, name := range names {
		if !slices.Contains(have, name) {
			out = append(out, name)
		}
	}
	return out
}
