package dms_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"icehose/cdc"
	"icehose/cdc/dms"
)

func settings() []dms.Settings {
	return []dms.Settings{{BeforeImage: "before-image"}, {BeforeImage: "old", BeforePrefix: "BI_"}}
}

// hostile are records that break decoders.
func hostile() []string {
	return []string{
		"", " ", "{", "}{", "{}{}", "\xef\xbb\xbf{}", "\x00", "null", "[]", full, full + full, full + "\n\n", full[:len(full)-1],
		`{"data":{"a":` + strings.Repeat("[", 62) + strings.Repeat("]", 62) + `},` + meta + `}`,
		`{"data":{"a":` + strings.Repeat(`{"a":`, 63) + `1` + strings.Repeat(`}`, 63) + `},` + meta + `}`,
		strings.Repeat("[", 100), strings.Repeat(`{"":`, 70),
		`{"data":{"a":"\ud800","b":"\udc00\ud800","c":"\ud83d\ude00","\ud800":1,"d":"\\ud800\u0000"},` + meta + `}`,
		`{"data":{"a":"` + "\xed\xa0\x80" + `"},` + meta + `}`, `{"data":{"a":"` + "\xf4\x90\x80\x80" + `"},` + meta + `}`,
		"{\"data\":{\"a\":\"\x00\"}," + meta + "}", "{\"data\":{\"a\x1f\":1}," + meta + "}", `{"data":{"a":"\u0000"},` + meta + `}`,
		`{"data":{"a":12345678901234567890123456789012345678,"b":-0,"c":1E-130,"d":1.10,"e":0e0,"f":-0.0E+00},` + meta + `}`,
		`{"data":{"a":01}}`, `{"data":{"a":1.}}`, `{"data":{"a":.5}}`, `{"data":{"a":1e}}`, `{"data":{"a":--1}}`, `{"data":{"a":0x1}}`, `{"data":{"a":Infinity}}`,
		`{"data":{"a":1,"a":2,"a":null},"data":{"b":1},"metadata":{},` + meta + `}`,
		`{"data":{"BI_a":1,"a":2,"BI_":3,"BI_a":4},"old":{"a":9},` + meta + `}`,
		`{"metadata":{"operation":"load","table-name":"t","timestamp":"2026-02-30T00:00:00Z","commit-timestamp":"2026-02-03 04:05:06.1+0130",` +
			`"transaction-id":"0018446744073709551615","transaction-record-id":1e3,"stream-position":48211990,"partition-key-value":[1]},"data":{}}`,
		`{"control":{"table-def":{"columns":{}}},"metadata":{"record-type":"control","operation":"create-table"}}`,
	}
}

// TestDecodeLargeRows: rows of a megabyte and more, of one value, of many, and
// of nothing but brackets. They are no seeds, because mutating them is slow.
func TestDecodeLargeRows(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("größer \\u00e9\n", 1<<16)
	for _, record := range []string{
		`{"data":{"` + text + `":"` + text + `"},` + meta + `}`,
		`{"data":{"a":"` + text + "\xff" + `"},` + meta + `}`,
		`{"data":{"a":"` + text + `},` + meta + `}`,
		`{"data":{"a":0` + strings.Repeat(`,"a":12345678901234567890.5`, 1<<15) + `},` + meta + `}`,
		`{"data":{"a":[0` + strings.Repeat(`,{"x":[]},"y"`, 1<<16) + `]},` + meta + `}`,
		`{"data":{"a":` + strings.Repeat("1", 1<<20) + `},` + meta + `}`,
		strings.Repeat("[", 1<<20), strings.Repeat(`{"":`, 1<<18), strings.Repeat(" ", 1<<20) + full + strings.Repeat("\n", 1<<20),
	} {
		for _, s := range settings() {
			agree(t, []byte(record), s)
		}
	}
}

// FuzzDecode holds the decoder against encoding/json: the same records are
// accepted, with the same values.
func FuzzDecode(f *testing.F) {
	for _, record := range hostile() {
		f.Add([]byte(record))
	}
	paths, err := filepath.Glob(filepath.Join(shapes, "*.json"))
	if err != nil || len(paths) == 0 {
		f.Fatalf("no shapes: %v", err)
	}
	for _, path := range paths {
		record, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(record)
	}
	f.Fuzz(func(t *testing.T, record []byte) {
		for _, s := range settings() {
			agree(t, record, s)
		}
	})
}

// TestDecodeAgrees is the same law over records that are made of the
// decoder's own vocabulary, so that most of them mean something, and over the
// same records with bytes changed.
func TestDecodeAgrees(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		record := []byte(drawObject(r, "record", 0))
		if rapid.IntRange(0, 3).Draw(r, "damage") == 0 {
			at := rapid.IntRange(0, len(record)-1).Draw(r, "at")
			record[at] = rapid.SampledFrom([]byte("{}[]\",:\\0-9eE.+u \x00\x80\xff")).Draw(r, "byte")
		}
		for _, s := range settings() {
			agree(r, record, s)
		}
	})
}

// TestDecoderRemembersNothing decodes records one after another, where each is
// a guess at the keys of the next, and alone.
func TestDecoderRemembersNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		for _, s := range settings() {
			d := dms.New(s)
			var c cdc.Change
			var record []byte
			for range rapid.IntRange(2, 6).Draw(r, "records") {
				switch next := []byte(drawObject(r, "record", 0)); {
				case len(record) > 0 && rapid.IntRange(0, 2).Draw(r, "damaged") == 0:
					record = bytes.Clone(record)
					at := rapid.IntRange(0, len(record)-1).Draw(r, "at")
					record[at] = rapid.SampledFrom([]byte("{}[]\",:\\0-9eE.+u a\x00\x80\xff")).Draw(r, "byte")
				default:
					record = next
				}
				var fresh cdc.Change
				got, want := d.Decode(record, &c), dms.New(s).Decode(record, &fresh)
				if fmt.Sprint(got) != fmt.Sprint(want) {
					r.Fatalf("record %q: %v, alone %v", record, got, want)
				}
				if got == nil && !reflect.DeepEqual(imageOf(r, &c), imageOf(r, &fresh)) {
					r.Fatalf("record %q: %+v, alone %+v", record, imageOf(r, &c), imageOf(r, &fresh))
				}
			}
		}
	})
}

// TestRowsOnly decodes everything but what is left out.
func TestRowsOnly(t *testing.T) {
	t.Parallel()
	var all, rows cdc.Change
	if err := dms.New(dms.Settings{}).Decode([]byte(full), &all); err != nil {
		t.Fatal(err)
	}
	if err := dms.New(dms.Settings{RowsOnly: true}).Decode([]byte(full), &rows); err != nil {
		t.Fatal(err)
	}
	if rows.PartitionKeyType != "" || rows.PartitionKeyValue != "" || rows.HasPrev {
		t.Errorf("left in: %q, %q, %v", rows.PartitionKeyType, rows.PartitionKeyValue, rows.HasPrev)
	}
	all.PartitionKeyType, all.PartitionKeyValue, all.HasPrev, all.PrevTransactionID, all.PrevRecordID = "", "", false, 0, 0
	if !reflect.DeepEqual(all, rows) {
		t.Errorf("want %+v, got %+v", all, rows)
	}
}

// TestManyKeys decodes more keys, and longer ones, than the decoder keeps.
func TestManyKeys(t *testing.T) {
	t.Parallel()
	d := dms.New(dms.Settings{})
	for i := range 10000 {
		name := fmt.Sprintf("%s%d", strings.Repeat("n", i%700), i/2)
		var c cdc.Change
		err := d.Decode([]byte(`{"data":{"`+name+`":1,"`+name+`x":2},`+meta+`}`), &c)
		if err != nil || len(c.Data) != 2 || string(c.Data[0].Name) != name || string(c.Data[1].Name) != name+"x" || string(c.Data[1].Value.Raw) != "2" {
			t.Fatalf("record %d: %+v, %v", i, c.Data, err)
		}
	}
}

// The vocabulary of generated records, by the object it stands in.
var vocabulary = map[string][]string{
	"record": {`"data"`, `"metadata"`, `"metadata"`, `"data"`, `"control"`, `"before-image"`, `"old"`, `"x"`, `"d\u0061ta"`},
	"metadata": {
		`"operation"`, `"operation"`, `"record-type"`, `"table-name"`, `"table-name"`, `"schema-name"`, `"timestamp"`, `"commit-timestamp"`, `"transaction-id"`,
		`"transaction-record-id"`, `"prev-transaction-id"`, `"prev-transaction-record-id"`, `"stream-position"`, `"partition-key-type"`,
		`"partition-key-value"`, `"attributes"`,
	},
	"data": {`"a"`, `"b"`, `"BI_a"`, `"BI_"`, `"B"`, `"é"`, `"\u0061"`, `""`},
}

func drawObject(r *rapid.T, kind string, depth int) string {
	keys := vocabulary[kind]
	if keys == nil {
		keys = vocabulary["data"]
	}
	var b strings.Builder
	space := func() {
		b.WriteString(rapid.SampledFrom([]string{"", "", "", " ", "\t", "\n", "\r\n"}).Draw(r, "space"))
	}
	space()
	b.WriteByte('{')
	size := rapid.IntRange(0, 6).Draw(r, "size")
	if kind == "record" {
		size += 2
	}
	for i := range size {
		if i > 0 {
			b.WriteByte(',')
		}
		key := rapid.SampledFrom(keys).Draw(r, "key")
		if kind == "record" && i < 2 {
			key = keys[i]
		}
		if kind == "metadata" && i < 3 {
			key = []string{`"operation"`, `"table-name"`, `"record-type"`}[i]
		}
		space()
		b.WriteString(key)
		space()
		b.WriteByte(':')
		space()
		b.WriteString(drawValue(r, kind, key, depth+1))
		space()
	}
	b.WriteByte('}')
	space()
	return b.String()
}

func drawValue(r *rapid.T, kind, key string, depth int) string {
	inner := strings.Trim(key, `"`)
	if kind == "record" && inner != "x" && inner != "control" && rapid.IntRange(0, 9).Draw(r, "object") > 0 {
		if inner != "metadata" {
			inner = "data"
		}
		return drawObject(r, inner, depth)
	}
	if kind == "metadata" && rapid.IntRange(0, 9).Draw(r, "expected") > 0 {
		switch inner {
		case "operation":
			return rapid.SampledFrom([]string{`"load"`, `"insert"`, `"update"`, `"delete"`, `"add-column"`, `"\u006coad"`}).Draw(r, "operation")
		case "record-type":
			return rapid.SampledFrom([]string{`"data"`, `"data"`, `"control"`, `""`, `"x"`, `null`}).Draw(r, "record-type")
		case "timestamp", "commit-timestamp":
			return `"` + rapid.StringMatching(`(19|20)[0-9][0-9]-[01][0-9]-[0-3][0-9][T ][0-2][0-9]:[0-5][0-9]:[0-6][0-9](\.[0-9]{0,10})?(Z|[+-][0-2][0-9]:?[0-6][0-9]|[+-][01][0-9])`).Draw(r, "time") + `"`
		}
	}
	if depth < 6 && rapid.IntRange(0, 9).Draw(r, "composite") == 0 {
		if rapid.Bool().Draw(r, "array") {
			return "[" + drawValue(r, "", "", depth+1) + "," + drawValue(r, "", "", depth+1) + "]"
		}
		return drawObject(r, "", depth)
	}
	return rapid.OneOf(
		rapid.SampledFrom([]string{"null", "true", "false", `""`, `"\ud83d\ude00\ud83d"`, `"\"\\\/\b\f\n\r\t\u00E9"`, "-0", "1E-130", "18446744073709551615", "18446744073709551616"}),
		rapid.StringMatching(`-?(0|[1-9][0-9]{0,40})(\.[0-9]{1,12})?([eE][+-]?[0-9]{1,3})?`),
		rapid.StringMatching(`"[0-9]{0,24}"`),
		rapid.StringMatching(`"([a-zé漢😀 ]|\\u[0-9a-fA-F]{4}|\\[nrt"\\/])*"`),
	).Draw(r, "value")
}
