package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"icehose/catalog"
)

// earlier is the SQL of SourceColumn.Earlier for pg_attribute a. The value that
// ADD COLUMN computed once for the rows of then is an array of one element, of a
// pseudo-type whose only way out is its text. That is another array of text only
// where the element's type separates elements by commas.
const earlier = `CASE WHEN a.atthasmissing AND cardinality(a.attmissingval::text::text[]) = 1 THEN (a.attmissingval::text::text[])[1] END`

// readLeftOut lists the relations that readTables does not.
func readLeftOut(ctx context.Context, tx pgx.Tx) ([]catalog.LeftOut, error) {
	rows, err := tx.Query(ctx, `
		SELECT n.nspname, c.relname, CASE WHEN e.extension THEN 'extension' WHEN c.relkind = 'p' THEN 'partitioned' WHEN c.relkind = 'f' THEN 'foreign'
			WHEN c.relkind = 'r' THEN 'unlogged' ELSE 'view' END
		FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace,
			LATERAL (SELECT EXISTS (SELECT FROM pg_catalog.pg_depend d
				WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.objid = c.oid AND d.deptype = 'e') AS extension) e
		WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND c.relpersistence <> 't' AND (c.relkind <> 'r' OR c.relpersistence = 'u' OR e.extension)
			AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
		ORDER BY 1, 2`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (l catalog.LeftOut, err error) {
		err = row.Scan(&l.Schema, &l.Name, &l.Why)
		return l, err
	})
}
