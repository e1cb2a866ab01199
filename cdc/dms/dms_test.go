package dms_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"icehose/cdc"
	"icehose/cdc/dms"
)

// checkError holds what every error of Decode promises: its type, an offset
// inside the record and a reason of plain words, which no value could be.
func checkError(t rapid.TB, err error, record []byte) {
	t.Helper()
	var decodeError *cdc.DecodeError
	if !errors.As(err, &decodeError) {
		t.Fatalf("error %T is not a DecodeError", err)
	}
	if decodeError.Offset < 0 || decodeError.Offset > len(record) {
		t.Errorf("offset %d of a record of %d bytes", decodeError.Offset, len(record))
	}
	if !reasons[decodeError.Reason] {
		t.Errorf("reason %q is not one of the closed list", decodeError.Reason)
	}
}

// reasons is the closed list of reasons.
var reasons = map[string]bool{
	"empty record": true, "record is not a JSON object": true, "data after the record": true, "record ends too early": true,
	"expected a value": true, "expected a key": true, "expected a colon": true,
	"expected a comma or the end of the object or array": true, "malformed number": true, "unterminated string": true,
	"malformed escape": true, "control character in a string": true, "invalid UTF-8": true, "nested too deeply": true,
	"no metadata": true, "metadata is not an object": true, "data record without data": true, "data is not an object": true,
	"before-image is not an object": true, "data record without a table name": true,
	"record-type is neither data nor control": true, "record-type is not a string": true,
	"operation is not one of a data record": true, "neither record-type control nor an operation": true,
	"operation is not a string": true, "schema-name is not a string": true, "table-name is not a string": true,
}

const meta = `"metadata":{"operation":"insert","record-type":"data","table-name":"t"}`

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, test := range []struct {
		name, in string
		offset   int
		reason   string
	}{
		{"nothing", "", 0, "empty record"},
		{"space", " \t\r\n", 4, "empty record"},
		{"array", `[1]`, 0, "record is not a JSON object"},
		{"byte order mark", "\xef\xbb\xbf{}", 0, "record is not a JSON object"},
		{"NUL", "\x00", 0, "record is not a JSON object"},
		{"two records", `{"data":{},` + meta + `}{`, 83, "data after the record"},
		{"NUL after", `{"data":{},` + meta + "}\x00", 83, "data after the record"},
		{"open", `{`, 1, "record ends too early"},
		{"cut in a key", `{"da`, 4, "unterminated string"},
		{"cut after a key", `{"data"`, 7, "record ends too early"},
		{"cut in data", `{"data":{"a":1`, 14, "record ends too early"},
		{"cut in a number", `{"data":{"a":-`, 14, "record ends too early"},
		{"cut in an array", `{"data":{"a":[1,`, 16, "record ends too early"},
		{"no value", `{"data":}`, 8, "expected a value"},
		{"bare word", `{"data":{"a":NaN}}`, 13, "expected a value"},
		{"half a word", `{"data":{"a":tru`, 13, "expected a value"},
		{"comma last in an array", `{"data":{"a":[1,]}}`, 16, "expected a value"},
		{"comma last", `{"data":{"a":1,}}`, 15, "expected a key"},
		{"comma first", `{,}`, 1, "expected a key"},
		{"key is a number", `{1:2}`, 1, "expected a key"},
		{"inner key is a number", `{"data":{"a":{1:2}}}`, 14, "expected a key"},
		{"no colon", `{"data" {}}`, 8, "expected a colon"},
		{"inner without colon", `{"data":{"a":{"b" 1}}}`, 18, "expected a colon"},
		{"no comma", `{"data":{"a":1 "b":2}}`, 15, "expected a comma or the end of the object or array"},
		{"wrong bracket", `{"data":{"a":[1}}}`, 15, "expected a comma or the end of the object or array"},
		{"leading zero", `{"data":{"a":012}}`, 14, "expected a comma or the end of the object or array"},
		{"leading zero far from the end", `{"data":{"a":012,"b":"something more"}}`, 14, "expected a comma or the end of the object or array"},
		{"plus", `{"data":{"a":+1}}`, 13, "expected a value"},
		{"point only", `{"data":{"a":1.}}`, 15, "malformed number"},
		{"exponent only", `{"data":{"a":1e+}}`, 16, "malformed number"},
		{"minus only", `{"data":{"a":-}}`, 14, "malformed number"},
		{"unterminated", `{"data":{"a":"xxxxxxxxxxxxxxxxxxxxxxx`, 37, "unterminated string"},
		{"unterminated after a backslash", `{"data":{"a":"\`, 14, "malformed escape"},
		{"unknown escape", `{"data":{"a":"\x41"}}`, 14, "malformed escape"},
		{"escape of no digits", `{"data":{"a":"\ug000"}}`, 14, "malformed escape"},
		{"escape of one digit", `{"data":{"a":"\u0g00"}}`, 14, "malformed escape"},
		{"escape of two digits", `{"data":{"a":"\u00:0"}}`, 14, "malformed escape"},
		{"escape of three digits", `{"data":{"a":"\u000g"}}`, 14, "malformed escape"},
		{"escape cut short", `{"data":{"a":"\u000`, 14, "malformed escape"},
		{"line feed", "{\"data\":{\"a\":\"12345678\n\"}}", 22, "control character in a string"},
		{"NUL in a string", "{\"data\":{\"a\":\"\x00\"}}", 14, "control character in a string"},
		{"continuation byte", "{\"data\":{\"a\":\"12345678\x80\"}}", 22, "invalid UTF-8"},
		{"encoded surrogate", "{\"data\":{\"a\":\"\xed\xa0\x80\"}}", 14, "invalid UTF-8"},
		{"overlong", "{\"data\":{\"a\":\"\xc0\xaf\"}}", 14, "invalid UTF-8"},
		{"cut rune", "{\"data\":{\"a\":\"é\xf0\x9f\"}}", 16, "invalid UTF-8"},
		{"65 levels", `{"data":{"a":` + strings.Repeat("[", 63) + strings.Repeat("]", 63) + `}}`, 75, "nested too deeply"},
		{"deep in metadata", `{"metadata":{"a":` + strings.Repeat(`{"a":`, 100000), 327, "nested too deeply"},
		{"deep beside", `{"x":` + strings.Repeat("[", 1<<20), 68, "nested too deeply"},
		{"no metadata", `{"data":{}}`, 11, "no metadata"},
		{"metadata null", `{"metadata":null}`, 12, "metadata is not an object"},
		{"metadata array", `{"metadata": [1]}`, 13, "metadata is not an object"},
		{"later metadata is no object", `{` + meta + `,"metadata":"x"}`, 84, "metadata is not an object"},
		{"no data", `{` + meta + `}`, 73, "data record without data"},
		{"data null", `{"data": null,` + meta + `}`, 9, "data is not an object"},
		{"data array", `{"data":[],` + meta + `}`, 8, "data is not an object"},
		{"later data is no object", `{"data":{"a":1},"data":1,` + meta + `}`, 23, "data is not an object"},
		{"before-image array", `{"before-image":[],"data":{},` + meta + `}`, 16, "before-image is not an object"},
		{"no table", `{"data":{},"metadata":{"operation":"load"}}`, 22, "data record without a table name"},
		{"table null", `{"data":{},"metadata":{"operation":"load","table-name":null}}`, 22, "data record without a table name"},
		{"table number", `{"data":{},"metadata":{"operation":"load","table-name":1}}`, 55, "table-name is not a string"},
		{"schema object", `{"data":{},"metadata":{"operation":"load","schema-name":{}}}`, 56, "schema-name is not a string"},
		{"unknown record type", `{"metadata":{"record-type":"note","operation":"load"}}`, 27, "record-type is neither data nor control"},
		{"record type number", `{"metadata":{"record-type":1}}`, 27, "record-type is not a string"},
		{"unknown operation of data", `{"metadata":{"record-type":"data","operation":"truncate"}}`, 46, "operation is not one of a data record"},
		{"unknown operation beside a row", `{"data":{"id":1},"metadata":{"operation":"UPDATE","table-name":"t"}}`, 28, "operation is not one of a data record"},
		{"data without an operation", `{"metadata":{"record-type":"data"}}`, 12, "operation is not one of a data record"},
		{"neither type nor operation", `{"metadata":{}}`, 12, "neither record-type control nor an operation"},
		{"operation number", `{"metadata":{"operation":5}}`, 25, "operation is not a string"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var c cdc.Change
			err := dms.New(dms.Settings{}).Decode([]byte(test.in), &c)
			if err == nil {
				t.Fatal("accepted")
			}
			checkError(t, err, []byte(test.in))
			want := &cdc.DecodeError{Offset: test.offset, Reason: test.reason}
			if diff := cmp.Diff(error(want).Error(), err.Error()); diff != "" {
				t.Error(diff)
			}
			seen[test.reason] = true
		})
	}
	for reason := range reasons {
		if !seen[reason] {
			t.Errorf("no record is refused because of %q", reason)
		}
	}
}

func TestDecodeAccepts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, in string
		settings dms.Settings
		want     string
	}{
		{
			"keys with escapes", `{"d\u0061ta":{"\u0061\ud83d\ude00":"x"},"metadat\u0061":{"operat\u0069on":"in\u0073ert","table-name":"t\u00e9"}}`,
			dms.Settings{},
			"insert .té a😀=string:x",
		},
		{
			"last of repeated keys", `{"data":{"a":0},"before-image":{"z":1},"metadata":{"operation":"load","table-name":"x","schema-name":"gone"},` +
				`"before-image":null,"data":{"a":1,"b":2,"a":3},"metadata":{"operation":"load","operation":"delete","table-name":"t"}}`,
			dms.Settings{},
			"delete .t a=number:1 b=number:2 a=number:3",
		},
		{
			"configured before-image", `{"old":{"a":1},"before-image":{"b":1},"data":{"a":2},` + meta + `}`,
			dms.Settings{BeforeImage: "old"},
			"insert .t a=number:2 before a=number:1",
		},
		{
			"prefix not configured", `{"data":{"a":2,"BI_a":1},` + meta + `}`,
			dms.Settings{},
			"insert .t a=number:2 BI_a=number:1",
		},
		{
			"both forms of before-image", `{"before-image":{"a":1},"data":{"BI_b":2,"c":3,"BI_":4,"BI":5},` + meta + `}`,
			dms.Settings{BeforePrefix: "BI_"},
			"insert .t c=number:3 BI=number:5 before a=number:1 b=number:2 =number:4",
		},
		{"64 levels", `{"data":{"a":` + strings.Repeat("[", 62) + strings.Repeat("]", 62) + `},` + meta + `}`, dms.Settings{}, "insert .t a=array:" + strings.Repeat("[", 62) + strings.Repeat("]", 62)},
		{"no column", `{"data":{},` + meta + `}`, dms.Settings{}, "insert .t"},
		{"four states", `{"data":{"null":null,"empty":"","space":" "},` + meta + `}`, dms.Settings{}, "insert .t null=null:null empty=string: space=string: "},
		{"control by operation", `{"metadata":{"operation":"drop-table","table-name":"t"}}`, dms.Settings{}, "control .t drop-table"},
		{"control by operation beside an empty row", `{"data":{},"metadata":{"operation":"restart"}}`, dms.Settings{}, "control . restart"},
		{"control by type", `{"metadata":{"record-type":"control"}}`, dms.Settings{}, "control ."},
		{"control called like data", `{"data":[],"before-image":7,"metadata":{"record-type":"control","operation":"insert"}}`, dms.Settings{}, "control . insert"},
		{"control body of any kind", `{"control": [ 1 ] ,"data":{"a":1},"before-image":{"b":2},"metadata":{"record-type":"control"}}`, dms.Settings{}, "control .  body [ 1 ]"},
		{"control body of data", `{"control":{},"data":{},` + meta + `}`, dms.Settings{}, "insert .t"},
		{"lone surrogate", `{"data":{"a":"\ud800x"},` + meta + `}`, dms.Settings{}, "insert .t a=string:\uFFFDx"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var c cdc.Change
			if err := dms.New(test.settings).Decode([]byte(test.in), &c); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, summary(&c)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func summary(c *cdc.Change) string {
	parts := []string{c.Operation.String(), c.Schema + "." + c.Table}
	if c.Operation == cdc.Control && (c.ControlName != "" || c.ControlBody != nil) {
		parts = append(parts, c.ControlName)
	}
	if c.ControlBody != nil {
		parts = append(parts, "body", string(c.ControlBody))
	}
	add := func(fields cdc.Fields) {
		for _, f := range fields {
			text, _ := f.Value.AppendText(nil)
			parts = append(parts, string(f.Name)+"="+f.Value.Kind.String()+":"+string(text))
		}
	}
	add(c.Data)
	if c.HasBefore {
		parts = append(parts, "before")
	}
	add(c.Before)
	return strings.Join(parts, " ")
}

func TestDecodeTimes(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]time.Time{
		"2026-02-03T04:05:06Z":             time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC),
		"2026-02-03T04:05:06.1Z":           time.Date(2026, 2, 3, 4, 5, 6, 100000000, time.UTC),
		"2026-02-03 04:05:06.123456789Z":   time.Date(2026, 2, 3, 4, 5, 6, 123456000, time.UTC),
		"2026-02-03T04:05:06.000001+02:30": time.Date(2026, 2, 3, 1, 35, 6, 1000, time.UTC),
		"2026-02-03T04:05:06-0100":         time.Date(2026, 2, 3, 5, 5, 6, 0, time.UTC),
		"2026-02-03T23:05:06-01":           time.Date(2026, 2, 4, 0, 5, 6, 0, time.UTC),
		"2024-02-29T00:00:00Z":             time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC),
		"9999-12-31T23:59:59.999999Z":      time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC),
		"9999-12-31T23:59:59-01:00":        {},
		"9999-12-31T23:00:00.999999-00:59": time.Date(9999, 12, 31, 23, 59, 0, 999999000, time.UTC),
		"0001-01-01T00:00:00.000001Z":      time.Date(1, 1, 1, 0, 0, 0, 1000, time.UTC),
		"0001-01-01T00:30:00+01:00":        {},
		"0000-12-31T23:59:59Z":             {},
		"0000-12-31T23:30:00-00:30":        time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC),
		"2026-02-29T00:00:00Z":             {},
		"2026-13-01T00:00:00Z":             {},
		"2026-00-01T00:00:00Z":             {},
		"2026-01-00T00:00:00Z":             {},
		"2026-01-01T24:00:00Z":             {},
		"2026-01-01T00:60:00Z":             {},
		"2026-01-01T00:00:60Z":             {},
		"2026-01-01T00:00:00":              {},
		"2026-01-01T00:00:00.Z":            {},
		"2026-01-01T00:00:00.1234567890Z":  {},
		"2026-01-01T00:00:00+1":            {},
		"2026-01-01T00:00:00+1:00":         {},
		"2026-01-01T00:00:00+24:00":        {},
		"2026-01-01T00:00:00+01:60":        {},
		"2026-01-01T00:00:00ZZ":            {},
		"0044-03-15T00:00:00 BC":           {},
		"2026-1-01T00:00:00.0Z":            {},
		"2026-01-01t00:00:00Z":             {},
		"1767225600":                       {},
		"":                                 {},
	} {
		record := `{"data":{},"metadata":{"operation":"load","table-name":"t","timestamp":"` + in + `","commit-timestamp":"` + in + `"}}`
		var c cdc.Change
		if err := dms.New(dms.Settings{}).Decode([]byte(record), &c); err != nil {
			t.Fatal(err)
		}
		if !c.BuiltAt.Equal(want) || !c.CommittedAt.Equal(want) {
			t.Errorf("%q: built %v, committed %v, want %v", in, c.BuiltAt, c.CommittedAt, want)
		}
	}
}

func TestDecodeTransactionNumbers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		in   string
		want uint64
		ok   bool
	}{
		{`0`, 0, true},
		{`"0"`, 0, true},
		{`18446744073709551615`, 1<<64 - 1, true},
		{`"18446744073709551615"`, 1<<64 - 1, true},
		{`"00000000000000000000012"`, 12, true},
		{`18446744073709551616`, 0, false},
		{`184467440737095516150`, 0, false},
		{`"` + strings.Repeat("0", 41) + `"`, 0, false},
		{`1.2e+18`, 0, false},
		{`12.0`, 0, false},
		{`-1`, 0, false},
		{`-0`, 0, false},
		{`"0000:000004a3"`, 0, false},
		{`"+1"`, 0, false},
		{`""`, 0, false},
		{`null`, 0, false},
		{`true`, 0, false},
		{`[1]`, 0, false},
	} {
		record := `{"data":{},"metadata":{"operation":"load","table-name":"t","transaction-id":` + test.in + `,"transaction-record-id":` + test.in +
			`,"prev-transaction-id":1,"prev-transaction-record-id":` + test.in + `}}`
		var c cdc.Change
		if err := dms.New(dms.Settings{}).Decode([]byte(record), &c); err != nil {
			t.Fatal(err)
		}
		if c.TransactionID != test.want || c.HasTransactionID != test.ok || c.TransactionRecordID != test.want || c.HasRecordID != test.ok ||
			c.PrevRecordID != test.want || c.HasPrev != test.ok || c.HasPrev != (c.PrevTransactionID == 1) {
			t.Errorf("%s: %+v", test.in, c)
		}
	}
}

// TestChangesOutliveTheNextDecode holds the promise that a batch may be
// decoded with one Decoder, each record into its own Change.
func TestChangesOutliveTheNextDecode(t *testing.T) {
	t.Parallel()
	d := dms.New(dms.Settings{})
	changes := make([]cdc.Change, 20000)
	record := func(i int) string {
		n := strings.Repeat("x", i%50)
		return `{"data":{"\u0061` + n + `":1},"metadata":{"operation":"load","table-name":"t` + n + `","stream-position":"\u0070` + n +
			`","partition-key-value":"k` + n + `"}}`
	}
	for i := range changes {
		if err := d.Decode([]byte(record(i)), &changes[i]); err != nil {
			t.Fatal(err)
		}
	}
	for i, c := range changes {
		n := strings.Repeat("x", i%50)
		if c.Table != "t"+n || c.StreamPosition != "p"+n || c.PartitionKeyValue != "k"+n || string(c.Data[0].Name) != "a"+n {
			t.Fatalf("change %d: %+v", i, c)
		}
	}
}

// TestManyNames decodes more names than the decoder keeps.
func TestManyNames(t *testing.T) {
	t.Parallel()
	d := dms.New(dms.Settings{})
	for i := range 10000 {
		table := strings.Repeat("n", 1+i%300) + string(rune('a'+i/300))
		var c cdc.Change
		if err := d.Decode([]byte(`{"data":{},"metadata":{"operation":"load","table-name":"`+table+`"}}`), &c); err != nil || c.Table != table {
			t.Fatalf("table %d: %q, %v", i, c.Table, err)
		}
	}
}

// TestAppendingToAValue shows that a value cannot grow over the record.
func TestAppendingToAValue(t *testing.T) {
	t.Parallel()
	record := []byte(`{"data":{"a":1,"b":"x"},` + meta + `}`)
	var c cdc.Change
	if err := dms.New(dms.Settings{}).Decode(record, &c); err != nil {
		t.Fatal(err)
	}
	before := string(record)
	for _, f := range c.Data {
		_ = append(f.Name, "!!!"...)
		_ = append(f.Value.Raw, "!!!"...)
	}
	if string(record) != before {
		t.Error("appending to a slice of the change wrote into the record")
	}
}
