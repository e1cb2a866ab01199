package ddl

import (
	"fmt"
	"slices"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"

	"icehose/catalog"
)

// addIndex remembers the columns of a unique index, which may become the
// replica identity. Without a name it gets the one that PostgreSQL gives it.
func (t *postgresTable) addIndex(name, suffix string, columns []string) {
	if name == "" {
		name = t.Name + "_" + suffix
		if suffix != "pkey" {
			name = t.Name + "_" + strings.Join(columns, "_") + "_" + suffix
		}
	}
	if t.indexes == nil {
		t.indexes = make(map[string][]string)
	}
	t.indexes[name] = columns
}

// uniqueConstraint remembers the index of a constraint.
func (t *postgresTable) uniqueConstraint(c *pg.Constraint) {
	columns := texts(c.GetKeys())
	if c.GetIndexname() != "" { // made before, and renamed now
		columns = t.indexes[c.GetIndexname()]
	}
	t.addIndex(c.GetConname(), "key", columns)
}

// createIndex plays CREATE INDEX.
func (r *postgresReader) createIndex(s *pg.IndexStmt) {
	t := r.tables[r.qualified(s.GetRelation())]
	if t == nil || !s.GetUnique() || s.GetWhereClause() != nil {
		return
	}
	columns := make([]string, len(s.GetIndexParams()))
	for i, p := range s.GetIndexParams() {
		columns[i] = p.GetIndexElem().GetName()
	}
	t.addIndex(s.GetIdxname(), "idx", columns)
}

// replicaIdentity plays ALTER TABLE ... REPLICA IDENTITY.
func (t *postgresTable) replicaIdentity(s *pg.ReplicaIdentityStmt) error {
	t.ReplicaIdentity, t.IdentityColumns, t.identityIndex = identityOf(s.GetIdentityType()), nil, ""
	if t.ReplicaIdentity != catalog.IdentityIndex {
		return nil
	}
	columns, ok := t.indexes[s.GetName()]
	if !ok {
		return fmt.Errorf("replica identity using index %s: no unique index of that name is defined before it", s.GetName())
	}
	t.IdentityColumns, t.identityIndex = slices.Clone(columns), s.GetName()
	return nil
}

// dropIndex forgets an index: as replica identity it is none from then on.
func (t *postgresTable) dropIndex(name string) {
	delete(t.indexes, name)
	if name == t.identityIndex {
		t.IdentityColumns, t.identityIndex = nil, ""
	}
}

// dropIndexes plays DROP INDEX. Names of indexes are those of a schema.
func (r *postgresReader) dropIndexes(s *pg.DropStmt) {
	for _, o := range s.GetObjects() {
		schema, name, _ := strings.Cut(r.nameOf(o.GetList().GetItems()), ".")
		for _, t := range r.order {
			if t.Schema == schema {
				t.dropIndex(name)
			}
		}
	}
}

// renameIndexed gives a column of the indexes its new name.
func (t *postgresTable) renameIndexed(from, to string) {
	rename := func(columns []string) {
		for i, c := range columns {
			if c == from {
				columns[i] = to
			}
		}
	}
	rename(t.IdentityColumns)
	for _, columns := range t.indexes {
		rename(columns)
	}
}

// dropIndexed drops the indexes that have a column.
func (t *postgresTable) dropIndexed(column string) {
	for name, columns := range t.indexes {
		if slices.Contains(columns, column) {
			t.dropIndex(name)
		}
	}
}
