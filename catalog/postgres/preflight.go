package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"icehose/catalog"
)

// Preflight looks at a live server for what keeps DMS from reading its changes
// or makes it lose some, and at the tables of the schema. Of those that are not
// in it, being unlogged or parents of partitions, it looks at the ones that the
// patterns select (schema.table with % for any text; none: all). It changes
// nothing. What the account may not see is not looked at.
func Preflight(ctx context.Context, conn *pgx.Conn, s *catalog.SourceSchema, patterns []string) ([]catalog.Finding, error) {
	p := &preflight{conn: conn, schema: s, filter: catalog.Pipeline{Include: patterns}}
	for _, check := range []func(context.Context) error{p.settings, p.standby, p.slots, p.room, p.account, p.transactions, p.tables, p.pglogical} {
		if err := check(ctx); err != nil {
			return nil, fmt.Errorf("preflight of postgresql: %w", err)
		}
	}
	found := append(p.found, catalog.CheckTables(s)...)
	catalog.SortFindings(found)
	return found, nil
}

type preflight struct {
	conn   *pgx.Conn
	schema *catalog.SourceSchema
	filter catalog.Pipeline // of tables that are not in the schema
	found  []catalog.Finding
}

func (p *preflight) add(f catalog.Finding) { p.found = append(p.found, f) }

func (p *preflight) settings(ctx context.Context) error {
	values := make(map[string]string)
	rows, err := p.conn.Query(ctx, `SELECT name, setting FROM pg_settings WHERE name IN ('wal_level', 'max_slot_wal_keep_size', 'wal_sender_timeout',
		'idle_in_transaction_session_timeout', 'statement_timeout')`)
	if err != nil {
		return err
	}
	var name, value string
	if _, err := pgx.ForEachRow(rows, []any{&name, &value}, func() error { values[name] = value; return nil }); err != nil {
		return err
	}
	if v := values["wal_level"]; v != "logical" {
		p.add(catalog.Finding{
			ID: "wal_level", Severity: catalog.SeverityError, Object: "wal_level", What: "is " + v, Consequence: "the log has no row changes: no task can read them",
			Fix: "ALTER SYSTEM SET wal_level = 'logical'; and restart (RDS: rds.logical_replication = 1 in the parameter group, and reboot)",
		})
	}
	if values["max_slot_wal_keep_size"] == "-1" {
		p.add(catalog.Finding{
			ID: "slot_wal_unlimited", Severity: catalog.SeverityNote, Object: "max_slot_wal_keep_size", What: "is -1: a slot that nobody reads keeps the log without limit",
			Consequence: "a stopped task fills the disk, and the server stops",
			Fix:         "watch pg_replication_slots, or ALTER SYSTEM SET max_slot_wal_keep_size = '100GB'; beyond that the slot is lost and the tables must be loaded again",
		})
	}
	if ms, err := strconv.Atoi(values["wal_sender_timeout"]); err == nil && ms > 0 && ms < 10_000 {
		p.add(catalog.Finding{
			ID: "wal_sender_timeout", Severity: catalog.SeverityWarning, Object: "wal_sender_timeout", What: fmt.Sprintf("is %d ms", ms),
			Consequence: "the server ends the connection of a task that is busy for that long", Fix: "ALTER SYSTEM SET wal_sender_timeout = '60s'; SELECT pg_reload_conf()",
		})
	}
	for _, name := range []string{"idle_in_transaction_session_timeout", "statement_timeout"} {
		if v := values[name]; v != "0" && v != "" {
			p.add(catalog.Finding{
				ID: "timeout", Severity: catalog.SeverityWarning, Object: name, What: "is " + v + " ms", Consequence: "a load of a large table is cut off",
				Fix: "ALTER ROLE " + p.role() + " SET " + name + " = 0",
			})
		}
	}
	return nil
}

func (p *preflight) role() string { return pgx.Identifier{p.conn.Config().User}.Sanitize() }

func (p *preflight) standby(ctx context.Context) error {
	var standby bool
	if err := p.conn.QueryRow(ctx, "SELECT pg_is_in_recovery()").Scan(&standby); err != nil {
		return err
	}
	if standby {
		p.add(catalog.Finding{
			ID: "standby", Severity: catalog.SeverityError, What: "the server is a standby", Consequence: "DMS cannot make a replication slot on it that survives",
			Fix: "connect to the primary",
		})
	}
	return nil
}

// slots looks at what each replication slot keeps.
func (p *preflight) slots(ctx context.Context) error {
	rows, err := p.conn.Query(ctx, `SELECT slot_name, coalesce(plugin, ''), active, coalesce(to_jsonb(s) ->> 'wal_status', ''),
			coalesce(pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END, restart_lsn), 0)::bigint
		FROM pg_replication_slots s WHERE slot_type = 'logical' ORDER BY 1`)
	if err != nil {
		return err
	}
	var name, plugin, status string
	var active bool
	var kept int64
	_, err = pgx.ForEachRow(rows, []any{&name, &plugin, &active, &status, &kept}, func() error {
		drop := "SELECT pg_drop_replication_slot(" + literal(name) + ")"
		switch {
		case status == "lost":
			p.add(catalog.Finding{
				ID: "slot_lost", Severity: catalog.SeverityError, Object: name, What: "the slot has lost log that its reader had not read",
				Consequence: "its task cannot go on: changes are missing", Fix: drop + "; then load its tables again",
			})
		case !active:
			p.add(catalog.Finding{
				ID: "slot_idle", Severity: catalog.SeverityWarning, Object: name, What: fmt.Sprintf("nobody reads the slot (plugin %s); it keeps %s of log", plugin, size(kept)),
				Consequence: "the log grows until the disk is full", Fix: "start the task that owns it, or " + drop,
			})
		}
		return nil
	})
	return err
}

func literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

func size(bytes int64) string {
	const unit = 1 << 20
	return fmt.Sprintf("%.1f MB", float64(bytes)/unit)
}

// room looks for a slot and a sender that are free.
func (p *preflight) room(ctx context.Context) error {
	for _, r := range []struct{ id, setting, query, what string }{
		{"no_free_slot", "max_replication_slots", "SELECT count(*) FROM pg_replication_slots", "replication slots"},
		{"no_free_sender", "max_wal_senders", "SELECT count(*) FROM pg_stat_replication", "WAL senders"},
	} {
		var used, limit int
		if err := p.conn.QueryRow(ctx, "SELECT ("+r.query+"), current_setting('"+r.setting+"')::integer").Scan(&used, &limit); err != nil {
			return err
		}
		if used >= limit {
			p.add(catalog.Finding{
				ID: r.id, Severity: catalog.SeverityError, Object: r.setting, What: fmt.Sprintf("all %d %s are in use", limit, r.what),
				Consequence: "a task cannot start", Fix: fmt.Sprintf("ALTER SYSTEM SET %s = %d; and restart", r.setting, limit+5),
			})
		}
	}
	return nil
}

// account looks at what the account may do.
func (p *preflight) account(ctx context.Context) error {
	var may bool
	err := p.conn.QueryRow(ctx, `SELECT rolreplication OR rolsuper OR EXISTS (SELECT FROM pg_roles r WHERE r.rolname = 'rds_replication' AND pg_has_role(current_user, r.oid, 'member'))
		FROM pg_roles WHERE rolname = current_user`).Scan(&may)
	if err != nil {
		return err
	}
	if !may {
		p.add(catalog.Finding{
			ID: "no_replication_right", Severity: catalog.SeverityError, Object: p.conn.Config().User, What: "the account may not replicate",
			Consequence: "a task cannot read the log", Fix: "ALTER ROLE " + p.role() + " REPLICATION (RDS: GRANT rds_replication TO " + p.role() + ")",
		})
	}
	for _, t := range p.schema.Tables {
		name := pgx.Identifier{t.Schema, t.Name}.Sanitize()
		var usage, sel, hidden bool
		err := p.conn.QueryRow(ctx, `SELECT has_schema_privilege($1::text, 'USAGE'), CASE WHEN has_schema_privilege($1::text, 'USAGE') THEN has_table_privilege($2::text, 'SELECT') ELSE false END,
			CASE WHEN has_schema_privilege($1::text, 'USAGE') THEN row_security_active($2::text) ELSE false END`, t.Schema, name).Scan(&usage, &sel, &hidden)
		if err != nil {
			return err
		}
		if hidden {
			p.add(catalog.Finding{
				ID: "row_security", Severity: catalog.SeverityError, Object: t.FullName(), What: "row-level security hides rows from the account",
				Consequence: "the load of a task has only the rows that a policy shows, while the log has the changes of all",
				Fix:         "ALTER ROLE " + p.role() + " BYPASSRLS; or an account that owns the table, where its policies are not forced on the owner",
			})
		}
		if !usage || !sel {
			p.add(catalog.Finding{
				ID: "no_select_right", Severity: catalog.SeverityError, Object: t.FullName(), What: "the account may not read the table", Consequence: "its load fails",
				Fix: "GRANT USAGE ON SCHEMA " + pgx.Identifier{t.Schema}.Sanitize() + " TO " + p.role() + "; GRANT SELECT ON " + name + " TO " + p.role(),
			})
		}
	}
	return nil
}

// transactions looks for those that a new slot would have to wait for.
func (p *preflight) transactions(ctx context.Context) error {
	var open, prepared int
	if err := p.conn.QueryRow(ctx, `SELECT (SELECT count(*) FROM pg_stat_activity WHERE xact_start < clock_timestamp() - interval '10 minutes' AND backend_type = 'client backend'),
		(SELECT count(*) FROM pg_prepared_xacts)`).Scan(&open, &prepared); err != nil {
		return err
	}
	if open > 0 {
		p.add(catalog.Finding{
			ID: "long_transactions", Severity: catalog.SeverityWarning, Object: "pg_stat_activity", What: fmt.Sprintf("%d transactions are open for more than 10 minutes", open),
			Consequence: "a task waits for them (TransactionConsistencyTimeout, 600 s), and then loads without what they will commit",
			Fix:         "SELECT pid, xact_start, query FROM pg_stat_activity ORDER BY xact_start; end them first",
		})
	}
	if prepared > 0 {
		p.add(catalog.Finding{
			ID: "prepared_transactions", Severity: catalog.SeverityWarning, Object: "pg_prepared_xacts", What: fmt.Sprintf("%d transactions are prepared", prepared),
			Consequence: "making a slot waits for them", Fix: "COMMIT PREPARED or ROLLBACK PREPARED each of SELECT gid FROM pg_prepared_xacts",
		})
	}
	return nil
}

// tables looks at what only a live server tells of tables.
func (p *preflight) tables(ctx context.Context) error {
	for _, t := range p.schema.Tables {
		p.identity(t)
	}
	rows, err := p.conn.Query(ctx, `SELECT n.nspname, c.relname, c.relkind::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE (c.relpersistence = 'u' AND c.relkind = 'r' OR c.relkind = 'p') AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' ORDER BY 1, 2`)
	if err != nil {
		return err
	}
	var schema, name, kind string
	_, err = pgx.ForEachRow(rows, []any{&schema, &name, &kind}, func() error {
		if p.filter.Excluded(schema + "." + name) {
			return nil
		}
		f := catalog.Finding{
			ID: "unlogged_table", Severity: catalog.SeverityWarning, Object: schema + "." + name, What: "the table is UNLOGGED", Consequence: "its changes are not in the log",
			Fix: "ALTER TABLE " + pgx.Identifier{schema, name}.Sanitize() + " SET LOGGED",
		}
		if kind == "p" {
			f = catalog.Finding{
				ID: "partitioned_table", Severity: catalog.SeverityNote, Object: schema + "." + name, What: "the table has partitions",
				Consequence: "a task that selects it and its partitions sends every row twice; the log has its changes under the names of the partitions",
				Fix: "select the partitions and not the table: each is a table of its own in the lake, as icehose catalog discover proposes it, because two sources cannot share a target; " +
					"a view can read them as one; run discover again when a partition is added",
			}
		}
		p.add(f)
		return nil
	})
	return err
}

// identity looks at whether the log has a row's key when it is deleted.
func (p *preflight) identity(t *catalog.SourceTable) {
	gap := t.IdentityGap(t.Key)
	f := catalog.Finding{Severity: catalog.SeverityError, Object: t.FullName()}
	switch {
	case t.ReplicaIdentity == catalog.IdentityNothing:
		f.ID, f.What, f.Consequence = "replica_identity_nothing", "REPLICA IDENTITY NOTHING", "the log does not say which row an update or delete means"
		f.Fix = "ALTER TABLE " + pgx.Identifier{t.Schema, t.Name}.Sanitize() + " REPLICA IDENTITY DEFAULT"
		if gap != nil {
			f.Fix = gap.Fix
		}
	case gap == nil && t.KeyDeferrable:
		f.ID, f.Severity, f.What = "key_deferrable_changes", catalog.SeverityWarning, "the primary key is DEFERRABLE: one statement may move a row to a key that another row has not left yet"
		f.Consequence = "after UPDATE ... SET id = id + 1, or a swap of two keys, the lake lacks rows: changes come one by one, and leaving a key ends whatever is there; icehose reconcile finds them"
		f.Fix = "a primary key that is not deferrable; or change such keys in two statements, by way of keys that no row has"
	case gap == nil:
		return
	case t.ReplicaIdentity == catalog.IdentityIndex:
		f.ID, f.What, f.Fix = "replica_identity_index", gap.What, gap.Fix
		f.Consequence = "a delete has no key and fails missing_key; an update that changes the key leaves the old row in the lake"
	default:
		f.ID, f.What, f.Fix = "key_deferrable", gap.What, gap.Fix+"; or a primary key that is not deferrable, where DMS reads with pglogical"
		f.Consequence = "a delete names no row: it fails missing_key or does not come; icehose capture has the table's inserts only"
	}
	p.add(f)
}

// pglogical looks at what earlier tasks have left, where the extension is there.
func (p *preflight) pglogical(ctx context.Context) error {
	var version *string
	err := p.conn.QueryRow(ctx, "SELECT extversion FROM pg_extension WHERE extname = 'pglogical'").Scan(&version)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, t := range p.schema.Tables {
		if t.ReplicaIdentity == catalog.IdentityFull {
			other := "ALTER TABLE " + pgx.Identifier{t.Schema, t.Name}.Sanitize() + " REPLICA IDENTITY DEFAULT"
			if t.KeyDeferrable {
				other += " and a primary key that is not deferrable"
			}
			p.add(catalog.Finding{
				ID: "replica_identity_full", Severity: catalog.SeverityWarning, Object: t.FullName(), What: "REPLICA IDENTITY FULL, and pglogical is installed",
				Consequence: "DMS with pglogical does not support it: old rows are missing",
				Fix:         "PluginName=test_decoding on the endpoint, or " + other,
			})
		}
	}
	rows, err := p.conn.Query(ctx, `SELECT set_name FROM pglogical.replication_set
		WHERE set_name NOT IN ('default', 'default_insert_only', 'ddl_sql') AND NOT EXISTS (SELECT FROM pg_replication_slots WHERE active AND plugin = 'pglogical_output') ORDER BY 1`)
	if err != nil {
		return err
	}
	var name string
	_, err = pgx.ForEachRow(rows, []any{&name}, func() error {
		p.add(catalog.Finding{
			ID: "replication_set_left", Severity: catalog.SeverityWarning, Object: name, What: "a replication set without a task that reads",
			Consequence: "a new task of the same name fails or reads other tables", Fix: "SELECT pglogical.drop_replication_set(" + literal(name) + ")",
		})
		return nil
	})
	return err
}
