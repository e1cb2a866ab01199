package cdc_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"icehose/cdc"
)

func stringValue(raw string) cdc.Value {
	return cdc.Value{Kind: cdc.String, Escaped: strings.Contains(raw, `\`), Raw: []byte(raw)}
}

func TestAppendText(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		in   cdc.Value
		want string
		ok   bool
	}{
		{stringValue(`""`), "", true},
		{stringValue(`"plain é"`), "plain é", true},
		{stringValue(`"\"\\\/\b\f\n\r\t"`), "\"\\/\b\f\n\r\t", true},
		{stringValue(`"\u0000"`), "\x00", true},
		{stringValue(`"\u00E9\u6f22"`), "é漢", true},
		{stringValue(`"\ud83d\uDE00"`), "😀", true},
		{stringValue(`"\\ud83d"`), `\ud83d`, true},
		{stringValue(`"\ufffd"`), "\uFFFD", true},
		{stringValue(`"\ud83d"`), "\uFFFD", false},
		{stringValue(`"a\ude00b"`), "a\uFFFDb", false},
		{stringValue(`"\ud83d\u0041"`), "\uFFFDA", false},
		{stringValue(`"\ud83d\ud83d\ude00"`), "\uFFFD😀", false},
		{stringValue(`"\ud83d\n"`), "\uFFFD\n", false},
		{cdc.Value{Kind: cdc.Number, Raw: []byte("1.10")}, "1.10", true},
		{cdc.Value{Kind: cdc.Null, Raw: []byte("null")}, "null", true},
		{cdc.Value{Kind: cdc.Array, Raw: []byte(`["\ud800"]`)}, `["\ud800"]`, true},
		{cdc.Value{}, "", true},
	} {
		got, ok := test.in.AppendText([]byte(">"))
		if string(got) != ">"+test.want || ok != test.ok {
			t.Errorf("%s: got %q, %v", test.in.Raw, got, ok)
		}
	}
}

// TestAppendTextAgrees compares with encoding/json over strings made of
// escapes, halves of surrogate pairs and plain text.
func TestAppendTextAgrees(t *testing.T) {
	t.Parallel()
	piece := rapid.OneOf(
		rapid.StringMatching(`[a-z é漢😀u/]{0,3}`),
		rapid.StringMatching(`\\["\\/bfnrt]`),
		rapid.StringMatching(`\\u[dD][89abAB][0-9a-fA-F]{2}`),
		rapid.StringMatching(`\\u[dD][c-fC-F][0-9a-fA-F]{2}`),
		rapid.StringMatching(`\\u[0-9a-cA-C][0-9a-fA-F]{3}`),
	)
	rapid.Check(t, func(t *rapid.T) {
		raw := `"` + strings.Join(rapid.SliceOfN(piece, 0, 8).Draw(t, "pieces"), "") + `"`
		var want string
		if err := json.Unmarshal([]byte(raw), &want); err != nil {
			t.Fatal(err)
		}
		got, ok := stringValue(raw).AppendText(nil)
		if string(got) != want {
			t.Errorf("%s: got %q, want %q", raw, got, want)
		}
		if lone := strings.Contains(want, "\uFFFD"); ok == lone { // no piece is U+FFFD itself
			t.Errorf("%s: ok is %v", raw, ok)
		}
	})
}

func TestFieldsGet(t *testing.T) {
	t.Parallel()
	fields := cdc.Fields{
		{Name: []byte("a"), Value: cdc.Value{Kind: cdc.Number, Raw: []byte("1")}},
		{Name: []byte("A"), Value: cdc.Value{Kind: cdc.Number, Raw: []byte("2")}},
		{Name: []byte("a"), Value: cdc.Value{Kind: cdc.Null, Raw: []byte("null")}},
	}
	for name, want := range map[string]cdc.Kind{"a": cdc.Null, "A": cdc.Number, "": cdc.Missing, "b": cdc.Missing} {
		if got := fields.Get(name).Kind; got != want {
			t.Errorf("%q is %s, want %s", name, got, want)
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	var got []string
	for k := range cdc.Kind(8) {
		got = append(got, k.String())
	}
	for o := range cdc.Operation(7) {
		got = append(got, o.String())
	}
	want := "missing null boolean number string object array invalid invalid load insert update delete control invalid"
	if strings.Join(got, " ") != want {
		t.Errorf("got %v", got)
	}
}

func TestDecodeErrorText(t *testing.T) {
	t.Parallel()
	err := error(&cdc.DecodeError{Offset: 17, Reason: "unterminated string"})
	var target *cdc.DecodeError
	if !errors.As(err, &target) || err.Error() != "decode record: unterminated string at byte 17" {
		t.Errorf("got %q", err)
	}
}

// TestSkipPlain compares with a look at one byte after another.
func TestSkipPlain(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := bytes.Repeat([]byte{rapid.SampledFrom([]byte(" !#[]~\x7f0aZ")).Draw(t, "plain")}, rapid.IntRange(0, 100).Draw(t, "size"))
		for range rapid.IntRange(0, 3).Draw(t, "special") {
			if len(text) > 0 {
				text[rapid.IntRange(0, len(text)-1).Draw(t, "at")] = rapid.SampledFrom([]byte("\"\\\x00\x1f\n\x80\xff\x21\x23\x5b\x5d")).Draw(t, "byte")
			}
		}
		from := rapid.IntRange(0, len(text)).Draw(t, "from")
		want := from
		for want < len(text) && text[want] >= ' ' && text[want] != '"' && text[want] != '\\' && text[want] < 0x80 {
			want++
		}
		if got := cdc.SkipPlain(text, from); got != want {
			t.Fatalf("%q from %d: %d, want %d", text, from, got, want)
		}
	})
}
