package dmssim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

const (
	reportEvery = 10 * time.Second // well below the server's wal_sender_timeout
	shortWait   = 10 * time.Millisecond

	receiveAtMost = 2000 // messages in one go
)

// startStreaming begins to receive changes, from the start of the slot.
func (t *Task) startStreaming(ctx context.Context) error {
	if t.streaming {
		return nil
	}
	names := make([]string, len(t.publications))
	for i, name := range t.publications {
		names[i] = `"` + name + `"`
	}
	err := pglogrepl.StartReplication(ctx, t.replication, t.options.Slot, t.start, pglogrepl.StartReplicationOptions{
		PluginArgs: []string{"proto_version '1'", "publication_names '" + strings.Join(names, ",") + "'"},
	})
	if err != nil {
		return fmt.Errorf("start replication: %w", err)
	}
	t.streaming = true
	return nil
}

// CatchUp writes every change that committed before lsn, which is at most
// what the server has flushed.
func (t *Task) CatchUp(ctx context.Context, lsn pglogrepl.LSN) error {
	if err := t.startStreaming(ctx); err != nil {
		return err
	}
	for t.applied < lsn {
		if err := t.report(ctx, true); err != nil {
			return err
		}
		if _, err := t.Receive(ctx, shortWait); err != nil {
			return err
		}
	}
	return nil
}

// Receive writes the changes that have arrived, until none arrives for the
// given time, or there were so many that the caller has to have a turn. It
// returns how many messages of the stream it took.
func (t *Task) Receive(ctx context.Context, wait time.Duration) (int, error) {
	if err := t.startStreaming(ctx); err != nil {
		return 0, err
	}
	n := 0
	for ; n < receiveAtMost; n++ {
		if err := ctx.Err(); err != nil {
			return n, fmt.Errorf("receive changes: %w", err)
		}
		if now := t.options.Clock(); now.Sub(t.reported) >= reportEvery {
			if err := t.report(ctx, false); err != nil {
				return n, err
			}
		}
		limited, cancel := context.WithTimeout(ctx, wait)
		message, err := t.replication.ReceiveMessage(limited)
		cancel()
		switch {
		case err != nil && pgconn.Timeout(err) && ctx.Err() == nil:
			return n, nil
		case err != nil:
			return n, fmt.Errorf("receive changes: %w", err)
		}
		if err := t.handle(ctx, message); err != nil {
			return n, fmt.Errorf("receive changes: %w", err)
		}
	}
	return n, nil
}

// report tells the server what was written, so that it can let go of its log.
func (t *Task) report(ctx context.Context, wantReply bool) error {
	t.reported = t.options.Clock()
	err := pglogrepl.SendStandbyStatusUpdate(ctx, t.replication, pglogrepl.StandbyStatusUpdate{
		WALWritePosition: t.applied, ClientTime: t.reported, ReplyRequested: wantReply,
	})
	if err != nil {
		return fmt.Errorf("report position: %w", err)
	}
	return nil
}

func (t *Task) handle(ctx context.Context, message pgproto3.BackendMessage) error {
	switch m := message.(type) {
	case *pgproto3.CopyData:
		return t.handleCopyData(ctx, m.Data)
	case *pgproto3.ErrorResponse:
		return pgconn.ErrorResponseToPgError(m)
	case *pgproto3.CopyDone:
		return errors.New("the server ended the stream")
	case *pgproto3.NoticeResponse, *pgproto3.ParameterStatus:
		return nil
	}
	return fmt.Errorf("message of unexpected type %T", message)
}

func (t *Task) handleCopyData(ctx context.Context, data []byte) error {
	if len(data) == 0 {
		return errors.New("empty message")
	}
	switch data[0] {
	case pglogrepl.PrimaryKeepaliveMessageByteID:
		k, err := pglogrepl.ParsePrimaryKeepaliveMessage(data[1:])
		if err != nil {
			return fmt.Errorf("parse keepalive: %w", err)
		}
		if !t.inTransaction {
			t.applied = max(t.applied, k.ServerWALEnd)
		}
		if k.ReplyRequested {
			return t.report(ctx, false)
		}
		return nil
	case pglogrepl.XLogDataByteID:
		x, err := pglogrepl.ParseXLogData(data[1:])
		if err != nil {
			return fmt.Errorf("parse log data: %w", err)
		}
		message, err := pglogrepl.Parse(x.WALData)
		if err != nil {
			return fmt.Errorf("parse log data: %w", err)
		}
		return t.apply(ctx, x.WALStart, message)
	}
	return fmt.Errorf("message of unexpected kind %q", data[0])
}

// apply writes what one message of the stream says.
func (t *Task) apply(ctx context.Context, lsn pglogrepl.LSN, message pglogrepl.Message) error {
	switch m := message.(type) {
	case *pglogrepl.BeginMessage:
		t.inTransaction = true
		t.transaction = Transaction{
			RecordID:  RecordID{Transaction: uint64(m.Xid)},
			Committed: m.CommitTime,
		}
		t.commitLSN = m.FinalLSN
	case *pglogrepl.CommitMessage:
		t.inTransaction = false
		t.applied = max(t.applied, m.TransactionEndLSN)
	case *pglogrepl.RelationMessage:
		return t.describe(ctx, m)
	case *pglogrepl.InsertMessage:
		return t.change(lsn, m.RelationID, Insert, m.Tuple, nil, 0)
	case *pglogrepl.UpdateMessage:
		return t.change(lsn, m.RelationID, Update, m.NewTuple, m.OldTuple, m.OldTupleType)
	case *pglogrepl.DeleteMessage:
		return t.change(lsn, m.RelationID, Delete, m.OldTuple, nil, m.OldTupleType)
	case *pglogrepl.OriginMessage, *pglogrepl.TypeMessage, *pglogrepl.TruncateMessage:
		// DMS writes nothing for any of them.
	default:
		return fmt.Errorf("log data of unexpected type %s", message.Type())
	}
	return nil
}

func (t *Task) change(lsn pglogrepl.LSN, id uint32, op Operation, row, old *pglogrepl.TupleData, oldType uint8) error {
	table, ok := t.relations[id]
	if !ok {
		return errors.New("a change before its table's description")
	}
	t.transaction.Record++
	transaction := t.transaction
	transaction.Previous = t.previous
	transaction.StreamPosition = t.settings.streamPosition(op, lsn, t.commitLSN)
	t.previous = transaction.RecordID
	data, err := datums(table, row, op == Delete && oldType == pglogrepl.DeleteMessageTupleTypeKey)
	if err != nil {
		return err
	}
	m := &Message{Table: table, Operation: op, Built: t.options.Clock(), Row: data, Transaction: &transaction}
	if old != nil {
		if m.Before, err = datums(table, old, oldType == pglogrepl.UpdateMessageTupleTypeKey); err != nil {
			return err
		}
	}
	return t.putData(m)
}

// streamPosition writes two log sequence numbers. What the number between
// them means is not known; captures have 3 on inserts and 2 elsewhere.
func (s *Settings) streamPosition(op Operation, record, commit pglogrepl.LSN) string {
	first, second := record, commit
	if s.LSNReading == CommitFirst {
		first, second = commit, record
	}
	middle := 2
	if op == Insert {
		middle = 3
	}
	return fmt.Sprintf("%s.%d.%s", padded(first), middle, padded(second))
}

func padded(lsn pglogrepl.LSN) string { return fmt.Sprintf("%08X/%08X", uint32(lsn>>32), uint32(lsn)) }

// datums reads a tuple. In a tuple that holds the key only, a null says
// nothing.
func datums(table *Table, tuple *pglogrepl.TupleData, keyOnly bool) ([]Datum, error) {
	if tuple == nil || len(tuple.Columns) != len(table.Columns) {
		return nil, fmt.Errorf("a change of %s does not have the table's columns", table.FullName())
	}
	out := make([]Datum, len(tuple.Columns))
	for i, c := range tuple.Columns {
		switch c.DataType {
		case pglogrepl.TupleDataTypeText:
			out[i] = Datum{State: Known, Text: string(c.Data)}
		case pglogrepl.TupleDataTypeToast:
			out[i] = Datum{State: Unchanged}
		case pglogrepl.TupleDataTypeNull:
			if out[i].State = Null; keyOnly {
				out[i].State = Unknown
			}
		default:
			return nil, fmt.Errorf("a value of %s has unexpected format %q", table.FullName(), c.DataType)
		}
	}
	return out, nil
}

// describe takes note of a table's columns, and writes control records when
// they are not what they were.
func (t *Task) describe(ctx context.Context, m *pglogrepl.RelationMessage) error {
	table := &Table{Schema: m.Namespace, Name: m.RelationName}
	known := t.knownTable(m)
	for _, c := range m.Columns {
		column, err := describeColumn(ctx, t.conn, c.Name, c.DataType, c.TypeModifier)
		if err != nil {
			return err
		}
		column.Nullable = true
		if known != nil {
			if i := known.column(c.Name); i >= 0 {
				column.Nullable = known.Columns[i].Nullable
			}
		}
		table.Columns = append(table.Columns, column)
	}
	if known != nil {
		table.Key = known.Key
	}
	t.relations[m.RelationID] = table
	if known == nil || !t.settings.IncludeTableAlterOperations {
		return nil
	}
	for _, op := range alterations(known, table) {
		if err := t.putControl(table, op); err != nil {
			return err
		}
	}
	return nil
}

// knownTable returns the table as it was before the message.
func (t *Task) knownTable(m *pglogrepl.RelationMessage) *Table {
	if table, ok := t.relations[m.RelationID]; ok {
		return table
	}
	i := slices.IndexFunc(t.tables, func(table *Table) bool { return table.Schema == m.Namespace && table.Name == m.RelationName })
	if i < 0 {
		return nil
	}
	return t.tables[i]
}

// alterations names what happened between two definitions of a table.
func alterations(was, is *Table) []Operation {
	var ops []Operation
	if was.FullName() != is.FullName() {
		ops = append(ops, RenameTable)
	}
	var gone, added []Column
	for _, c := range was.Columns {
		switch i := is.column(c.Name); {
		case i < 0:
			gone = append(gone, c)
		case is.Columns[i] != c:
			ops = append(ops, ColumnTypeChange)
		}
	}
	for _, c := range is.Columns {
		if was.column(c.Name) < 0 {
			added = append(added, c)
		}
	}
	if len(gone) == 1 && len(added) == 1 && len(was.Columns) == len(is.Columns) && was.column(gone[0].Name) == is.column(added[0].Name) {
		return append(ops, RenameColumn)
	}
	for range gone {
		ops = append(ops, DropColumn)
	}
	for range added {
		ops = append(ops, AddColumn)
	}
	return ops
}
