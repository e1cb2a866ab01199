package transform_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"icehose/transform"
)

const binaryTables = `version: 1
database: shop
source: {engine: postgresql, position: postgres, nulls: included}
tables:
- source: public.t
  mode: changelog
  key: [k]
  columns:
  - {name: k, type: binary}
  - {name: v, type: binary}
  - {name: f, type: "fixed[3]"}
  - {name: s, type: string}
  - {name: m, type: binary, mask: sha256}
`

// Bytes stand in a row in the form that was asked for; texts, digests and the
// note of a key that changed do not change with it.
func TestBinaryForm(t *testing.T) {
	t.Parallel()
	hexadecimal := newTransformer(t, binaryTables, transform.Options{})
	encoded := newTransformer(t, binaryTables, transform.Options{Binary: transform.Base64})
	for length := range 20 {
		data := []byte(strings.Repeat("\x00\xff\xabz", 5))[:length]
		text := hex.EncodeToString(data)
		record := change("update", "t", `{"k":"0x01`+text+`","v":"0x`+text+`","f":"0x00ffab","s":"00ff","m":"0x00ff"}`, 1, `"before-image":{"k":"0x02`+text+`"}`)
		rows := make([]map[string]any, 2)
		for i, tr := range []*transform.Transformer{hexadecimal, encoded} {
			result := tr.Batch(records(record))[0]
			if result.Outcome != transform.Ok {
				t.Fatalf("%d bytes: %v", length, result.Reason)
			}
			if err := json.Unmarshal(result.Row.Data, &rows[i]); err != nil {
				t.Fatalf("%d bytes: %v: %s", length, err, result.Row.Data)
			}
		}
		want := map[string]any{
			"k": base64.StdEncoding.EncodeToString(append([]byte{1}, data...)), "v": base64.StdEncoding.EncodeToString(data), "f": "AP+r",
		}
		for name, value := range rows[0] {
			if other, ok := want[name]; ok {
				value = other
			}
			if rows[1][name] != value {
				t.Errorf("%d bytes, column %s: got %v, want %v", length, name, rows[1][name], value)
			}
		}
		if rows[0]["v"] != text || len(rows[0]) != len(rows[1]) {
			t.Errorf("%d bytes: rows %v and %v", length, rows[0], rows[1])
		}
	}
	if _, err := transform.New(parsePipeline(t, binaryTables), transform.Options{Binary: "base32"}); err == nil {
		t.Error("a form that there is not was taken")
	}
}

// What a row says of bytes comes back in the form that keys have elsewhere.
func TestCanonicalText(t *testing.T) {
	t.Parallel()
	columns := newTransformer(t, binaryTables, transform.Options{}).Tables()[0].Columns
	for _, test := range []struct {
		column int
		form   transform.BinaryForm
		text   string
		want   string // empty for an error
	}{
		{0, transform.Base64, "AP+r", "00ffab"},
		{2, transform.Base64, "AP+r", "00ffab"},
		{0, transform.Hexadecimal, "00ff", "00ff"},
		{0, "", "00ff", "00ff"},
		{3, transform.Base64, "AP+r", "AP+r"},
		{4, transform.Base64, "00ff", "00ff"},
		{0, transform.Base64, "0f!", ""},
	} {
		got, err := newTransformer(t, binaryTables, transform.Options{Binary: test.form}).CanonicalText(columns[test.column], test.text)
		if got != test.want || (err != nil) != (test.want == "") || err != nil && strings.Contains(err.Error(), test.text) {
			t.Errorf("%+v: got %q, %v", test, got, err)
		}
	}
}
