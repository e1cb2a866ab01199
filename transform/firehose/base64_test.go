package firehose_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"icehose/transform/firehose"
)

// TestBase64Agrees compares with encoding/base64: what is not the alphabet with
// its padding is refused, line ends too.
func TestBase64Agrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "data")
		prefix := rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(t, "prefix")
		text := base64.StdEncoding.AppendEncode(bytes.Clone(prefix), data)
		if got := firehose.AppendEncode(bytes.Clone(prefix), data); !bytes.Equal(got, text) {
			t.Fatalf("encoded %x to %q", data, got)
		}
		text = text[len(prefix):]
		if len(text) > 0 && rapid.Bool().Draw(t, "damaged") {
			for range rapid.IntRange(1, 4).Draw(t, "times") {
				at := rapid.IntRange(0, len(text)-1).Draw(t, "at")
				text[at] = rapid.SampledFrom([]byte("=\n\r -_/+Aa0.\\\"\x00\x80\xff")).Draw(t, "byte")
			}
		}
		want, err := base64.StdEncoding.DecodeString(string(text))
		wantOK := err == nil && !bytes.ContainsAny(text, "\r\n")
		got, ok := firehose.AppendDecode(bytes.Clone(prefix), text)
		if ok != wantOK || ok && !bytes.Equal(got, append(bytes.Clone(prefix), want...)) || !ok && !bytes.Equal(got, prefix) {
			t.Fatalf("decoded %q to %x, %v; want %x, %v", text, got, ok, want, wantOK)
		}
	})
}

// TestBase64StaysInside works at the very end of memory that may be touched,
// and looks at what lies behind the result.
func TestBase64StaysInside(t *testing.T) {
	page := syscall.Getpagesize()
	memory, err := syscall.Mmap(-1, 0, 2*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mprotect(memory[page:], syscall.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	for n := range 400 {
		data := bytes.Repeat([]byte{0, 0xff, 0x5a, 7}, 100)[:n]
		text := base64.StdEncoding.EncodeToString(data)
		source := memory[page-n : page]
		copy(source, data)
		behind := []byte(strings.Repeat("#", len(text)+64))
		if got := firehose.AppendEncode(behind[:0], source); string(got) != text || strings.Trim(string(behind[len(text):]), "#") != "" {
			t.Fatalf("encoded %d bytes to %q, behind it %q", n, got, behind[len(text):])
		}
		source = memory[page-len(text) : page]
		copy(source, text)
		most := len(text)/4*3 + firehose.DecodeSpare
		behind = []byte(strings.Repeat("#", most+64))
		got, ok := firehose.AppendDecode(behind[:0], source)
		if !ok || !bytes.Equal(got, data) || strings.Trim(string(behind[most:]), "#") != "" {
			t.Fatalf("decoded %d bytes to %x, behind it %q", n, got, behind[most:])
		}
	}
	if err := syscall.Munmap(memory); err != nil {
		t.Fatal(err)
	}
}

// TestFormAgrees answers records together, where the form of the one before is
// a guess at the next, and alone, where there is no guess.
func TestFormAgrees(t *testing.T) {
	h := firehose.New(newTransformer(t), firehose.Options{})
	rapid.Check(t, func(t *rapid.T) {
		var records, alone []string
		for i := range rapid.IntRange(1, 8).Draw(t, "records") {
			records = append(records, formRecord(t, i))
			response, err := h.Handle(t.Context(), []byte(`{"records":[`+records[i]+`]}`))
			if err != nil {
				t.Fatalf("%s: %v", records[i], err)
			}
			answer := strings.TrimSuffix(strings.TrimPrefix(string(response), `{"records":[`), `]}`)
			alone = append(alone, answer)
		}
		response, err := h.Handle(t.Context(), []byte(`{"records":[`+strings.Join(records, ",")+`]}`))
		if err != nil {
			t.Fatal(err)
		}
		if want := `{"records":[` + strings.Join(alone, ",") + `]}`; string(response) != want {
			t.Fatalf("together\n%s\nalone\n%s", response, want)
		}
	})
}

// formRecord draws a record of an event: members in few orders, with space or
// not, some twice, some of another kind than they should be.
func formRecord(t *rapid.T, i int) string {
	space := rapid.SampledFrom([]string{"", "", "", " ", "\n\t"}).Draw(t, "space")
	payload := base64.StdEncoding.EncodeToString([]byte(film(i, 10)))
	data := rapid.SampledFrom([]string{
		`"` + payload + `"`, `"` + payload + `"`, `"` + strings.ReplaceAll(payload, "/", `\/`) + `"`, `""`, `"YQ"`, `"a\"b"`, `"a\\"`, "null", "5", `{"data":"YQ=="}`,
	}).Draw(t, "data")
	name := rapid.SampledFrom([]string{"data", "data", "kafkaRecordValue", `d\u0061ta`}).Draw(t, "name")
	sequence := rapid.SampledFrom([]string{`"49%d"`, `"49%d"`, "49%d", "-%d", "null", `"\u0034%d"`, `"é%d"`, "true"}).Draw(t, "sequence")
	if strings.Contains(sequence, "%d") {
		sequence = fmt.Sprintf(sequence, i)
	}
	shard := rapid.SampledFrom([]string{`"shardId-000000000001"`, `"shardId-000000000002"`, "1", "01.5e3", `"x"`, "[]"}).Draw(t, "shard")
	if shard == "01.5e3" {
		shard = "1.5e3"
	}
	members := []string{
		fmt.Sprintf(`"recordId":%s"id-%d"`, space, i), `"approximateArrivalTimestamp":` + fmt.Sprint(1772359200000+i), fmt.Sprintf(`"%s"%s:%s`, name, space, data),
		fmt.Sprintf(`"kinesisRecordMetadata":{"sequenceNumber":%s,%s"subsequenceNumber":"","partitionKey":"k%d","shardId":%s}`, sequence, space, i, shard),
	}
	if rapid.IntRange(0, 9).Draw(t, "twice") == 0 {
		members = append(members, rapid.SampledFrom(members).Draw(t, "again"))
	}
	if rapid.IntRange(0, 9).Draw(t, "shuffled") == 0 {
		members = rapid.Permutation(members).Draw(t, "order")
	}
	return "{" + strings.Join(members, space+",") + "}"
}
