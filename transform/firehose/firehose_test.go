package firehose_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"icehose/cdc"
	"icehose/cdc/kinesis"
	"icehose/transform"
	"icehose/transform/firehose"
)

// film is an insert of a film, with a title of the given size.
func film(number, titleSize int) string {
	return fmt.Sprintf(`{"data":{"code":"F%d","title":"%s","rating":1,"released":null},"metadata":{"timestamp":"2026-03-01T10:00:00.000000Z",`+
		`"record-type":"data","operation":"insert","schema-name":"public","table-name":"films","transaction-id":1,"transaction-record-id":1,`+
		`"commit-timestamp":"2026-03-01T10:00:00.000000Z","stream-position":"00000000/%08X.1.00000000/%08X"}}`,
		number, strings.Repeat("x", titleSize), number, number)
}

func stream(data ...string) []kinesis.Record {
	out := make([]kinesis.Record, len(data))
	for i, d := range data {
		out[i] = kinesis.Record{
			ShardID: "shardId-000000000000", SequenceNumber: fmt.Sprint(4900 + i), PartitionKey: "k\"\n", ArrivedAt: 1772359200000, Data: []byte(d),
		}
	}
	return out
}

func handle(t *testing.T, o firehose.Options, event []byte) []firehose.ResponseRecord {
	t.Helper()
	response, err := firehose.New(newTransformer(t), o).Handle(t.Context(), event)
	if err != nil {
		t.Fatal(err)
	}
	limit := o.ResponseLimit
	if limit == 0 {
		limit = firehose.DefaultResponseLimit
	}
	checkResponse(t, event, response, limit)
	if len(response) > limit {
		t.Errorf("response has %d bytes, the limit is %d", len(response), limit)
	}
	answers, err := firehose.ParseResponse(response)
	if err != nil {
		t.Fatal(err)
	}
	return answers
}

func TestEventOfStreamRecords(t *testing.T) {
	info := firehose.EventInfo{InvocationID: "i", DeliveryStreamARN: "arn:d", SourceStreamARN: "arn:s", Region: "eu-west-1"}
	event := firehose.AppendEvent(nil, info, stream(film(1, 3), "nothing"))
	var got any
	if err := json.Unmarshal(event, &got); err != nil {
		t.Fatal(err)
	}
	record := func(sequence, data string) any {
		return map[string]any{
			"recordId": sequence + "000000", "approximateArrivalTimestamp": 1772359200000.0, "data": base64.StdEncoding.EncodeToString([]byte(data)),
			"kinesisRecordMetadata": map[string]any{
				"sequenceNumber": sequence, "subsequenceNumber": 0.0, "partitionKey": "k\"\n", "shardId": "shardId-000000000000",
				"approximateArrivalTimestamp": 1772359200000.0,
			},
		}
	}
	want := map[string]any{
		"invocationId": "i", "deliveryStreamArn": "arn:d", "sourceKinesisStreamArn": "arn:s", "region": "eu-west-1",
		"records": []any{record("4900", film(1, 3)), record("4901", "nothing")},
	}
	if diff := cmp.Diff(any(want), got); diff != "" {
		t.Errorf("event differs (-want +got):\n%s", diff)
	}
	answers := handle(t, firehose.Options{}, event)
	for i := range answers {
		answers[i].Data = nil
	}
	wantAnswers := []firehose.ResponseRecord{
		{RecordID: "4900000000", Result: transform.Ok, Database: "shop", Table: "films", Operation: cdc.Update},
		{RecordID: "4901000000", Result: transform.ProcessingFailed},
	}
	if diff := cmp.Diff(wantAnswers, answers); diff != "" {
		t.Errorf("answers differ (-want +got):\n%s", diff)
	}
}

// An event that is broken itself is refused, with the place.
func TestBrokenEvents(t *testing.T) {
	tests := []struct{ name, event, want string }{
		{"empty", ``, "expected an object at byte 0"},
		{"array", `[]`, "expected an object at byte 0"},
		{"no records", `{"region":"x"}`, "no records at byte 14"},
		{"null records", `{"records":null}`, "expected an array at byte 11"},
		{"record that is none", `{"records":[1]}`, "expected an object at byte 12"},
		{"no id", `{"records":[{"data":""}]}`, "record without a recordId at byte 12"},
		{"id that is none", `{"records":[{"recordId":1}]}`, "expected a string at byte 24"},
		{"cut in the data", `{"records":[{"recordId":"a","data":"QUJD`, "unterminated string at byte 40"},
		{"cut after a record", `{"records":[{"recordId":"a","data":""}`, "expected a comma or the end of the array at byte 38"},
		{
			"escaped quote where the record before ends", `{"records":[{"recordId":"a","data":"QQ==","x":"y"},{"recordId":"b","data":"QQ==\","x":"y"}]}`,
			"expected a comma or the end of the object at byte 83",
		},
		{"more", `{"records":[]} {}`, "text after the object at byte 15"},
		{"no colon", `{"records"[]}`, "expected a colon at byte 10"},
		{"bad number", `{"x":-,"records":[]}`, "expected a value at byte 5"},
		{"leading zero", `{"x":01,"records":[]}`, "expected a comma or the end of the object at byte 6"},
		{
			"leading zero where the record before has a number", `{"records":[{"recordId":"a","t":1,"data":"QQ=="},{"recordId":"b","t":00,"data":"QQ=="}]}`,
			"expected a comma or the end of the object at byte 70",
		},
		{"bad fraction", `{"x":1.,"records":[]}`, "expected a value at byte 5"},
		{"bad exponent", `{"x":1e+,"records":[]}`, "expected a value at byte 5"},
		{"bad word", `{"x":nul,"records":[]}`, "expected a value at byte 5"},
		{"bad escape", `{"x":"\x","records":[]}`, "malformed escape at byte 6"},
		{"bad hexadecimal escape", `{"x":"\u00zz","records":[]}`, "malformed escape at byte 6"},
		{"control character", "{\"x\":\"\t\",\"records\":[]}", "control character in a string at byte 6"},
		{"control character in data", "{\"records\":[{\"recordId\":\"a\",\"data\":\"A\tA\"}]}", "control character in a string at byte 37"},
		{"newline in data", "{\"records\":[{\"recordId\":\"a\",\"data\":\"AA\nAA\"}]}", "control character in a string at byte 38"},
		{"id not UTF-8", "{\"records\":[{\"recordId\":\"\xff\",\"data\":\"\"}]}", "invalid UTF-8 at byte 25"},
		{"data not UTF-8", "{\"records\":[{\"recordId\":\"a\",\"data\":\"\xff\"}]}", "invalid UTF-8 at byte 36"},
		{"too deep", `{"x":` + strings.Repeat("[", 70), "nested too deeply at byte 69"},
	}
	h := firehose.New(newTransformer(t), firehose.Options{})
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			response, err := h.Handle(t.Context(), []byte(c.event))
			if err == nil {
				t.Fatalf("answered %s", response)
			}
			if got := err.Error(); got != "handle event: parse event: "+c.want {
				t.Errorf("error %q, want %q", got, c.want)
			}
		})
	}
}

// What is wrong with one record is answered by that record alone.
func TestBrokenRecords(t *testing.T) {
	good := base64.StdEncoding.EncodeToString([]byte(film(1, 3)))
	tests := []struct{ name, record, wantEcho, wantReason string }{
		{"no data", `{"recordId":"r"}`, "", "invalid_base64"},
		{"null data", `{"recordId":"r","data":null}`, "", "invalid_base64"},
		{"number", `{"recordId":"r","data":5}`, "", "invalid_base64"},
		{"empty data", `{"recordId":"r","data":""}`, "", "invalid_json"},
		{"not base64", `{"recordId":"r","data":"a*b"}`, "", "invalid_base64"},
		{"not padded", `{"recordId":"r","data":"YQ"}`, "", "invalid_base64"},
		{"not a record", `{"recordId":"r","data":"YQ=="}`, "YQ==", "invalid_json"},
		{"escapes", `{"recordId":"r","data":"\u0059Q=="}`, "YQ==", "invalid_json"},
		{"slashes", `{"recordId":"r","data":"\/\/8="}`, "//8=", "invalid_json"},
		{"broken shard", `{"recordId":"r","data":"YQ==","kinesisRecordMetadata":{"shardId":["x"],"sequenceNumber":{}}}`, "YQ==", "invalid_json"},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			var log bytes.Buffer
			event := fmt.Sprintf(`{"records":[%s,{"data":"%s","recordId":"good"}]}`, c.record, good)
			response, err := firehose.New(newTransformer(t), firehose.Options{Log: untimed(&log)}).Handle(t.Context(), []byte(event))
			if err != nil {
				t.Fatal(err)
			}
			checkResponse(t, []byte(event), response, firehose.DefaultResponseLimit)
			if want := fmt.Sprintf(`{"records":[{"recordId":"r","result":"ProcessingFailed","data":"%s"},`, c.wantEcho); !strings.HasPrefix(string(response), want) {
				t.Errorf("response begins %.120s, want %s", response, want)
			}
			if !strings.Contains(string(response), `{"recordId":"good","result":"Ok"`) {
				t.Errorf("the other record did not come through: %s", response)
			}
			want := fmt.Sprintf(`{"level":"ERROR","msg":"record failed","record_id":"r","table":"","reason":%q,"column":""}`+"\n", c.wantReason)
			if diff := cmp.Diff(want, log.String()); diff != "" {
				t.Errorf("log differs (-want +got):\n%s", diff)
			}
		})
	}
}

// The id is echoed in the spelling of the event, and logged as what it says.
func TestIDIsEchoedAsItStands(t *testing.T) {
	event := []byte(`{"records":[{"recordId":"\u0061\/é\"","data":"YQ=="}]}`)
	var log bytes.Buffer
	response, err := firehose.New(newTransformer(t), firehose.Options{Log: untimed(&log)}).Handle(t.Context(), event)
	if err != nil {
		t.Fatal(err)
	}
	if want := `"record_id":"a/é\""`; !strings.Contains(log.String(), want) {
		t.Errorf("log %s has no %s", &log, want)
	}
	want := `{"records":[{"recordId":"\u0061\/é\"","result":"ProcessingFailed","data":"YQ=="}]}`
	if string(response) != want {
		t.Errorf("response %s, want %s", response, want)
	}
}

// Rows of a mebibyte: those that fit beside the echoes of all others come
// through, the rest fail alone, and the response stays under Lambda's limit.
func TestResponseLimit(t *testing.T) {
	const mebibyte = 1 << 20
	// A record that fails is echoed in full, so it takes room too.
	data := []string{film(1, mebibyte), film(2, mebibyte), strings.Repeat("y", mebibyte), film(3, mebibyte), film(4, 10)}
	var log bytes.Buffer
	answers := handle(t, firehose.Options{Log: untimed(&log)}, firehose.AppendEvent(nil, firehose.EventInfo{}, stream(data...)))
	var got []transform.Outcome
	for _, a := range answers {
		got = append(got, a.Result)
	}
	want := []transform.Outcome{transform.Ok, transform.Ok, transform.ProcessingFailed, transform.Ok, transform.Ok}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("outcomes differ (-want +got):\n%s", diff)
	}
	// The same in less room: rows that are larger than their records no longer fit.
	var sized []string
	for i := range 5 {
		sized = append(sized, strings.Replace(film(i, 8), `"x`, `"\u0001`, 1))
	}
	event := firehose.AppendEvent(nil, firehose.EventInfo{}, stream(sized...))
	for limit := 450; limit < 4000; limit += 50 {
		handle(t, firehose.Options{ResponseLimit: limit}, event)
	}
	answers = handle(t, firehose.Options{ResponseLimit: 450}, event)
	for _, a := range answers {
		if a.Result != transform.ProcessingFailed || len(a.Data) != 0 {
			t.Errorf("answer %s with %d bytes in a response that has room for ids only", a.Result, len(a.Data))
		}
	}
	if _, err := firehose.New(newTransformer(t), firehose.Options{ResponseLimit: 100}).Handle(t.Context(), event); err == nil {
		t.Error("no error where not even the ids fit")
	}
}

// Rows longer than their records, as the quotes of an array are escaped in a
// text, fill a response: those past the limit fail, and the echoes still have
// room.
func TestResponseTooLarge(t *testing.T) {
	grown := strings.Replace(film(0, 0), `"title":""`, `"title":[`+strings.Repeat(`"",`, 60000)+`""]`, 1)
	var data []string
	for i := range 12 {
		data = append(data, strings.Replace(grown, "F0", fmt.Sprintf("F%d", i), 1))
	}
	var counts []firehose.Count
	answers := handle(t, firehose.Options{
		ResponseLimit: 4 << 20,
		Metrics: func(_ context.Context, c []firehose.Count) error {
			counts = c
			return nil
		},
	}, firehose.AppendEvent(nil, firehose.EventInfo{}, stream(data...)))
	failed := 0
	for _, a := range answers {
		if a.Result == transform.ProcessingFailed {
			failed++
		}
	}
	if failed == 0 || failed == len(answers) {
		t.Fatalf("%d of %d answers failed", failed, len(answers))
	}
	want := transform.ResponseTooLarge
	if counts[len(counts)-1].Reason != want || counts[len(counts)-1].Records != failed {
		t.Errorf("counts %+v, want %d records %s", counts, failed, want)
	}
}

// Neither logs nor metrics hold a value of a record.
func TestNoValueIsLogged(t *testing.T) {
	var log, metrics bytes.Buffer
	clock := func() time.Time { return time.UnixMilli(1772359200000) }
	o := firehose.Options{
		Log:     slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Metrics: firehose.NewEMF(&metrics, "icehose", clock).Write,
	}
	secret := strings.Replace(film(1, 0), `"rating":1`, `"rating":{"a":"s3cret"}`, 1)
	handle(t, o, firehose.AppendEvent(nil, firehose.EventInfo{DeliveryStreamARN: "arn:d"}, stream(secret, "s3cret", film(2, 1))))
	if strings.Contains(log.String()+metrics.String(), "s3cret") {
		t.Errorf("a value is in the log:\n%s%s", &log, &metrics)
	}
	if got := strings.Count(log.String(), `"msg":"record failed"`); got != 2 {
		t.Errorf("%d lines of failed records, want 2:\n%s", got, &log)
	}
	wantLine := `{"_aws":{"Timestamp":1772359200000,"CloudWatchMetrics":[{"Namespace":"icehose","Dimensions":[["stream","table","outcome","reason"],` +
		`["stream","outcome"]],"Metrics":[{"Name":"records","Unit":"Count"},{"Name":"bytes","Unit":"Bytes"},{"Name":"old_key_left","Unit":"Count"},` +
		`{"Name":"schema_drift","Unit":"Count"}]}]},"stream":"arn:d","table":"none","outcome":"ProcessingFailed","reason":"invalid_json","records":1,` +
		`"bytes":6,"old_key_left":0,"schema_drift":0}`
	if lines := strings.Split(metrics.String(), "\n"); len(lines) != 4 || lines[0] != wantLine {
		t.Errorf("metrics:\n%swant first:\n%s", &metrics, wantLine)
	}
}

// Metrics that cannot be written are said in the log and cost no batch.
func TestLostMetricsAreLogged(t *testing.T) {
	var log bytes.Buffer
	handle(t, firehose.Options{Log: untimed(&log), Metrics: func(context.Context, []firehose.Count) error { return errors.New("disk full") }},
		firehose.AppendEvent(nil, firehose.EventInfo{}, stream(film(1, 1))))
	if want := `{"level":"ERROR","msg":"metrics lost","error":"disk full"}` + "\n"; log.String() != want {
		t.Errorf("log %s, want %s", &log, want)
	}
}

func TestHandleStopsWhenCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := firehose.New(newTransformer(t), firehose.Options{}).Handle(ctx, []byte(`{"records":[]}`)); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
}

func TestParseResponse(t *testing.T) {
	tests := []struct{ name, response, want string }{
		{"invalid result", `{"records":[{"recordId":"a","result":"ok","data":""}]}`, "record with an invalid result at byte 12"},
		{"no id", `{"records":[{"result":"Ok","data":""}]}`, "record without a recordId at byte 12"},
		{"not base64", `{"records":[{"recordId":"a","result":"Ok","data":"*"}]}`, "data that is not base64 at byte 52"},
		{
			"operation", `{"records":[{"recordId":"a","result":"Ok","data":"","metadata":{"otfMetadata":{"operation":"upsert"}}}]}`,
			"operation that is not insert, update or delete at byte 99",
		},
		{"not JSON", `{"records":[`, "expected an object at byte 12"},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			_, err := firehose.ParseResponse([]byte(c.response))
			if err == nil || err.Error() != "parse response: "+c.want {
				t.Errorf("error %v, want %s", err, c.want)
			}
		})
	}
	got, err := firehose.ParseResponse([]byte(`{ "records" : [ {"result":"Ok", "recordId":"\u0061", "kafkaRecordValue":"e30=", "x":[1,{}],
		"metadata":{"partitionKeys":{}, "otfMetadata":{"destinationTableName":"t","destinationDatabaseName":"d"}}} ] }`))
	want := []firehose.ResponseRecord{{RecordID: "a", Result: transform.Ok, Data: []byte("{}"), Database: "d", Table: "t", Operation: cdc.Insert}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("records differ (%v) (-want +got):\n%s", err, diff)
	}
}

// Whatever bytes the records hold and however large they are, each is answered
// once, in order, under its id, and the response keeps its limit.
func TestLawEveryRecordIsAnswered(t *testing.T) {
	tr := newTransformer(t)
	rapid.Check(t, func(rt *rapid.T) {
		var data []string
		for range rapid.IntRange(0, 6).Draw(rt, "records") {
			if rapid.Bool().Draw(rt, "film") {
				data = append(data, film(rapid.IntRange(1, 3).Draw(rt, "number"), rapid.IntRange(0, 300).Draw(rt, "size")))
			} else {
				data = append(data, string(rapid.SliceOf(rapid.Byte()).Draw(rt, "bytes")))
			}
		}
		event := firehose.AppendEvent(nil, firehose.EventInfo{}, stream(data...))
		limit := rapid.IntRange(500, 4000).Draw(rt, "limit")
		h := firehose.New(tr, firehose.Options{ResponseLimit: limit})
		response, err := h.Handle(t.Context(), event)
		if err != nil {
			rt.Fatal(err)
		}
		again, err := h.Handle(t.Context(), event)
		if err != nil || !bytes.Equal(response, again) {
			rt.Errorf("the same event has two answers: %v", err)
		}
		if len(response) > limit {
			rt.Errorf("response of %d bytes, limit %d", len(response), limit)
		}
		answers, err := firehose.ParseResponse(response)
		if err != nil || len(answers) != len(data) {
			rt.Fatalf("%d answers to %d records: %v", len(answers), len(data), err)
		}
		for i, a := range answers {
			if want := fmt.Sprint(4900+i) + "000000"; a.RecordID != want {
				rt.Errorf("answer %d has id %s", i, a.RecordID)
			}
		}
	})
}

// FuzzHandle feeds arbitrary bytes as an event, and as the data of a record
// that stands in a good one.
func FuzzHandle(f *testing.F) {
	for _, seed := range []string{
		``, `{`, `{"records":[]}`, `{"records":[{"recordId":"a","data":"YQ=="}]}`, `{"records":[{"recordId":"\ud800","data":"\u0059Q=="}]}`,
		`{"records":[{"recordId":"a","data":"YQ==","data":null,"kafkaRecordValue":"e30="}],"records":[{"recordId":"b","data":"e30="}]}`,
		`{"records":[{"recordId":"a","kinesisRecordMetadata":{"shardId":-1e9,"sequenceNumber":"` + strings.Repeat("9", 99) + `"},"data":"e30="}]}`,
		`{"records":[{"recordId":"a","data":5,"kafkaRecordValue":"e30="},{"recordId":"b","data":{"x":[]},"kinesisRecordMetadata":[1]},{"recordId":"c","data":"e30=\n"}]}`,
		strings.Repeat(`{"records":`, 80), strings.Repeat("[", 1000), "\xff\xfe", "{\"records\":[{\"recordId\":\"\x00\"}]}",
		film(1, 3), film(1, 0)[:100], strings.Replace(film(1, 0), `"title":""`, `"title":"\ud83d"`, 1), strings.Replace(film(1, 1), "F1", `\u0000`, 1),
		strings.Replace(film(1, 1), `"rating":1`, `"rating":1e400`, 1), strings.Replace(film(1, 1), `"rating":1`, `"rating":-0.0000000000000000001`, 1),
	} {
		f.Add([]byte(seed))
	}
	tr := newTransformer(f)
	h := firehose.New(tr, firehose.Options{})
	f.Fuzz(func(t *testing.T, b []byte) {
		if response, err := h.Handle(t.Context(), b); err == nil {
			checkResponse(t, b, response, firehose.DefaultResponseLimit)
			checkOpened(t, tr, b, response)
		} else if _, err := firehose.Open(b); err == nil {
			t.Error("opened an event that is not answered")
		}
		event := firehose.AppendEvent(nil, firehose.EventInfo{}, stream(string(b), film(1, 1)))
		response, err := h.Handle(t.Context(), event)
		if err != nil {
			t.Fatal(err)
		}
		checkResponse(t, event, response, firehose.DefaultResponseLimit)
		checkOpened(t, tr, event, response)
		if _, err := firehose.ParseResponse(b); err == nil && len(b) == 0 {
			t.Error("no response is a response")
		}
	})
}
