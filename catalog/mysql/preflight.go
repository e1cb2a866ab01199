package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"icehose/catalog"
)

// Preflight looks at a live server for what keeps DMS from reading its changes
// or makes it lose some, and at the tables of the schema. It changes nothing.
func Preflight(ctx context.Context, db *sql.DB, s *catalog.SourceSchema) ([]catalog.Finding, error) {
	p := &preflight{db: db, schema: s, values: make(map[string]string)}
	for _, check := range []func(context.Context) error{p.read, p.settings, p.retention, p.grants, p.engines, p.cascades, p.xa} {
		if err := check(ctx); err != nil {
			return nil, fmt.Errorf("preflight of mysql: %w", err)
		}
	}
	found := append(p.found, catalog.CheckTables(s)...)
	catalog.SortFindings(found)
	return found, nil
}

type preflight struct {
	db     *sql.DB
	schema *catalog.SourceSchema
	values map[string]string // of variables that the server has
	found  []catalog.Finding
}

func (p *preflight) add(f catalog.Finding) { p.found = append(p.found, f) }

// query calls row for every row of the result.
func (p *preflight) query(ctx context.Context, row func(*sql.Rows) error, text string, args ...any) (err error) {
	rows, err := p.db.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := row(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (p *preflight) read(ctx context.Context) error {
	return p.query(ctx, func(rows *sql.Rows) error {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return err
		}
		p.values[strings.ToLower(name)] = strings.ToUpper(value)
		return nil
	}, "SHOW GLOBAL VARIABLES")
}

func (p *preflight) settings(context.Context) error {
	for _, s := range []struct {
		name, want   string
		severity     catalog.Severity
		consequence  string
		needsRestart bool
	}{
		{"log_bin", "ON", catalog.SeverityError, "there is no log of changes to read", true},
		{"binlog_format", "ROW", catalog.SeverityError, "the log has statements, not rows", false},
		{"binlog_row_image", "FULL", catalog.SeverityError, "updates come without the columns they did not change, and deletes with nothing but the key", false},
		{"binlog_row_value_options", "", catalog.SeverityError, "updates of JSON come as differences, which DMS cannot read", false},
		{"binlog_transaction_compression", "OFF", catalog.SeverityError, "DMS cannot read compressed transactions", false},
		{"log_bin_compress", "OFF", catalog.SeverityError, "DMS cannot read compressed events", false},
	} {
		value, known := p.values[s.name]
		if !known || value == s.want || s.name == "binlog_transaction_compression" && value == "0" {
			continue
		}
		fix := fmt.Sprintf("SET GLOBAL %s = '%s'", s.name, s.want)
		if s.needsRestart {
			fix = s.name + " in the server's file or parameter group, and restart (RDS: switch automatic backups on)"
		}
		p.add(catalog.Finding{ID: s.name, Severity: s.severity, Object: s.name, What: fmt.Sprintf("is %q, not %q", value, s.want), Consequence: s.consequence, Fix: fix})
	}
	if p.values["server_id"] == "0" {
		p.add(catalog.Finding{
			ID: "server_id", Severity: catalog.SeverityError, Object: "server_id", What: "is 0", Consequence: "the server refuses readers of its log",
			Fix: "SET GLOBAL server_id = 1",
		})
	}
	return nil
}

// retention looks at how long the log is kept.
func (p *preflight) retention(context.Context) error {
	const hour, day = 3600, 24 * 3600
	kept := p.number("binlog_expire_logs_seconds")
	if kept == 0 {
		kept = p.number("expire_logs_days") * day
	}
	if kept > 0 && kept < day {
		p.add(catalog.Finding{
			ID: "binlog_retention", Severity: catalog.SeverityWarning, Object: "binlog_expire_logs_seconds", What: fmt.Sprintf("the log is kept for %.1f hours", kept/hour),
			Consequence: "a task that stops for longer cannot go on: its tables must be loaded again",
			Fix:         "SET GLOBAL binlog_expire_logs_seconds = 86400 (RDS: CALL mysql.rds_set_configuration('binlog retention hours', 24))",
		})
	}
	return nil
}

// number returns the value of a variable, 0 when the server has none of this name.
func (p *preflight) number(name string) float64 {
	n, err := strconv.ParseFloat(p.values[name], 64)
	if err != nil {
		return 0
	}
	return n
}

// grants looks at what the account may do on the whole server.
func (p *preflight) grants(ctx context.Context) error {
	var all strings.Builder
	err := p.query(ctx, func(rows *sql.Rows) error {
		var grant string
		if err := rows.Scan(&grant); err != nil {
			return err
		}
		if head, _, ok := strings.Cut(strings.ToUpper(grant), " ON *.* TO "); ok {
			all.WriteString(strings.TrimPrefix(head, "GRANT ") + ", ")
		}
		return nil
	}, "SHOW GRANTS")
	if err != nil {
		return err
	}
	rights := ", " + all.String()
	var account string
	if err := p.db.QueryRowContext(ctx, "SELECT CURRENT_USER()").Scan(&account); err != nil {
		return err
	}
	for _, names := range [][]string{{"REPLICATION SLAVE", "REPLICATION REPLICA"}, {"REPLICATION CLIENT", "BINLOG MONITOR"}} {
		has := strings.Contains(rights, ", ALL PRIVILEGES, ")
		for _, n := range names {
			has = has || strings.Contains(rights, ", "+n+", ")
		}
		if !has {
			p.add(catalog.Finding{
				ID: "no_replication_right", Severity: catalog.SeverityError, Object: account, What: "the account has no " + names[0] + " right",
				Consequence: "a task cannot read the log", Fix: "GRANT " + names[0] + " ON *.* TO " + quoteAccount(account),
			})
		}
	}
	return nil
}

func quoteAccount(account string) string {
	user, host, _ := cutLast(account, '@')
	return "'" + strings.ReplaceAll(user, "'", "''") + "'@'" + strings.ReplaceAll(host, "'", "''") + "'"
}

// engines looks for tables whose engine has no transactions.
func (p *preflight) engines(ctx context.Context) error {
	return p.query(ctx, func(rows *sql.Rows) error {
		var schema, table, engine string
		if err := rows.Scan(&schema, &table, &engine); err != nil {
			return err
		}
		if p.schema.Table(schema, table) != nil {
			p.add(catalog.Finding{
				ID: "no_transactions", Severity: catalog.SeverityWarning, Object: schema + "." + table, What: "its engine is " + engine,
				Consequence: "a change that fails halfway is in the table and in the log in parts, and a snapshot does not hold it still",
				Fix:         "ALTER TABLE " + identifier(schema) + "." + identifier(table) + " ENGINE = InnoDB",
			})
		}
		return nil
	}, "SELECT TABLE_SCHEMA, TABLE_NAME, COALESCE(ENGINE, '') FROM information_schema.TABLES WHERE TABLE_TYPE = 'BASE TABLE' AND ENGINE NOT IN ('InnoDB', 'ROCKSDB')")
}

// cascades looks for foreign keys that change rows without a word in the log.
// The information schema shows them to more powerful accounts only; the
// definition of a table is for whoever may read it.
func (p *preflight) cascades(ctx context.Context) error {
	for _, t := range p.schema.Tables {
		var name, definition string
		if err := p.db.QueryRowContext(ctx, "SHOW CREATE TABLE "+identifier(t.Schema)+"."+identifier(t.Name)).Scan(&name, &definition); err != nil {
			return fmt.Errorf("table %s: %w", t.FullName(), err)
		}
		for line := range strings.Lines(definition) {
			key, action, ok := strings.Cut(line, ") ON ")
			if !ok || !strings.Contains(key, " FOREIGN KEY (") {
				continue
			}
			if action = "ON " + strings.TrimRight(action, ",\n "); !strings.Contains(action, " CASCADE") && !strings.Contains(action, " SET ") {
				continue
			}
			p.add(catalog.Finding{
				ID: "cascade", Severity: catalog.SeverityError, Object: t.FullName(), What: "a foreign key has " + action,
				Consequence: "InnoDB changes the rows of this table itself and writes nothing of it to the log: they stay in the lake, until a reconcile finds them",
				Fix:         "let the application or a trigger change them; a foreign key with NO ACTION in its place",
			})
		}
	}
	return nil
}

func identifier(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }
