package sink_test

import (
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"icehose/cdc"
	"icehose/sink"
	"icehose/sink/sinktest"
)

// itemJSON is a row of table item with the text of v as it stands in JSON.
func itemJSON(v string) string {
	return `{"id":1,"v":` + v + `,"cdc_position":"` + string(change(1)) + `","cdc_committed_at":null}`
}

func TestDecode(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, in string
		want     string // value of v, or
		reason   sink.Reason
	}{
		{"string", itemJSON(`"x"`), "x", ""},
		{"empty string", itemJSON(`""`), "", ""},
		{"null", itemJSON(`null`), "NULL", ""},
		{"word null", itemJSON(`"null"`), "null", ""},
		{"escapes", itemJSON(`"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00"`), "\"\\/\b\f\n\r\t\u00e9\U0001f600", ""},
		{"raw unicode", itemJSON(`"é😀"`), "é😀", ""},
		{"number into string", itemJSON(`12`), "12", ""},
		{"space everywhere", strings.NewReplacer(",", " ,\n\t", ":", " :\r ", "{", " { ", "}", " } ").Replace(itemJSON(`"x"`)), "x", ""},
		{
			"other order, escaped name",
			`{"cdc_committed_at":null,"\u0076":"x","cdc_position":"` + string(change(1)) + `","id":"1"}`, "x", "",
		},
		{"repeated column", strings.Replace(itemJSON(`"x"`), `"v"`, `"id":1,"v"`, 1), "", sink.RepeatedColumn},
		{"lone surrogate", itemJSON(`"\ud83d"`), "", sink.InvalidValue},
		{"invalid utf-8", itemJSON("\"\xff\""), "", sink.InvalidValue},
		{"control character", itemJSON("\"\n\""), "", sink.InvalidJSON},
		{"unknown escape", itemJSON(`"\x"`), "", sink.InvalidJSON},
		{"short escape", itemJSON(`"\u12"`), "", sink.InvalidJSON},
		{"object", itemJSON(`{}`), "", sink.InvalidJSON},
		{"array", itemJSON(`[]`), "", sink.InvalidJSON},
		{"word", itemJSON(`nul`), "", sink.InvalidJSON},
		{"no value", itemJSON(``), "", sink.InvalidJSON},
		{"empty", ``, "", sink.InvalidJSON},
		{"null row", `null`, "", sink.InvalidJSON},
		{"cut off", itemJSON(`"x"`)[:20], "", sink.InvalidJSON},
		{"no end", strings.TrimSuffix(itemJSON(`"x"`), "}"), "", sink.InvalidJSON},
		{"two rows", itemJSON(`"x"`) + itemJSON(`"x"`), "", sink.InvalidJSON},
		{"comma at the end", strings.Replace(itemJSON(`"x"`), "}", ",}", 1), "", sink.InvalidJSON},
		{"no comma", strings.Replace(itemJSON(`"x"`), `,"v"`, `"v"`, 1), "", sink.InvalidJSON},
		{"name without quotes", strings.Replace(itemJSON(`"x"`), `"v"`, `v`, 1), "", sink.InvalidJSON},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, sink.Options{})
			r.flush(sink.Delivery{Offset: offset(0), Row: &sink.Row{Database: "lake", Table: "item", Operation: cdc.Insert, Data: []byte(test.in)}})
			var want []sink.Reason
			if test.reason != "" {
				want = []sink.Reason{test.reason}
			} else {
				r.want("item", "1 "+test.want)
			}
			if diff := gocmp.Diff(want, r.rejected); diff != "" {
				t.Fatalf("rejected (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzDeliver: whatever a row is, it is written or rejected, and the sink goes on.
func FuzzDeliver(f *testing.F) {
	for _, seed := range []string{
		itemJSON(`"x"`), itemJSON(`null`), itemJSON(`"\ud83d\ude00"`), itemJSON(`1e400`), itemJSON("\"\xff\""), itemJSON(`"\u`), `{`, `{}`, `[]`, ``,
		`{"id":9223372036854775808}`, `{"id":-0}`, `{"\u0069d":1,"id":2}`, itemJSON(`"x"`) + " ", strings.Repeat(`{"v":`, 1000),
	} {
		f.Add([]byte(seed), uint8(cdc.Update))
		f.Add([]byte(seed), uint8(cdc.Delete))
	}
	p := sinktest.Pipeline(f, tables)
	f.Fuzz(func(t *testing.T, data []byte, operation uint8) {
		lake := sinktest.NewLake()
		rejected := 0
		s, err := sink.Open(t.Context(), p, lake, sink.Options{Reject: func(sink.Offset, *sink.RejectError) error { rejected++; return nil }})
		if err != nil {
			t.Fatal(err)
		}
		d := sink.Delivery{Offset: offset(0), Row: &sink.Row{Database: "lake", Table: "item", Operation: cdc.Operation(operation), Data: data}}
		if err := s.Deliver(t.Context(), []sink.Delivery{d}); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := s.Stats()[0]; got.Applied+int64(rejected) != 1 {
			t.Fatalf("applied %d, rejected %d", got.Applied, rejected)
		}
	})
}

// TestPlainBytes: eight bytes are plain unless one of them, wherever it stands
// and whatever is beside it, ends a string, begins an escape or is a control
// character.
func TestPlainBytes(t *testing.T) {
	t.Parallel()
	for c := range 256 {
		for at := range 8 {
			for _, beside := range []byte{'a', ' ', '!', '#', '[', ']', 0x7f, 0x80, 0xff} {
				var eight [8]byte
				for i := range eight {
					eight[i] = beside
				}
				eight[at] = byte(c)
				want := c != '"' && c != '\\' && c >= ' '
				if got := sink.IsPlain(eight); got != want {
					t.Fatalf("byte %#x at %d among %#x: plain %t, want %t", c, at, beside, got, want)
				}
			}
		}
	}
}

func TestCommitTime(t *testing.T) {
	t.Parallel()
	for _, at := range []time.Time{
		time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(1969, 12, 31, 23, 59, 59, 999_999_000, time.UTC),
		time.Date(2024, 2, 29, 12, 34, 56, 7000, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
	} {
		if got := sink.CommitTime([]byte(at.Format("2006-01-02T15:04:05.000000Z"))); got != at.UnixMicro() {
			t.Errorf("%s: %d, want %d", at, got, at.UnixMicro())
		}
	}
	if sink.CommitTime(nil) >= time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro() {
		t.Error("null is a time")
	}
}
