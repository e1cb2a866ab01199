package ddl

import (
	"fmt"
	"slices"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"

	"icehose/catalog"
)

func (r *postgresReader) alterTable(s *pg.AlterTableStmt) error {
	t := r.tables[r.qualified(s.GetRelation())]
	if t == nil {
		return nil // a view, a sequence, a foreign table
	}
	for _, n := range s.GetCmds() {
		if err := r.alter(t, n.GetAlterTableCmd()); err != nil {
			return fmt.Errorf("alter table %s: %w", t.FullName(), err)
		}
	}
	return nil
}

func (r *postgresReader) alter(t *postgresTable, c *pg.AlterTableCmd) error {
	switch c.GetSubtype() { //nolint:exhaustive // the others change nothing that a column is
	case pg.AlterTableType_AT_AddColumn:
		if c.GetMissingOk() && t.Column(c.GetDef().GetColumnDef().GetColname()) != nil {
			return nil
		}
		return r.addColumn(t, c.GetDef().GetColumnDef())
	case pg.AlterTableType_AT_AddConstraint:
		return r.tableConstraint(t, c.GetDef().GetConstraint())
	case pg.AlterTableType_AT_DropColumn:
		t.Columns = slices.DeleteFunc(t.Columns, func(col *catalog.SourceColumn) bool { return col.Name == c.GetName() })
		if slices.Contains(t.Key, c.GetName()) {
			t.Key = nil
		}
		t.dropIndexed(c.GetName())
		return nil
	case pg.AlterTableType_AT_DropConstraint:
		t.dropIndex(c.GetName())
		return nil
	case pg.AlterTableType_AT_ReplicaIdentity:
		return t.replicaIdentity(c.GetDef().GetReplicaIdentityStmt())
	case pg.AlterTableType_AT_AttachPartition:
		child := r.tables[r.qualified(c.GetDef().GetPartitionCmd().GetName())]
		if child == nil {
			return fmt.Errorf("attach partition %s: it is not defined before", r.qualified(c.GetDef().GetPartitionCmd().GetName()))
		}
		child.PartitionOf = t.FullName()
		return nil
	case pg.AlterTableType_AT_SetUnLogged, pg.AlterTableType_AT_SetLogged:
		t.unlogged = c.GetSubtype() == pg.AlterTableType_AT_SetUnLogged
		return nil
	case pg.AlterTableType_AT_AddInherit:
		return fmt.Errorf("inherit: dump the table from a server")
	}
	return r.alterColumn(t, c)
}

func (r *postgresReader) alterColumn(t *postgresTable, c *pg.AlterTableCmd) (err error) {
	col := t.Column(c.GetName())
	if col == nil {
		return nil
	}
	switch c.GetSubtype() { //nolint:exhaustive // the others change nothing that a column is
	case pg.AlterTableType_AT_ColumnDefault:
		col.Default = nil
		if c.GetDef() != nil {
			col.Default = catalog.LiteralDefault(r.defaultOf(col))
		}
	case pg.AlterTableType_AT_SetNotNull:
		col.Nullable = false
	case pg.AlterTableType_AT_DropNotNull:
		col.Nullable = true
	case pg.AlterTableType_AT_AddIdentity:
		col.Generated = catalog.GeneratedIdentity
	case pg.AlterTableType_AT_DropIdentity, pg.AlterTableType_AT_DropExpression:
		col.Generated = ""
	case pg.AlterTableType_AT_AlterColumnType:
		_, err = r.columnType(col, c.GetDef().GetColumnDef().GetTypeName())
	case pg.AlterTableType_AT_SetStorage:
		t.plain = slices.DeleteFunc(t.plain, func(name string) bool { return name == col.Name })
		if strings.EqualFold(c.GetDef().GetString_().GetSval(), "plain") {
			t.plain = append(t.plain, col.Name)
		}
	}
	return err
}

// defaultOf finds ALTER COLUMN name SET DEFAULT in the tokens: the tree has
// the expression, but not its text.
func (r *postgresReader) defaultOf(col *catalog.SourceColumn) string {
	for i := r.cursor + 1; i+2 < len(r.tokens); i++ {
		if r.tokens[i].GetToken() == pg.Token_SET && r.tokens[i+1].GetToken() == pg.Token_DEFAULT &&
			unquote(r.text[r.tokens[i-1].GetStart():r.tokens[i-1].GetEnd()]) == col.Name {
			r.cursor = i + 2
			return r.expression(int(r.tokens[i+1].GetStart()))
		}
	}
	return ""
}

// unquote reads an identifier as PostgreSQL does.
func unquote(s string) string {
	if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' {
		return strings.ReplaceAll(s[1:len(s)-1], `""`, `"`)
	}
	return strings.ToLower(s)
}

func identityOf(code string) catalog.ReplicaIdentity {
	switch code {
	case "f":
		return catalog.IdentityFull
	case "n":
		return catalog.IdentityNothing
	case "i":
		return catalog.IdentityIndex
	}
	return catalog.IdentityDefault
}
