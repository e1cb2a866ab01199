package firehose_test

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/transform"
	"icehose/transform/firehose"
)

// TestChangedAnswers has later records supersede earlier ones, and change their
// operation, in the memory of another response; and compares with the results
// of the same records.
func TestChangedAnswers(t *testing.T) {
	p, err := catalog.Parse("pipeline.yaml", []byte(`version: 1
database: shop
source: {engine: postgresql, position: postgres, nulls: included}
tables:
  - source: public.films
    mode: mirror
    key: [code]
    on_insert: insert
    columns: [{name: code, type: string}, {name: title, type: string}]
`))
	if err != nil {
		t.Fatal(err)
	}
	tr, err := transform.New(p, transform.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h := firehose.New(tr, firehose.Options{})
	var memory []byte
	changed := 0
	rapid.Check(t, func(t *rapid.T) {
		var texts []string
		for range rapid.IntRange(0, 12).Draw(t, "records") {
			text := film(rapid.IntRange(1, 9).Draw(t, "position"), rapid.IntRange(0, 50).Draw(t, "size"))
			text = strings.Replace(text, `"F`, rapid.SampledFrom([]string{`"", "code":"A", "x":"`, `"", "code":"B", "x":"`}).Draw(t, "key"), 1)
			texts = append(texts, strings.Replace(text, `"insert"`, rapid.SampledFrom([]string{`"insert"`, `"update"`, `"delete"`, `"none"`}).Draw(t, "operation"), 1))
		}
		records := stream(texts...)
		batch := make([]transform.Record, len(records))
		for i := range records {
			batch[i] = transform.Record{Data: records[i].Data}
		}
		want := tr.Batch(batch)
		event := firehose.AppendEvent(nil, firehose.EventInfo{}, records)
		response, err := h.Handle(t.Context(), event)
		if err != nil {
			t.Fatal(err)
		}
		if memory, err = h.HandleInto(t.Context(), memory, event); err != nil || !bytes.Equal(memory, response) {
			t.Fatalf("in old memory %s, %v, in new %s", memory, err, response)
		}
		answers, err := firehose.ParseResponse(response)
		if err != nil || len(answers) != len(want) {
			t.Fatalf("%d answers to %d records: %v", len(answers), len(want), err)
		}
		for i, a := range answers {
			data, operation := records[i].Data, cdc.Operation(0)
			if want[i].Outcome == transform.Ok {
				data, operation = want[i].Row.Data, want[i].Row.Operation
			}
			if want[i].Reason == transform.Superseded {
				changed++
			}
			if a.Result != want[i].Outcome || a.Operation != operation || !bytes.Equal(a.Data, data) || a.RecordID != records[i].SequenceNumber+"000000" {
				t.Errorf("answer %d is %+v, want %s %s %s", i, a, want[i].Outcome, operation, data)
			}
		}
	})
	if changed == 0 {
		t.Error("no record superseded another")
	}
}
