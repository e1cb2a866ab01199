package dmssim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// loadChunk is how many rows a step of a load writes.
const loadChunk = 100

// A load is the full load of one table.
type load struct {
	table     *Table
	conn      *pgx.Conn
	shared    bool // conn is the task's snapshot
	cursor    string
	rows      int
	restarted bool
}

// LoadStep writes the next rows of one of the tables that are loading, or
// begins the load of another. It reports whether all loads are done.
func (t *Task) LoadStep(ctx context.Context) (done bool, err error) {
	if t.Loaded() {
		return true, nil
	}
	if len(t.waiting) > 0 && len(t.loading) < t.settings.MaxFullLoadSubTasks {
		l := t.waiting[0]
		t.waiting = t.waiting[1:]
		t.loading = append(t.loading, l)
		if err := t.beginLoad(ctx, l); err != nil {
			return false, fmt.Errorf("load %s: %w", l.table.FullName(), err)
		}
		return false, nil
	}
	i := t.random.IntN(len(t.loading))
	l := t.loading[i]
	ended, err := t.loadRows(ctx, l)
	if err != nil {
		return false, fmt.Errorf("load %s: %w", l.table.FullName(), err)
	}
	if !ended {
		return false, nil
	}
	t.loading = slices.Delete(t.loading, i, i+1)
	if err := l.end(ctx); err != nil {
		return false, fmt.Errorf("load %s: %w", l.table.FullName(), err)
	}
	if t.Loaded() {
		return true, t.finishLoads(ctx)
	}
	return false, nil
}

func (t *Task) finishLoads(ctx context.Context) error {
	err := t.snapshot.Close(ctx)
	t.snapshot = nil
	if err != nil {
		return fmt.Errorf("close snapshot: %w", err)
	}
	return t.writeStatus("CHANGE PROCESSING")
}

// beginLoad writes the control records of a load and opens its cursor.
func (t *Task) beginLoad(ctx context.Context, l *load) error {
	if t.settings.FullLoadExceptionTableEnabled {
		if err := t.putControl(fullLoadExceptions(), CreateTable); err != nil {
			return err
		}
	}
	if t.settings.TargetTablePrepMode == dropAndCreate {
		if err := t.putControl(l.table, DropTable); err != nil {
			return err
		}
	}
	if err := t.putControl(l.table, CreateTable); err != nil {
		return err
	}
	l.shared = !t.settings.LoadOverlapsChanges || len(l.table.Key) == 0
	l.conn = t.snapshot
	if !l.shared {
		conn, err := connect(ctx, t.options.DSN)
		if err != nil {
			return err
		}
		l.conn = conn
		// The lock comes before the snapshot: one from before the table is rewritten finds no rows.
		begin := "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; LOCK TABLE ONLY " + l.table.quoted() + " IN ACCESS SHARE MODE"
		if _, err := conn.Exec(ctx, begin); err != nil {
			return fmt.Errorf("open snapshot: %w", err)
		}
	}
	columns := make([]string, len(l.table.Columns))
	for i, c := range l.table.Columns {
		columns[i] = pgx.Identifier{c.Name}.Sanitize()
	}
	l.cursor = pgx.Identifier{l.table.FullName()}.Sanitize()
	_, err := l.conn.Exec(ctx, fmt.Sprintf("DECLARE %s NO SCROLL CURSOR FOR SELECT %s FROM ONLY %s", l.cursor, strings.Join(columns, ", "), l.table.quoted()))
	if err != nil {
		return fmt.Errorf("open cursor: %w", err)
	}
	if l.shared {
		return t.checkUnaltered(ctx, l.table)
	}
	return nil
}

func (t *Table) quoted() string { return pgx.Identifier{t.Schema, t.Name}.Sanitize() }

// checkUnaltered refuses a table that was rewritten after the slot's snapshot was
// taken: its rows from before cannot be read any more, and the log does not have
// them. To lock all tables would keep everybody from altering them until the last
// is loaded; and to lock them before there is a slot could keep the slot waiting
// for a transaction that waits for a lock. The cursor is open, so the table stays as
// it is now.
func (t *Task) checkUnaltered(ctx context.Context, table *Table) error {
	names := make([]string, len(table.Columns))
	for i, c := range table.Columns {
		names[i] = c.Name
	}
	const files = `SELECT coalesce((SELECT concat_ws(' ', c.oid, c.relfilenode, (SELECT string_agg(a.attnum || ' ' || a.attname, ' ' ORDER BY a.attnum)
			FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = ANY ($3) AND NOT a.attisdropped))
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2), '')`
	var then, now string
	if err := t.snapshot.QueryRow(ctx, files, table.Schema, table.Name, names).Scan(&then); err != nil {
		return fmt.Errorf("look for its file: %w", err)
	}
	if err := t.conn.QueryRow(ctx, files, table.Schema, table.Name, names).Scan(&now); err != nil {
		return fmt.Errorf("look for its file: %w", err)
	}
	if now != then {
		return errors.New("the table was rewritten (ALTER TABLE, TRUNCATE, VACUUM FULL, CLUSTER) since the slot was made, and its rows from before cannot be read any more: capture again")
	}
	return nil
}

// loadRows writes a chunk of rows. The rows of a chunk are not written in the
// order in which they were read: those of real loads are not either.
func (t *Task) loadRows(ctx context.Context, l *load) (ended bool, err error) {
	// The simple protocol gives text, which is what DMS's forms are made from.
	results, err := l.conn.PgConn().Exec(ctx, fmt.Sprintf("FETCH %d FROM %s", loadChunk, l.cursor)).ReadAll()
	if err != nil {
		return false, fmt.Errorf("read rows: %w", err)
	}
	rows := results[0].Rows
	messages := make([]*Message, len(rows))
	for i, row := range rows {
		data := make([]Datum, len(row))
		for j, text := range row {
			if text == nil {
				data[j] = Datum{State: Null}
			} else {
				data[j] = Datum{State: Known, Text: string(text)}
			}
		}
		messages[i] = &Message{Table: l.table, Operation: Load, Built: t.options.Clock(), Row: data}
	}
	t.random.Shuffle(len(messages), func(i, j int) { messages[i], messages[j] = messages[j], messages[i] })
	for _, m := range messages {
		if err := t.putData(m); err != nil {
			return false, err
		}
	}
	l.rows += len(rows)
	if !l.restarted && l.rows >= t.settings.RestartAfterRows && slices.Contains(t.settings.RestartLoadOf, l.table.FullName()) {
		return false, t.restartLoad(ctx, l)
	}
	return len(rows) < loadChunk, nil
}

func (t *Task) restartLoad(ctx context.Context, l *load) error {
	if err := l.end(ctx); err != nil {
		return err
	}
	l.restarted = true
	return t.beginLoad(ctx, l)
}

// end closes the cursor and, if the load has its own, the connection.
func (l *load) end(ctx context.Context) error {
	if l.conn == nil {
		return nil
	}
	conn := l.conn
	l.conn = nil
	if !l.shared {
		return conn.Close(ctx)
	}
	const failed = 'E' // a transaction whose cursors are gone
	if conn.IsClosed() || l.cursor == "" || conn.PgConn().TxStatus() == failed {
		return nil
	}
	if _, err := conn.Exec(ctx, "CLOSE "+l.cursor); err != nil {
		return fmt.Errorf("close cursor: %w", err)
	}
	return nil
}
