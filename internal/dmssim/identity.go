package dmssim

import "strings"

// A Shortfall is a table of which the stream does not have every change, or
// has deletes without the key of their row.
type Shortfall struct {
	Table string // schema.table
	// InsertsOnly says that no update and no delete is in the stream.
	InsertsOnly bool
	Why, Fix    string
}

// Shortfalls lists the tables that the stream is not complete for, by name.
func (t *Task) Shortfalls() []Shortfall {
	var out []Shortfall
	for _, table := range t.tables {
		s := Shortfall{Table: table.FullName(), InsertsOnly: !table.changes()}
		gap := table.source.IdentityGap(table.Key)
		switch {
		case len(table.Key) == 0:
			s.Why, s.Fix = "the table has no primary key", "give it a primary key; then start the capture again"
		case gap != nil:
			s.Why, s.Fix = gap.What, gap.Fix+"; then start the capture again"
		case s.InsertsOnly:
			s.Why = "its replica identity has the generated columns " + strings.Join(table.computed, ", ") + ", which the server would have to publish"
			s.Fix = "give it a replica identity without them; then start the capture again"
		default:
			continue
		}
		out = append(out, s)
	}
	return out
}

// changes reports whether updates and deletes of the table can be published:
// PostgreSQL refuses them to whoever writes the table, where its log could not
// name their rows. Those of a table without a key DMS ignores.
func (t *Table) changes() bool {
	return len(t.Key) > 0 && t.source.HasIdentity() && len(t.computed) == 0
}

// tablesQuery lists tables, with the columns of the primary key, and what the
// log has of an old row. From PostgreSQL 18 on, generated columns in it are
// refused like a row that cannot be named.
const tablesQuery = `
	WITH parts AS (
		SELECT i.indrelid AS relation, i.indisprimary, i.indisreplident, i.indimmediate AND i.indisvalid AS immediate,
			array_agg(a.attname::text ORDER BY k.n) AS columns
		FROM pg_index i, unnest(i.indkey) WITH ORDINALITY AS k (attnum, n), pg_attribute a
		WHERE (i.indisprimary OR i.indisreplident) AND k.n <= i.indnkeyatts AND a.attrelid = i.indrelid AND a.attnum = k.attnum
		GROUP BY i.indexrelid, i.indrelid, i.indisprimary, i.indisreplident, i.indimmediate, i.indisvalid)
	SELECT c.oid, n.nspname, c.relname, coalesce((SELECT columns FROM parts WHERE relation = c.oid AND indisprimary), '{}'),
		CASE c.relreplident WHEN 'd' THEN 'default' WHEN 'f' THEN 'full' WHEN 'i' THEN 'index' WHEN 'n' THEN 'nothing' ELSE '' END,
		EXISTS (SELECT FROM parts WHERE relation = c.oid AND indisprimary AND NOT immediate),
		coalesce((SELECT columns FROM parts WHERE relation = c.oid AND c.relreplident = 'i' AND indisreplident AND immediate), '{}'),
		ARRAY(SELECT a.attname::text FROM pg_attribute a WHERE current_setting('server_version_num')::int >= 180000
			AND a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated <> '' AND (c.relreplident = 'f' OR EXISTS (SELECT FROM parts
				WHERE relation = c.oid AND a.attname = ANY (columns) AND CASE c.relreplident WHEN 'd' THEN indisprimary WHEN 'i' THEN indisreplident ELSE false END))
			ORDER BY a.attnum)
	FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
	WHERE c.relkind = 'r' AND c.relpersistence = 'p' AND n.nspname NOT LIKE 'pg\_%' AND n.nspname <> 'information_schema'
	ORDER BY n.nspname, c.relname`
