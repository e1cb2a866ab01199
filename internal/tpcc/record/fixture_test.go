package main_test

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"icehose/cdc/kinesis"
)

const fixture = "../../../testdata/events/tpcc"

// A message is a record as encoding/json reads it: these tests share no code
// with the decoder that the pipeline uses, nor with the writer of the records.
type message struct {
	Data     map[string]any `json:"data"`
	Before   map[string]any `json:"before-image"`
	Metadata struct {
		Timestamp    string `json:"timestamp"`
		RecordType   string `json:"record-type"`
		Operation    string `json:"operation"`
		KeyType      string `json:"partition-key-type"`
		Schema       string `json:"schema-name"`
		Table        string `json:"table-name"`
		Transaction  uint64 `json:"transaction-id"`
		Record       uint64 `json:"transaction-record-id"`
		Previous     uint64 `json:"prev-transaction-id"`
		PreviousRec  uint64 `json:"prev-transaction-record-id"`
		Committed    string `json:"commit-timestamp"`
		Position     string `json:"stream-position"`
		PartitionKey string `json:"partition-key-value"`
	} `json:"metadata"`
	Control struct {
		Table struct {
			Key []string `json:"primary-key"`
		} `json:"table-def"`
	} `json:"control"`
	record kinesis.Record
	lsn    [2]uint64 // first and second of the stream position
	keys   []string  // of the table
	id     string    // the row's key
}

// readOnce reads the fixture in file order.
var readOnce = sync.OnceValues(func() ([]*message, error) {
	file, err := kinesis.Open(filepath.Join(fixture, "events.ndjson.zst"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	var messages []*message
	keys := map[string][]string{}
	for record, err := range kinesis.Read(file) {
		if err != nil {
			return nil, err
		}
		m := &message{record: record}
		decoder := json.NewDecoder(bytes.NewReader(record.Data))
		decoder.UseNumber()
		if err := decoder.Decode(m); err != nil {
			return nil, fmt.Errorf("%s %s: %w", record.ShardID, record.SequenceNumber, err)
		}
		if m.Metadata.Position != "" {
			parts := strings.Split(m.Metadata.Position, ".")
			for i, text := range []string{parts[0], parts[2]} {
				if m.lsn[i], err = strconv.ParseUint(strings.Replace(text, "/", "", 1), 16, 64); err != nil {
					return nil, err
				}
			}
		}
		if m.Metadata.Operation == "create-table" {
			keys[m.table()] = m.Control.Table.Key
		}
		messages = append(messages, m)
	}
	for _, m := range messages { // changes may come before their table's create-table
		m.keys = keys[m.table()]
		m.id = m.key()
	}
	return messages, nil
})

func readMessages(t *testing.T) []*message {
	t.Helper()
	messages, err := readOnce()
	if err != nil {
		t.Fatal(err)
	}
	return messages
}

func (m *message) table() string { return m.Metadata.Schema + "." + m.Metadata.Table }

func (m *message) isChange() bool { return m.Metadata.Position != "" }

func (m *message) key() string {
	var key strings.Builder
	for _, column := range m.keys {
		fmt.Fprintf(&key, "%v|", m.Data[column])
	}
	return key.String()
}

// fold applies records in commit order, column by column, and returns rows by
// table and key. A row without a key gets one of its own.
func fold(messages []*message, commit int) map[string]map[string]map[string]any {
	ordered := slices.Clone(messages)
	slices.SortStableFunc(ordered, func(a, b *message) int {
		switch {
		case !a.isChange() && !b.isChange():
			return cmp.Compare(a.Metadata.Timestamp, b.Metadata.Timestamp)
		case a.isChange() != b.isChange():
			if a.isChange() {
				return 1
			}
			return -1
		}
		return cmp.Or(cmp.Compare(a.lsn[commit], b.lsn[commit]), cmp.Compare(a.lsn[1-commit], b.lsn[1-commit]), cmp.Compare(a.Metadata.Record, b.Metadata.Record))
	})
	tables := map[string]map[string]map[string]any{}
	for n, m := range ordered {
		if m.Metadata.RecordType != "data" || m.Metadata.Schema == "" {
			continue
		}
		rows := tables[m.table()]
		if rows == nil {
			rows = map[string]map[string]any{}
			tables[m.table()] = rows
		}
		key := m.id
		if len(m.keys) == 0 {
			key = strconv.Itoa(n)
		}
		switch m.Metadata.Operation {
		case "delete":
			delete(rows, key)
		case "update":
			if rows[key] == nil {
				rows[key] = map[string]any{}
			}
			maps.Copy(rows[key], m.Data)
		default:
			rows[key] = m.Data
		}
	}
	return tables
}

var stamp = regexp.MustCompile(`^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(\.\d{6})?Z$`)

// render writes a row in a form that both sides have: PostgreSQL's text, with
// the blanks of char(n) gone.
func render(row map[string]any, padded map[string]bool) string {
	var line strings.Builder
	for _, column := range slices.Sorted(maps.Keys(row)) {
		text := "NULL"
		if value := row[column]; value != nil {
			text = fmt.Sprint(value)
			if m := stamp.FindStringSubmatch(text); m != nil {
				text = m[1] + " " + m[2] + strings.TrimRight(m[3], "0")
			}
			if padded[column] {
				text = strings.TrimRight(text, " ")
			}
			text = strconv.Quote(text)
		}
		fmt.Fprintf(&line, "%s=%s ", column, text)
	}
	return line.String()
}

// paddedColumns reads the char(n) columns from the schema. TPC-C's column
// names are unique over all tables.
func paddedColumns(t *testing.T) map[string]bool {
	t.Helper()
	schema, err := os.ReadFile(filepath.Join(fixture, "schema.sql"))
	if err != nil {
		t.Fatal(err)
	}
	columns := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^ +(\w+) character\(\d+\)`).FindAllStringSubmatch(string(schema), -1) {
		columns[m[1]] = true
	}
	if !columns["c_credit"] || columns["c_data"] {
		t.Fatalf("char(n) columns: %v", columns)
	}
	return columns
}

func readFinal(t *testing.T, table string, padded map[string]bool) []string {
	t.Helper()
	file, err := kinesis.Open(filepath.Join(fixture, "final", table+".ndjson.zst"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	var rows []string
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var row map[string]any
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, render(row, padded))
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(rows)
	return rows
}

// TestFoldIsFinal is the fixture's reason to be: its records, applied in
// commit order, are the rows that the source had in the end. Reading either
// log sequence number as the commit gives that order for each key.
func TestFoldIsFinal(t *testing.T) {
	messages := readMessages(t)
	padded := paddedColumns(t)
	for commit, name := range []string{"first is the commit", "second is the commit"} {
		t.Run(name, func(t *testing.T) {
			tables := fold(messages, commit)
			if len(tables) != 9 {
				t.Errorf("%d tables, want nine", len(tables))
			}
			for table, rows := range tables {
				var got []string
				for _, row := range rows {
					got = append(got, render(row, padded))
				}
				slices.Sort(got)
				want := readFinal(t, table, padded)
				if !slices.Equal(want, got) {
					t.Errorf("%s (-final +folded):\n%.2000s", table, gocmp.Diff(want, got))
				}
			}
		})
	}
}

func TestManifestCounts(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(fixture, "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		Records int                       `json:"records"`
		Data    int                       `json:"data_records"`
		Shards  int                       `json:"shards"`
		Counts  map[string]map[string]int `json:"counts"`
		Final   map[string]int            `json:"final_rows"`
	}
	if err := json.Unmarshal(text, &manifest); err != nil {
		t.Fatal(err)
	}
	messages := readMessages(t)
	counts, data, final := map[string]map[string]int{}, 0, map[string]int{}
	for _, m := range messages {
		if counts[m.table()] == nil {
			counts[m.table()] = map[string]int{}
		}
		counts[m.table()][m.Metadata.Operation]++
		if m.Metadata.RecordType == "data" {
			data++
		}
	}
	for table, rows := range fold(messages, 1) {
		final[table] = len(rows)
	}
	if diff := gocmp.Diff(manifest.Counts, counts); diff != "" {
		t.Errorf("records by table and operation (-manifest +file):\n%s", diff)
	}
	if diff := gocmp.Diff(manifest.Final, final); diff != "" {
		t.Errorf("final rows (-manifest +file):\n%s", diff)
	}
	if manifest.Records != len(messages) || manifest.Data != data {
		t.Errorf("%d records, %d of them data; the manifest says %d and %d", len(messages), data, manifest.Records, manifest.Data)
	}
}

// TestStreamOrder checks what Kinesis guarantees.
func TestStreamOrder(t *testing.T) {
	last := map[string]kinesis.Record{}
	for _, m := range readMessages(t) {
		r := m.record
		if want := fmt.Sprintf("shardId-%012d", kinesis.ShardOf(r.PartitionKey, 4)); r.ShardID != want {
			t.Fatalf("a record of %s is in %s, want %s", m.table(), r.ShardID, want)
		}
		before := last[r.ShardID]
		if len(r.SequenceNumber) != 56 || r.SequenceNumber <= before.SequenceNumber || r.ArrivedAt < before.ArrivedAt {
			t.Fatalf("%s: record %s at %d comes after %s at %d", r.ShardID, r.SequenceNumber, r.ArrivedAt, before.SequenceNumber, before.ArrivedAt)
		}
		last[r.ShardID] = r
	}
	if len(last) != 4 {
		t.Errorf("records are in %d shards, want four", len(last))
	}
}

// TestHardships counts what the fixture has to have for the pipeline's tests
// to mean something.
func TestHardships(t *testing.T) {
	seen := map[string]int{}
	loaded, changed, loadShards, keyShards := map[string]int{}, map[string]bool{}, map[string]string{}, map[string]string{}
	var transaction uint64
	var previous *message
	for _, m := range readMessages(t) {
		id := m.table() + " " + m.id
		switch {
		case m.Metadata.Schema == "":
			continue
		case m.Metadata.Operation == "load":
			if loaded[id]++; loaded[id] > 1 && len(m.keys) > 0 {
				seen["loaded again after a restart"]++
			}
			if changed[id] {
				seen["load after a change of its row"]++
			}
			loadShards[id] = m.record.ShardID
			continue
		case !m.isChange():
			continue
		}
		changed[id] = true
		if m.Metadata.Transaction < transaction {
			seen["transaction ids against commit order"]++
		}
		transaction = m.Metadata.Transaction
		if previous != nil && (m.Metadata.Previous != previous.Metadata.Transaction || m.Metadata.PreviousRec != previous.Metadata.Record) {
			t.Errorf("%d/%d does not follow the record before it", m.Metadata.Transaction, m.Metadata.Record)
		}
		previous = m
		if shard, ok := loadShards[id]; ok && shard != m.record.ShardID {
			seen["load and change in different shards: "+m.table()]++
		}
		if shard, ok := keyShards[id]; ok && shard != m.record.ShardID && len(m.keys) > 0 {
			t.Errorf("two changes of one row of %s are in two shards", m.table())
		}
		keyShards[id] = m.record.ShardID
		if _, ok := m.Data["c_data"]; !ok && m.table() == "public.customer" {
			seen["update without c_data"]++
		}
		if m.Metadata.Operation == "delete" {
			seen["delete"]++
		}
	}
	for what, least := range map[string]int{
		"loaded again after a restart": 400, "load after a change of its row": 500, "transaction ids against commit order": 500,
		"load and change in different shards: public.district": 500, "load and change in different shards: public.warehouse": 500,
		"update without c_data": 1000, "delete": 1000,
	} {
		if seen[what] < least {
			t.Errorf("%s: %d times, want at least %d", what, seen[what], least)
		}
	}
}
