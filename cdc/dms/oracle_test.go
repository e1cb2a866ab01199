package dms_test

import (
	"bytes"
	"encoding/json"
	"math/big"
	"reflect"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"icehose/cdc"
	"icehose/cdc/dms"
)

var (
	otherEscape   = regexp.MustCompile(`\\[^u]`)
	surrogatePair = regexp.MustCompile(`(?i)\\ud[89ab]..\\ud[c-f]..`)
	surrogate     = regexp.MustCompile(`(?i)\\ud[89a-f]`)
	digits        = regexp.MustCompile(`^[0-9]{1,40}$`)
	instantForm   = regexp.MustCompile(`^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(\.\d{1,9})?(?:(Z)|([+-](?:[01]\d|2[0-3])):?([0-5]\d)|([+-](?:[01]\d|2[0-3])))$`)
)

// An image is a change as encoding/json sees it: columns by name with the last
// of a repeated one, numbers as their text.
type image struct {
	Operation          string
	ControlName        string
	Control            any
	HasControl         bool
	Schema, Table      string
	Data, Before       map[string]any
	BuiltAt, Committed time.Time
	Transaction        string
	Record             string
	Prev               string
	StreamPosition     string
	KeyType, KeyValue  string
}

// oracle decodes a record by the rules of the package comment, on top of
// encoding/json alone. ok is false for a record that must be refused.
func oracle(record []byte, s dms.Settings) (image, bool) {
	if !json.Valid(record) || !utf8.Valid(record) || depth(record) > 64 {
		return image{}, false
	}
	top, ok := parse(record).(map[string]any)
	if !ok {
		return image{}, false
	}
	meta, ok := top["metadata"].(map[string]any)
	if !ok {
		return image{}, false
	}
	m := image{}
	for _, f := range []struct {
		name string
		to   *string
	}{{"schema-name", &m.Schema}, {"table-name", &m.Table}, {"operation", &m.Operation}, {"record-type", &m.ControlName}} {
		text, isText := meta[f.name].(string)
		if !isText && meta[f.name] != nil {
			return image{}, false
		}
		*f.to = text
	}
	m.KeyType, m.KeyValue = scalar(meta, "partition-key-type"), scalar(meta, "partition-key-value")
	m.StreamPosition = scalar(meta, "stream-position")
	m.BuiltAt, m.Committed = instantOf(meta["timestamp"]), instantOf(meta["commit-timestamp"])
	m.Transaction, m.Record = integer(meta["transaction-id"]), integer(meta["transaction-record-id"])
	if a, b := integer(meta["prev-transaction-id"]), integer(meta["prev-transaction-record-id"]); a != "" && b != "" {
		m.Prev = a + "/" + b
	}
	recordType, word := m.ControlName, m.Operation
	m.ControlName = ""
	isData := word == "load" || word == "insert" || word == "update" || word == "delete"
	row, _ := top["data"].(map[string]any)
	switch {
	case recordType == "" && !isData && len(row) > 0:
		return image{}, false
	case recordType == "control", recordType == "" && !isData && word != "":
		m.Operation, m.ControlName = "control", word
		m.Control = top["control"]
		m.HasControl = m.Control != nil
		return m, true
	case !isData, recordType != "" && recordType != "data", m.Table == "":
		return image{}, false
	}
	if m.Data, ok = top["data"].(map[string]any); !ok {
		return image{}, false
	}
	before := top[s.BeforeImage]
	if m.Before, ok = before.(map[string]any); !ok && before != nil {
		return image{}, false
	}
	for name, value := range m.Data {
		if s.BeforePrefix != "" && strings.HasPrefix(name, s.BeforePrefix) {
			if m.Before == nil {
				m.Before = map[string]any{}
			}
			m.Before[name[len(s.BeforePrefix):]] = value
			delete(m.Data, name)
		}
	}
	return m, true
}

// parse decodes valid JSON, keeping numbers as text.
func parse(text []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return err
	}
	return v
}

// depth counts how deep valid JSON is nested.
func depth(text []byte) (deepest int) {
	level, inString := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			level++
			deepest = max(deepest, level)
		case c == '}' || c == ']':
			level--
		}
	}
	return deepest
}

// scalar is the text of a string or number, "" for null and missing. The raw
// JSON that objects and arrays keep is not compared.
func scalar(meta map[string]any, name string) string {
	switch v := meta[name].(type) {
	case string:
		if strings.HasPrefix(v, "{") || strings.HasPrefix(v, "[") {
			return "composite"
		}
		return v
	case json.Number:
		return v.String()
	case bool:
		if v {
			return "true"
		}
		return "false"
	case nil:
		return ""
	}
	return "composite"
}

func integer(v any) string {
	var text string
	switch v := v.(type) {
	case string:
		text = v
	case json.Number:
		text = v.String()
	}
	if !digits.MatchString(text) {
		return ""
	}
	n, _ := new(big.Int).SetString(text, 10)
	if !n.IsUint64() {
		return ""
	}
	return n.String()
}

func instantOf(v any) time.Time {
	text, _ := v.(string)
	m := instantForm.FindStringSubmatch(text)
	if m == nil {
		return time.Time{}
	}
	zone := m[4]
	switch {
	case m[5] != "":
		zone = m[5] + ":" + m[6]
	case m[7] != "":
		zone = m[7] + ":00"
	}
	t, err := time.Parse(time.RFC3339, m[1]+"T"+m[2]+m[3]+zone)
	if t = t.UTC(); err != nil || t.Year() < 1 || t.Year() > 9999 {
		return time.Time{}
	}
	return t.Truncate(time.Microsecond)
}

// imageOf brings a decoded change into the form of the oracle.
func imageOf(t rapid.TB, c *cdc.Change) image {
	t.Helper()
	m := image{
		Operation: c.Operation.String(), ControlName: c.ControlName, Schema: c.Schema, Table: c.Table,
		BuiltAt: c.BuiltAt, Committed: c.CommittedAt, StreamPosition: c.StreamPosition,
		KeyType: c.PartitionKeyType, KeyValue: c.PartitionKeyValue,
	}
	number := func(n uint64, has bool) string {
		if !has {
			return ""
		}
		return new(big.Int).SetUint64(n).String()
	}
	m.Transaction = number(c.TransactionID, c.HasTransactionID)
	m.Record = number(c.TransactionRecordID, c.HasRecordID)
	if c.HasPrev {
		m.Prev = number(c.PrevTransactionID, true) + "/" + number(c.PrevRecordID, true)
	}
	for _, text := range []*string{&m.StreamPosition, &m.KeyType, &m.KeyValue} {
		if strings.HasPrefix(*text, "{") || strings.HasPrefix(*text, "[") {
			*text = "composite"
		}
	}
	if c.ControlBody != nil {
		m.Control, m.HasControl = parse(c.ControlBody), true
	}
	if c.Operation != cdc.Control {
		m.Data = columns(t, c.Data)
	}
	if c.HasBefore {
		m.Before = columns(t, c.Before)
	}
	return m
}

func columns(t rapid.TB, fields cdc.Fields) map[string]any {
	t.Helper()
	m := map[string]any{}
	for _, f := range fields {
		v := f.Value
		switch v.Kind {
		case cdc.Null:
			m[string(f.Name)] = nil
		case cdc.Bool:
			m[string(f.Name)] = string(v.Raw) == "true"
		case cdc.Number:
			m[string(f.Name)] = json.Number(v.Raw)
		case cdc.String:
			text, ok := v.AppendText(nil)
			if ok == loneSurrogate(v.Raw) {
				t.Errorf("AppendText of %q said %v", v.Raw, ok)
			}
			m[string(f.Name)] = string(text)
		case cdc.Object, cdc.Array:
			m[string(f.Name)] = parse(v.Raw)
		case cdc.Missing:
			t.Errorf("column %q is in the record and missing", f.Name)
		}
	}
	return m
}

// loneSurrogate reports whether a string has a surrogate escape without its
// other half. Other escapes are masked first, so that an escaped backslash is
// not taken for the beginning of one.
func loneSurrogate(raw []byte) bool {
	raw = otherEscape.ReplaceAll(raw, []byte("."))
	raw = surrogatePair.ReplaceAll(raw, []byte("."))
	return surrogate.Match(raw)
}

// agree decodes a record both ways, into a change that holds another record
// already, and reports where they differ.
func agree(t rapid.TB, record []byte, s dms.Settings) {
	t.Helper()
	d := dms.New(s)
	var c cdc.Change
	if err := d.Decode([]byte(full), &c); err != nil {
		t.Fatal(err)
	}
	got := decode(t, d, record, &c)
	want, ok := oracle(record, s)
	if ok != (got != nil) {
		t.Fatalf("record %q: accepted %v, oracle %v", record, got != nil, ok)
	}
	if got == nil {
		return
	}
	if !reflect.DeepEqual(&want, got) { // cmp.Diff takes exponential time on nested lists
		t.Errorf("record %q:\noracle %+v\ngot    %+v", record, want, *got)
	}
}

// decode returns nil for a refused record, whose error it checks.
func decode(t rapid.TB, d *dms.Decoder, record []byte, c *cdc.Change) *image {
	t.Helper()
	if err := d.Decode(record, c); err != nil {
		checkError(t, err, record)
		return nil
	}
	m := imageOf(t, c)
	return &m
}

// full has every part that a change can have.
const full = `{"data":{"a":1,"BI_a":2},"before-image":{"a":0},"control":{"x":1},"metadata":{"timestamp":"2026-01-02T03:04:05.000006Z",
"record-type":"data","operation":"update","partition-key-type":"primary-key","partition-key-value":"s.t.1","schema-name":"s","table-name":"t",
"transaction-id":7,"transaction-record-id":8,"prev-transaction-id":5,"prev-transaction-record-id":6,"commit-timestamp":"2026-01-02T03:04:04Z",
"stream-position":"00000001/00000002.3.00000004/00000005"}}`
