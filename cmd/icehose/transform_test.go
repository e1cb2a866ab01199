package main

import (
	"encoding/base64"
	"fmt"
	"os"
	"strings"
	"testing"
)

const transformPipeline = `version: 1
database: shop
source: {engine: postgresql, position: postgres, nulls: included}
tables:
  - {source: public.log, mode: changelog, key: [id], columns: [{name: id, type: long}, {name: note, type: string}]}
`

func loadOfLog(id int, note string) string {
	return fmt.Sprintf(`{"data":{"id":%d,"note":%s},"metadata":{"timestamp":"2026-01-02T03:04:05.000000Z","record-type":"data","operation":"load",`+
		`"partition-key-type":"schema-table","schema-name":"public","table-name":"log"}}`, id, note)
}

func eventRecord(id int, data string) string {
	return fmt.Sprintf(`{"recordId":"r%d","data":%q}`, id, base64.StdEncoding.EncodeToString([]byte(data)))
}

// What the status of a run says: what was cut off, what the Lambda could not
// answer, and what does not fit in its response.
func TestTransformStatus(t *testing.T) {
	good := loadOfLog(1, `"n"`)
	quotes := "[" + strings.Repeat(`"",`, 90000) + `""]` // twice as long where it is escaped
	var records, lines []string
	for i := range 12 {
		records = append(records, eventRecord(i, loadOfLog(i, quotes)))
		lines = append(lines, loadOfLog(i, quotes))
	}
	event := func(records ...string) string { return `{"records":[` + strings.Join(records, ",") + "]}\n" }
	damaged := `{"records":[{"recordId":"r1",}]}` + "\n"
	huge := loadOfLog(1, `"`+strings.Repeat("x", 5<<20)+`"`) + "\n"
	for _, test := range []struct {
		name, in string
		args     []string
		status   int
		want     []string // of both streams
	}{
		{"whole", good + "\n" + good + "\n", nil, exitSame, []string{"2 records: 2 delivered, 0 dropped, 0 failed"}},
		{"last line damaged", good + "\n" + good[:40] + "\n", nil, exitDifferent, []string{"2 records: 1 delivered, 0 dropped, 1 failed"}},
		{"record cut off", good + "\n" + good[:40], nil, exitTrouble, []string{"1 records: 1 delivered", "icehose: in.json: read records: line 2: cut off: the object that begins there does not end\n"}},
		{"event cut off", event(eventRecord(0, good), eventRecord(1, good))[:300], nil, exitTrouble, []string{"0 records: 0 delivered", "line 1: cut off: "}},
		{"second event cut off", event(eventRecord(0, good)) + event(eventRecord(1, good))[:90], nil, exitTrouble, []string{"1 records: 1 delivered", "line 2: cut off: "}},
		{"list cut off", "{\n  \"Records\": [\n    {\"SequenceNumber\": \"1\", \"Data\": \"e30=\"},\n", nil, exitTrouble, []string{"0 records: 0 delivered", "line 1: cut off: "}},
		{
			"event that the Lambda cannot answer", event(eventRecord(0, good)) + event(eventRecord(1, good), `{"data":"e30="}`) + event(eventRecord(2, good)), nil, exitTrouble,
			[]string{
				`{"record":2,"id":"line 2","outcome":"ProcessingFailed","reason":"invalid_json"}`, "3 records: 2 delivered, 0 dropped, 1 failed",
				"icehose: in.json: 1 events that the Lambda cannot answer, the first at line 2: open event: parse event: record without a recordId at byte ",
			},
		},
		{"damaged event", event(eventRecord(0, good)) + damaged + event(eventRecord(2, good)), nil, exitTrouble, []string{"3 records: 2 delivered, 0 dropped, 1 failed", "the first at line 2: "}},
		{"damaged events first", damaged + damaged + event(eventRecord(2, good)), nil, exitTrouble, []string{"3 records: 1 delivered, 0 dropped, 2 failed", "2 events that the Lambda cannot answer, the first at line 1: "}},
		{"damaged event of a given format", damaged + event(eventRecord(2, good)), []string{"--format", "firehose"}, exitTrouble, []string{"2 records: 1 delivered, 0 dropped, 1 failed", "the first at line 1: "}},
		{"broken event", event(eventRecord(0, good)) + "{\"records\":[{\"recordId\":\"r\n" + event(eventRecord(2, good)), nil, exitTrouble, []string{"3 records: 2 delivered, 0 dropped, 1 failed", "the first at line 2: "}},
		{"explained behind a damaged event", damaged + damaged + event(eventRecord(7, good)), []string{"--record", "3", "--format", "firehose"}, exitSame, []string{"r7"}},
		{"explained", event(`{"data":"e30="}`), []string{"--explain"}, exitTrouble, []string{"parse event: record without a recordId"}},
		{"event beyond a response", event(records...), nil, exitDifferent, []string{`"id":"r11","outcome":"ProcessingFailed","reason":"response_too_large"`, "12 records: 8 delivered, 0 dropped, 4 failed"}},
		{"batch beyond a response", strings.Join(lines, "\n") + "\n", []string{"--batch", "12"}, exitDifferent, []string{`"id":"line 12","outcome":"ProcessingFailed","reason":"response_too_large"`, "12 records: 8 delivered, 0 dropped, 4 failed"}},
		{"the same one by one", strings.Join(lines, "\n") + "\n", nil, exitSame, []string{"12 records: 12 delivered, 0 dropped, 0 failed"}},
		{"row beyond a response", huge, nil, exitDifferent, []string{`"reason":"response_too_large"`}},
		{"explained alone", huge, []string{"--explain", "--no-values"}, exitDifferent, []string{"result     ProcessingFailed: response_too_large\n", "leave its large columns out"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			for name, text := range map[string]string{"pipeline.yaml": transformPipeline, "in.json": test.in} {
				if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			status, stdout, stderr := runCommand(t, append([]string{"transform", "--pipeline", "pipeline.yaml", "in.json"}, test.args...)...)
			if status != test.status {
				t.Errorf("status %d, want %d", status, test.status)
			}
			for _, want := range test.want {
				if !strings.Contains(stdout+stderr, want) {
					t.Errorf("no %q in %.300s", want, stderr)
				}
			}
		})
	}
}
