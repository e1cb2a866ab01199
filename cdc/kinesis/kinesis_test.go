package kinesis_test

import (
	"bytes"
	"crypto/md5"
	"errors"
	"io"
	"iter"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"icehose/cdc/kinesis"
)

// TestShardOf uses keys whose MD5 RFC 1321 lists in its test suite (A.5), so
// that shards are computed by hand from the first digits: with n shards, shard
// i holds the hashes from i/n to (i+1)/n of the space. Of 4 shards a key's is
// its first hex digit divided by 4, of 16 the digit itself, of 256 the first
// byte; the limits of 3 are 0x55.. and 0xaa.., of 5 0x33.., 0x66.., 0x99.. and 0xcc..
func TestShardOf(t *testing.T) {
	t.Parallel()
	counts := []int{1, 2, 3, 4, 5, 16, 256}
	for key, want := range map[string][]int{
		"":                           {0, 1, 2, 3, 4, 13, 0xd4}, // d41d8cd98f00b204e9800998ecf8427e
		"a":                          {0, 0, 0, 0, 0, 0, 0x0c},  // 0cc175b9c0f1b6a831c399e269772661
		"abc":                        {0, 1, 1, 2, 2, 9, 0x90},  // 900150983cd24fb0d6963f7d28e17f72
		"message digest":             {0, 1, 2, 3, 4, 15, 0xf9}, // f96b697d7cb7938d525a2f31aaf161d0
		"abcdefghijklmnopqrstuvwxyz": {0, 1, 2, 3, 3, 12, 0xc3}, // c3fcd3d76192e4007dfb496cca67e13b
	} {
		for i, n := range counts {
			if got := kinesis.ShardOf(key, n); got != want[i] {
				t.Errorf("key %q of %d shards: got %d, want %d", key, n, got, want[i])
			}
		}
	}
}

func TestShardOfIsTheHashScaled(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		key, shards := rapid.String().Draw(t, "key"), rapid.IntRange(1, 1<<20).Draw(t, "shards")
		sum := md5.Sum([]byte(key))
		want := new(big.Int).Mul(new(big.Int).SetBytes(sum[:]), big.NewInt(int64(shards)))
		want.Rsh(want, 128)
		if got := kinesis.ShardOf(key, shards); int64(got) != want.Int64() {
			t.Errorf("got %d, want %s", got, want)
		}
	})
}

// awkward are data that text formats lose.
func awkward() [][]byte {
	return [][]byte{
		{},
		[]byte("x"), []byte(`{"a":"\ud800"}`), []byte("\x00\x01\x7f"), []byte("line\nline\r\n\u2028<&>"), []byte("\xef\xbb\xbf{}"),
		{0xff, 0xfe, 0x00},
		[]byte("half a rune \xf0\x9f"), []byte("\uFFFD"), bytes.Repeat([]byte("0123456789abcdef"), 1<<16),
		[]byte("{\n\t\"data\":\t{}\n}\n"),
	}
}

func TestFileRoundTrip(t *testing.T) {
	t.Parallel()
	var want []kinesis.Record
	for i, data := range awkward() {
		want = append(want, kinesis.Record{
			ShardID: "shardId-000000000001", SequenceNumber: strings.Repeat("9", 40+i), PartitionKey: "public.größe.\"1\"\n", ArrivedAt: 1767225600123 + int64(i), Data: data,
		})
	}
	for _, name := range []string{"records.ndjson", "records.ndjson.gz", "records.ndjson.zst"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), name)
			write(t, path, want)
			got := read(t, path)
			if diff := cmp.Diff(want, got, sameBytes); diff != "" {
				t.Errorf("(-written +read):\n%s", diff)
			}
			head := make([]byte, 4)
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			_, err = io.ReadFull(f, head)
			if err := errors.Join(err, f.Close()); err != nil {
				t.Fatal(err)
			}
			magic := map[string]string{".zst": "\x28\xb5\x2f\xfd", ".gz": "\x1f\x8b"}[filepath.Ext(name)]
			if magic == "" {
				magic = `{"sh`
			}
			if !strings.HasPrefix(string(head), magic) {
				t.Errorf("the file begins with %q", head)
			}
		})
	}
}

func write(t *testing.T, path string, records []kinesis.Record) {
	t.Helper()
	f, err := kinesis.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := kinesis.NewWriter(f)
	for _, r := range records {
		if err := w.Write(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Flush(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) []kinesis.Record {
	t.Helper()
	f, err := kinesis.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	records, err := collect(kinesis.Read(f))
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return records
}

// sameBytes spares cmp from walking a megabyte byte by byte.
var sameBytes = cmp.Comparer(bytes.Equal)

func collect(seq iter.Seq2[kinesis.Record, error]) ([]kinesis.Record, error) {
	records := []kinesis.Record{}
	for r, err := range seq {
		if err != nil {
			return records, err
		}
		records = append(records, r)
	}
	return records, nil
}

func TestRoundTripOfAnyData(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := append([]kinesis.Record{}, rapid.SliceOfN(rapid.Custom(func(t *rapid.T) kinesis.Record {
			return kinesis.Record{
				ShardID: rapid.String().Draw(t, "shard"), SequenceNumber: rapid.StringMatching(`[0-9]{56}`).Draw(t, "sequence"),
				PartitionKey: rapid.String().Draw(t, "key"), ArrivedAt: rapid.Int64().Draw(t, "arrived"),
				Data: rapid.OneOf(rapid.SliceOf(rapid.Byte()), rapid.Map(rapid.String(), func(s string) []byte { return []byte(s) })).Draw(t, "data"),
			}
		}), 0, 5).Draw(t, "records")...)
		var file bytes.Buffer
		w := kinesis.NewWriter(&file)
		for _, r := range want {
			if err := w.Write(r); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		if lines := bytes.Count(file.Bytes(), []byte("\n")); lines != len(want) {
			t.Errorf("%d records on %d lines", len(want), lines)
		}
		got, err := collect(kinesis.Read(&file))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, sameBytes); diff != "" {
			t.Errorf("(-written +read):\n%s", diff)
		}
	})
}

const good = `{"shardId":"s-0","sequenceNumber":"1","partitionKey":"k","approximateArrivalTimestamp":1,"data":"x"}`

func TestReadNamesTheLine(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, in string
		records  int
		want     string
	}{
		{"empty lines are none", "\n\n" + good + "\n  \n" + good, 2, ""},
		{"base64", `{"dataBase64":"/wA="}`, 1, ""},
		{"broken", good + "\n\n" + `{"shardId":` + "\n" + good, 1, "read stream record: line 3: not a JSON object at byte 12"},
		{"two on a line", good + good, 0, "read stream record: line 1: not a JSON object at byte 101"},
		{"wrong type", good + "\n" + `{"shardId":7,"data":"x"}`, 1, "read stream record: line 2: not a stream record at byte 12"},
		{"not an object", `[]`, 0, "read stream record: line 1: not a stream record at byte 1"},
		{"data of another kind", `{"data":{"secret":1}}`, 0, "read stream record: line 1: data is not a string"},
		{"half a surrogate pair", `{"data":"\ud800"}`, 0, "read stream record: line 1: data has half a surrogate pair"},
		{"not UTF-8", good + "\n{\"data\":\"\xff\"}", 1, "read stream record: line 2: not UTF-8"},
		{"no data", `{"shardId":"s-0"}`, 0, "read stream record: line 1: no data"},
		{"data null", `{"data":null}`, 0, "read stream record: line 1: no data"},
		{"both", `{"data":"x","dataBase64":"eA=="}`, 0, "read stream record: line 1: both data and dataBase64"},
		{"a record of DMS", `{"data":{"id":"secret"},"metadata":{"record-type":"data"}}`, 0, "read stream record: line 1: a record of AWS DMS without the shard and the sequence number that its stream gives it"},
		{"a control record of DMS", `{"metadata":{"record-type":"control"},"control":{}}`, 0, "read stream record: line 1: a record of AWS DMS without the shard and the sequence number that its stream gives it"},
		{"metadata of another", `{"data":{"id":"secret"},"metadata":"record-type"}`, 0, "read stream record: line 1: data is not a string"},
		{"not base64", `{"dataBase64":"secret!"}`, 0, "read stream record: line 1: dataBase64 is not base64"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			records, err := collect(kinesis.Read(strings.NewReader(test.in)))
			message := ""
			if err != nil {
				message = err.Error()
			}
			if len(records) != test.records || message != test.want {
				t.Errorf("got %d records, %q", len(records), message)
			}
		})
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	r, err := kinesis.Parse([]byte(strings.ReplaceAll(good, ",", ",\n\t")))
	if err != nil || r.ShardID != "s-0" || r.SequenceNumber != "1" || r.PartitionKey != "k" || r.ArrivedAt != 1 || string(r.Data) != "x" {
		t.Errorf("got %+v, %v", r, err)
	}
	if _, err := kinesis.Parse([]byte(`{"shardId":`)); err == nil || err.Error() != "read stream record: not a JSON object at byte 11" {
		t.Errorf("got %v", err)
	}
}

// TestReadStops: a caller may leave the loop, and an error of the reader is
// not the end of the file.
func TestReadStops(t *testing.T) {
	t.Parallel()
	for r, err := range kinesis.Read(strings.NewReader(good + "\nnot read")) {
		if err != nil || string(r.Data) != "x" {
			t.Errorf("got %q, %v", r.Data, err)
		}
		break
	}
	broken := errors.New("disk on fire")
	records, err := collect(kinesis.Read(io.MultiReader(strings.NewReader(good+"\n"), iotest.ErrReader(broken))))
	if !errors.Is(err, broken) || len(records) != 1 || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("got %d records, %v", len(records), err)
	}
}

func TestCutFilesAreErrors(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"cut.zst", "cut.gz"} {
		path := filepath.Join(t.TempDir(), name)
		write(t, path, slices.Repeat([]kinesis.Record{{Data: []byte("some text")}}, 1000))
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content[:len(content)/2], 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := kinesis.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := collect(kinesis.Read(f)); err == nil {
			t.Errorf("%s: half a file reads without an error", name)
		}
		// Closing may report the same once more.
		if err := f.Close(); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Error(err)
		}
	}
}

func TestOpenAndCreateSayWhy(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "no", "records.zst")
	if _, err := kinesis.Open(missing); !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(err.Error(), "open records: ") {
		t.Errorf("open: %v", err)
	}
	if _, err := kinesis.Create(missing); !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(err.Error(), "create records: ") {
		t.Errorf("create: %v", err)
	}
	plain := filepath.Join(t.TempDir(), "records.gz")
	if err := os.WriteFile(plain, []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := kinesis.Open(plain); err == nil {
		t.Error("a plain file opens as gzip")
	}
}

// refusing is a full disk.
type refusing struct{}

func (refusing) Write([]byte) (int, error) { return 0, os.ErrInvalid }

func TestWriterReports(t *testing.T) {
	t.Parallel()
	w := kinesis.NewWriter(refusing{})
	big := kinesis.Record{Data: bytes.Repeat([]byte("x"), 1<<17)}
	if err := w.Write(big); !errors.Is(err, os.ErrInvalid) {
		t.Errorf("write: %v", err)
	}
	if err := w.Flush(); !errors.Is(err, os.ErrInvalid) || !strings.HasPrefix(err.Error(), "write stream record: ") {
		t.Errorf("flush: %v", err)
	}
	for _, r := range []kinesis.Record{{ShardID: "\xff"}, {SequenceNumber: "\xff"}, {PartitionKey: "\xff"}} {
		if err := kinesis.NewWriter(io.Discard).Write(r); err == nil {
			t.Errorf("%+q was written and cannot be read back", []string{r.ShardID, r.SequenceNumber, r.PartitionKey})
		}
	}
}

// FuzzRead: any bytes give records or an error, and what was read is what is
// read again after writing it.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{"", good, good + "\n" + good, "{", "}{", "[]", `{"data":"\ud800"}`, "{\"data\":\"\xff\"}", `{"dataBase64":"/w=="}`, `{"data":1}`, "\xef\xbb\xbf" + good} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		records, _ := collect(kinesis.Read(bytes.NewReader(in)))
		var file bytes.Buffer
		w := kinesis.NewWriter(&file)
		for _, r := range records {
			if err := w.Write(r); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		again, err := collect(kinesis.Read(&file))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(records, again, sameBytes); diff != "" {
			t.Errorf("(-first +second):\n%s", diff)
		}
	})
}
