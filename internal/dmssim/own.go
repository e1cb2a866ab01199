package dmssim

import "time"

// statusTable is awsdms_status, one of the tables that a task keeps for
// itself on its target: ordinary data records without a schema.
func statusTable() *Table {
	return &Table{Name: "awsdms_status", Key: []string{"server_name", "task_name"}, Columns: []Column{
		{Name: "server_name", Kind: Varchar, Length: 128},
		{Name: "task_name", Kind: Varchar, Length: 128},
		{Name: "task_status", Kind: Varchar, Length: 32, Nullable: true},
		{Name: "status_time", Kind: Timestamp, Nullable: true},
		{Name: "pending_changes", Kind: BigInt, Nullable: true},
		{Name: "disk_swap_size", Kind: BigInt, Nullable: true},
		{Name: "task_memory", Kind: BigInt, Nullable: true},
		{Name: "source_current_position", Kind: Varchar, Length: 128, Nullable: true},
		{Name: "source_current_timestamp", Kind: Timestamp, Nullable: true},
		{Name: "source_tail_position", Kind: Varchar, Length: 128, Nullable: true},
		{Name: "source_tail_timestamp", Kind: Timestamp, Nullable: true},
		{Name: "source_timestamp_applied", Kind: Timestamp, Nullable: true},
	}}
}

func historyTable() *Table {
	return &Table{Name: "awsdms_history", Key: []string{"server_name", "task_name", "timeslot_type", "timeslot"}, Columns: []Column{
		{Name: "server_name", Kind: Varchar, Length: 128},
		{Name: "task_name", Kind: Varchar, Length: 128},
		{Name: "timeslot_type", Kind: Varchar, Length: 32},
		{Name: "timeslot", Kind: Timestamp},
		{Name: "timeslot_duration", Kind: BigInt, Nullable: true},
		{Name: "timeslot_latency", Kind: BigInt, Nullable: true},
		{Name: "timeslot_records", Kind: BigInt, Nullable: true},
		{Name: "timeslot_volume", Kind: BigInt, Nullable: true},
	}}
}

func applyExceptions() *Table {
	return &Table{Name: "awsdms_apply_exceptions", Columns: []Column{
		{Name: "TASK_NAME", Kind: Varchar, Length: 128},
		{Name: "TABLE_OWNER", Kind: Varchar, Length: 128},
		{Name: "TABLE_NAME", Kind: Varchar, Length: 128},
		{Name: "ERROR_TIME", Kind: Timestamp},
		{Name: "STATEMENT", Kind: Text},
		{Name: "ERROR", Kind: Text},
	}}
}

func fullLoadExceptions() *Table {
	t := applyExceptions()
	t.Name = "awsdms_full_load_exceptions"
	return t
}

// announce writes what a task writes before its first table.
func (t *Task) announce() error {
	if err := t.putControl(applyExceptions(), CreateTable); err != nil {
		return err
	}
	if err := t.writeStatus("FULL LOAD"); err != nil {
		return err
	}
	return t.writeHistory()
}

// writeStatus writes the row of awsdms_status.
func (t *Task) writeStatus(status string) error {
	if !t.settings.StatusTableEnabled || t.conn == nil {
		return nil
	}
	now := pgTime(t.options.Clock())
	position := padded(t.applied)
	return t.putOwn(statusTable(), Update, []Datum{
		known("localhost.localdomain"), known(t.id), known(status), known(now), known("0"), known("0"), known("1"),
		known(position + ".NOW"), known(now), known(position + ".2." + position), known(now), known(now),
	})
}

// writeHistory writes a row of awsdms_history: the load has begun.
func (t *Task) writeHistory() error {
	if !t.settings.HistoryTableEnabled {
		return nil
	}
	return t.putOwn(historyTable(), Insert, []Datum{
		known("localhost.localdomain"), known(t.id), known("FULL LOAD"), known(pgTime(t.options.Clock())), known("0"), known("0"), known("0"), known("0"),
	})
}

// putOwn writes a row of the task's own tables. They count their own
// transactions, of one record each, and have no stream position.
func (t *Task) putOwn(table *Table, op Operation, row []Datum) error {
	previous := t.own
	t.own = RecordID{Transaction: previous.Transaction + 1, Record: 1}
	now := t.options.Clock()
	return t.putData(&Message{
		Table: table, Operation: op, Built: now, Row: row,
		Transaction: &Transaction{RecordID: t.own, Previous: previous, Committed: now},
	})
}

func known(text string) Datum { return Datum{State: Known, Text: text} }

func pgTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.999999") }
