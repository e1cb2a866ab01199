package capture_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"

	"icehose/cdc"
	"icehose/cdc/capture"
)

// texts returns the objects of a text; broken ones in angle brackets.
func texts(t interface{ Fatal(...any) }, in io.Reader) []string {
	var out []string
	for o, err := range capture.Split(in) {
		if err != nil {
			t.Fatal(err)
		}
		text := string(o.Text)
		if o.Broken {
			text = "<" + text + ">"
		}
		out = append(out, text)
	}
	return out
}

func TestSplit(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, in string
		want     []string
	}{
		{"nothing", "", nil},
		{"space", " \n\t\r\n", nil},
		{"lines", "{\"a\":1}\n{\"b\":2}\n", []string{`{"a":1}`, `{"b":2}`}},
		{"nothing between", `{"a":1}{"b":2}`, []string{`{"a":1}`, `{"b":2}`}},
		{"byte order mark", "\ufeff{}", []string{`{}`}},
		{"byte order mark later", "{}\n\ufeff{\"a\":1}\n{}", []string{`{}`, "<\ufeff{\"a\":1}>", `{}`}},
		{"half a byte order mark", "\xef\xbb{}\n{}", []string{"<\xef\xbb{}>", `{}`}},
		{"array", "[\n{\"a\":1},\n{\"b\":2}\n]\n", []string{`{"a":1}`, `{"b":2}`}},
		{"pretty", "{\n\t\"data\":\t{\n\t\t\"a\":\t1\n\t}\n}\n{\n}", []string{"{\n\t\"data\":\t{\n\t\t\"a\":\t1\n\t}\n}", "{\n}"}},
		{"braces in strings", `{"a":"}{\"}"}{}`, []string{`{"a":"}{\"}"}`, `{}`}},
		{"backslash at the end of a string", `{"a":"\\"}{}`, []string{`{"a":"\\"}`, `{}`}},
		{"objects at the beginning of lines", "{\"records\":[\n{\"a\":1},\n{\"b\":2}\n]}", []string{"{\"records\":[\n{\"a\":1},\n{\"b\":2}\n]}"}},
		{"cut in a string", "{\"a\":\"x\n{\"b\":2}\n", []string{`<{"a":"x>`, `{"b":2}`}},
		{"cut after a value", "{\"a\":{\"x\":1\n{\"b\":2}\n{\"c\":3}", []string{`<{"a":{"x":1>`, `{"b":2}`, `{"c":3}`}},
		{"cut after a comma", "{\"a\":1,\n{\"b\":2}\n", []string{`<{"a":1,>`, `{"b":2}`}},
		{"cut after a colon", "{\"a\":\n{\"b\":2}\n{\"c\":3}", []string{`<{"a":>`, `{"b":2}`, `{"c":3}`}},
		{"cut while pretty", "{\n\t\"a\":\t{\n\t\t\"b\":\t1\n{\n\t\"c\":\t2\n}\n", []string{"<{\n\t\"a\":\t{\n\t\t\"b\":\t1>", "{\n\t\"c\":\t2\n}"}},
		{"cut with nothing between", `{"a":"x{"b":2}{"c":3}` + "\n" + `{"d":4}{"e":5}`, []string{`<{"a":"x{"b":2}{"c":3}>`, `{"d":4}`, `{"e":5}`}},
		{"a last line that is cut", "{\"a\":1}\n{\"b\":{\"c\":2}\r\n\n", []string{`{"a":1}`, "<{\"b\":{\"c\":2}\r\n\n>"}},
		{"junk", "hello {\"a\":1}\n{\"b\":2}", []string{`<hello {"a":1}>`, `{"b":2}`}},
		{"a list with a cut in its last line", "[\n{\"a\":1},\n{\"b\":\"x}]\n", []string{`{"a":1}`, `<{"b":"x}]>`}},
		{"lists", "[[{}],[]]\n]\n[{}]", []string{`{}`, `{}`}},
		{"junk at the end", "{}\nbye", []string{`{}`, `<bye>`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, texts(t, strings.NewReader(test.in))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.want, texts(t, iotest.OneByteReader(strings.NewReader(test.in)))); diff != "" {
				t.Errorf("byte by byte (-want +got):\n%s", diff)
			}
		})
	}
}

// A text that ends inside an object was cut off: what was whole before it
// comes, and then the error.
func TestSplitCutOff(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, in, want string }{
		{"between strings", "{\"a\":1}{\"b\":", "line 1: cut off: the object"},
		{"in a string", "{\"a\":1}\n{\"b", "line 2: cut off: the object"},
		{"in a list", "{\"a\":1}\n{\"records\":[{\"recordId\":\"r\"},", "line 2: cut off: the object"},
		{"pretty", "{\"a\":1}\n{\n\t\"b\":\t{\n", "line 2: cut off: the object"},
		{"after a line that is cut too", "{\"a\":1}\n{\"b\":\n{\"c\":", "line 3: cut off: the object"},
		{"between the elements of a list", "[\n{\"a\":1},\n{\"b\":2},\n", "line 1: cut off: the list"},
		{"before the end of a list", "{\"a\":1}\n[[{\"b\":2}],\n[{\"c\":3}]\n", "line 2: cut off: the list"},
		{"in an object of a list", "[{\"a\":1},\n{\"b\":", "line 2: cut off: the object"},
	} {
		var objects []string
		var last error
		for o, err := range capture.Split(strings.NewReader(test.in)) {
			if last = err; err == nil {
				objects = append(objects, string(o.Text))
			}
		}
		if len(objects) == 0 || objects[0] != `{"a":1}` {
			t.Errorf("%s: objects %q before the end", test.name, objects)
		}
		if _, ok := errors.AsType[*capture.ReadError](last); !ok || last.Error() != "read records: "+test.want+" that begins there does not end" {
			t.Errorf("%s: error %v", test.name, last)
		}
	}
}

func TestSplitLines(t *testing.T) {
	t.Parallel()
	var lines []int
	for o, err := range capture.Split(strings.NewReader("\n{\n}\n\n{\"cut\n{}\n")) {
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, o.Line)
	}
	if diff := cmp.Diff([]int{2, 5, 6}, lines); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// An object that never ends and has no line break is an error, not a full memory.
func TestSplitEndless(t *testing.T) {
	t.Parallel()
	endless := io.MultiReader(strings.NewReader(`{"a":"`), io.LimitReader(zeros{}, 65<<20))
	var last error
	for _, err := range capture.Split(endless) {
		last = err
	}
	if last == nil || !strings.Contains(last.Error(), "64 MiB") {
		t.Errorf("got %v", last)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}

// Objects come out as they went in, however they are written one after
// another, and a damaged line among them costs nothing but itself.
func TestSplitLaw(t *testing.T) {
	t.Parallel()
	value := rapid.OneOf(rapid.Just(any(nil)), rapid.Map(rapid.String(), func(s string) any { return s }), rapid.Map(rapid.Int(), func(n int) any { return n }),
		rapid.Map(rapid.MapOf(rapid.String(), rapid.Bool()), func(m map[string]bool) any { return m }))
	rapid.Check(t, func(t *rapid.T) {
		var in bytes.Buffer
		var want []string
		for range rapid.IntRange(0, 6).Draw(t, "objects") {
			text, err := json.Marshal(rapid.MapOf(rapid.String(), value).Draw(t, "object"))
			if err != nil {
				t.Fatal(err)
			}
			damaged := rapid.IntRange(0, 4).Draw(t, "damage") == 0 && len(text) > 2
			switch {
			case damaged:
				in.WriteString("\n" + string(text[:rapid.IntRange(1, len(text)-1).Draw(t, "cut")]) + "\n")
			default:
				if rapid.Bool().Draw(t, "pretty") {
					var pretty bytes.Buffer
					if err := json.Indent(&pretty, text, "", "\t"); err != nil {
						t.Fatal(err)
					}
					text = pretty.Bytes()
				}
				want = append(want, string(text))
				in.Write(text)
				in.WriteString(rapid.SampledFrom([]string{"", "\n", "\r\n", " ", ",\n"}).Draw(t, "between"))
			}
		}
		var got []string
		for _, text := range texts(t, &in) {
			if !strings.HasPrefix(text, "<") {
				got = append(got, text)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

const record = `{"data":{"id":1},"metadata":{"operation":"load","table-name":"t"}}`

func collect(t *testing.T, in string, f capture.Format) ([]capture.Record, error) {
	t.Helper()
	var out []capture.Record
	for r, err := range capture.Read(strings.NewReader(in), f) {
		if err != nil {
			return out, err
		}
		out = append(out, r)
	}
	return out, nil
}

func TestReadFormats(t *testing.T) {
	t.Parallel()
	data := base64.StdEncoding.EncodeToString([]byte(record))
	quoted, err := json.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	origin := cdc.Origin{Shard: "shardId-000000000002", Sequence: "49"}
	for _, test := range []struct {
		name string
		in   string
		want []capture.Record
	}{
		{"dms", record, []capture.Record{{ID: "line 1", Line: 1, Data: []byte(record)}}},
		{
			"stream", `{"shardId":"shardId-000000000002","sequenceNumber":"49","partitionKey":"k","approximateArrivalTimestamp":7,"data":` + string(quoted) + `}`,
			[]capture.Record{{ID: "49", Line: 1, Data: []byte(record), Origin: origin, PartitionKey: "k", ArrivedAt: 7}},
		},
		{
			"get-records, seconds", `{"Records":[{"SequenceNumber":"49","ApproximateArrivalTimestamp":1441215410.867,"Data":"` + data + `","PartitionKey":"k"}],"MillisBehindLatest":0}`,
			[]capture.Record{{ID: "49", Line: 1, Data: []byte(record), Origin: cdc.Origin{Sequence: "49"}, PartitionKey: "k", ArrivedAt: 1441215410867}},
		},
		{
			"get-records, ISO 8601", `{"Records":[{"SequenceNumber":"49","ApproximateArrivalTimestamp":"2015-09-02T19:36:50.867000+02:00","Data":"` + data + `","PartitionKey":"k"}]}`,
			[]capture.Record{{ID: "49", Line: 1, Data: []byte(record), Origin: cdc.Origin{Sequence: "49"}, PartitionKey: "k", ArrivedAt: 1441215410867}},
		},
		{
			"Lambda event of a stream", `{"Records":[{"eventID":"shardId-000000000002:49","kinesis":{"sequenceNumber":"49","partitionKey":"k","data":"` + data + `","approximateArrivalTimestamp":1545084650.987}}]}`,
			[]capture.Record{{ID: "49", Line: 1, Data: []byte(record), Origin: origin, PartitionKey: "k", ArrivedAt: 1545084650987}},
		},
		{
			"Firehose events", `{"records":[{"recordId":"a","approximateArrivalTimestamp":1650162905387,"data":"` + data + `","kinesisRecordMetadata":{"sequenceNumber":"49","shardId":"shardId-000000000002","partitionKey":"k"}},` +
				`{"recordId":"b","data":"?"},{"recordId":"c"}]}` + "\n" + `{"records":[{"recordId":"d","kafkaRecordValue":"` + data + `","mskRecordMetadata":{"offset":12,"partitionId":"3"}}]}` + "\n" +
				`{"records":[{"recordId":"e","kafkaRecordValue":"` + data + `","kafkaRecordMetadata":{"offset":13,"partitionId":"4"}}]}`,
			[]capture.Record{
				{ID: "a", Line: 1, Data: []byte(record), Origin: origin, PartitionKey: "k", ArrivedAt: 1650162905387},
				{ID: "b", Line: 1, Fault: capture.BadBase64},
				{ID: "c", Line: 1, Fault: capture.BadBase64},
				{ID: "d", Line: 2, Data: []byte(record), Origin: cdc.Origin{Shard: "3", Sequence: "12"}},
				{ID: "e", Line: 3, Data: []byte(record), Origin: cdc.Origin{Shard: "4", Sequence: "13"}},
			},
		},
		{
			"values of other kinds", `{"records":[{"recordId":"a","data":5},{"recordId":"b","data":{}},{"recordId":"c","data":"` + data + `","kinesisRecordMetadata":[1]},` +
				`{"recordId":"d","data":"` + data + `","kinesisRecordMetadata":{"shardId":["x"],"sequenceNumber":49}},{"recordId":["e"],"data":"` + data + `"},7]}`,
			[]capture.Record{
				{ID: "a", Line: 1, Fault: capture.BadBase64},
				{ID: "b", Line: 1, Fault: capture.BadBase64},
				{ID: "c", Line: 1, Data: []byte(record)},
				{ID: "d", Line: 1, Data: []byte(record), Origin: cdc.Origin{Sequence: "49"}},
				{ID: "line 1", Line: 1, Data: []byte(record)},
				{ID: "line 1", Line: 1, Data: []byte("7"), Fault: capture.BadJSON},
			},
		},
		{
			"damaged event first", `{"records":[{"recordId":"a","x":01}]}` + "\n" + `{"records":[{"recordId":"b","data":"` + data + `"}]}`,
			[]capture.Record{{ID: "line 1", Line: 1, Data: []byte(`{"records":[{"recordId":"a","x":01}]}`)}, {ID: "b", Line: 2, Data: []byte(record)}},
		},
		{"damaged first", "{\"data\":\"\n" + record, []capture.Record{{ID: "line 1", Line: 1, Data: []byte(`{"data":"`), Fault: capture.BadJSON}, {ID: "line 2", Line: 2, Data: []byte(record)}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := collect(t, test.in, capture.Auto)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadForced(t *testing.T) {
	t.Parallel()
	got, err := collect(t, `{"x":1}`+"\n"+record, capture.Stream)
	if err != nil || len(got) != 2 || got[0].Fault != capture.BadJSON || got[1].Fault != capture.BadJSON {
		t.Errorf("records of another format are not damaged ones: %v, %v", got, err)
	}
	got, err = collect(t, `{"records":7}`, capture.Firehose)
	if err != nil || len(got) != 1 || got[0].Fault != capture.BadJSON {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := collect(t, `{"x":1}`, capture.Auto); !errors.Is(err, capture.ErrFormat) || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("an unknown format: %v", err)
	}
	if _, err := collect(t, record, "csv"); err == nil {
		t.Error("a format that does not exist was read")
	}
	broken := errors.New("disk on fire")
	whole := 0
	for _, err := range capture.Read(dyingReader{record + record + `{"data":`, broken}, capture.DMS) {
		if err == nil {
			whole++
		} else if !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
	}
	if whole != 2 {
		t.Errorf("%d records before the error", whole)
	}
	for _, err := range capture.Read(iotest.ErrReader(broken), capture.DMS) {
		if !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
	}
}

// A dyingReader gives all of its text and its error in one call.
type dyingReader struct {
	text string
	err  error
}

func (r dyingReader) Read(p []byte) (int, error) { return copy(p, r.text), r.err }

func TestDecompress(t *testing.T) {
	t.Parallel()
	var packed, squeezed bytes.Buffer
	g := gzip.NewWriter(&packed)
	z, err := zstd.NewWriter(&squeezed)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []io.WriteCloser{g, z} {
		if _, err := io.WriteString(w, record); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for name, in := range map[string]string{"plain": record, "gzip": packed.String(), "zstd": squeezed.String(), "empty": ""} {
		r, err := capture.Decompress(strings.NewReader(in))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if want := record; name != "empty" && string(got) != want {
			t.Errorf("%s: got %q", name, got)
		}
	}
	if _, err := capture.Decompress(strings.NewReader("\x1f\x8bxx")); err == nil {
		t.Error("a broken gzip header is no error")
	}
}

// FuzzRead: any bytes end, in records or an error, and no record is larger
// than what was read.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		"", record, record + record, "[", "{", "}{", `{"records":[{"recordId":1,"data":"e30="}]}`, `{"Records":[{"Data":"e30=","SequenceNumber":3}]}`, "{\"a\":\"\n{}", "{\"a\":\n{}\n{}",
		`{"records":[{"recordId":"a","data":5,"kinesisRecordMetadata":[1]},{"recordId":["b"]},7]}`, `{"Records":[{"Data":{},"kinesis":5},null]}`, "{}\n{\"a\":1\n", `{"sequenceNumber":"1","data":"{}"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		for _, format := range []capture.Format{capture.Auto, capture.DMS, capture.Stream, capture.GetRecords, capture.Firehose} {
			line := 0
			for r, err := range capture.Read(bytes.NewReader(in), format) {
				if err != nil {
					break
				}
				if len(r.Data) > len(in) || r.ID == "" && r.Line < 1 || r.Line < line {
					t.Fatalf("record of line %d after %d has %d bytes of %d", r.Line, line, len(r.Data), len(in))
				}
				line = r.Line
			}
		}
	})
}
