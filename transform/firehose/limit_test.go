package firehose_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/transform"
	"icehose/transform/firehose"
)

// checkOpened checks that an event taken apart has the results that a response
// answers, and returns them.
func checkOpened(tb testing.TB, tr *transform.Transformer, event, response []byte) []transform.Result {
	tb.Helper()
	e, err := firehose.Open(event)
	if err != nil {
		tb.Fatal(err)
	}
	answers, err := firehose.ParseResponse(response)
	results := e.Results(tr)
	if err != nil || len(answers) != len(results) {
		tb.Fatalf("%d answers, %d results: %v", len(answers), len(results), err)
	}
	for i := range results {
		r, a := &results[i], &answers[i]
		if r.ID != a.RecordID || r.Outcome != a.Result || r.Row.Operation != a.Operation {
			tb.Errorf("result %d is %q %s %s, the answer %q %s %s", i, r.ID, r.Outcome, r.Row.Operation, a.RecordID, a.Result, a.Operation)
		}
		if r.Outcome == transform.Ok && (!bytes.Equal(r.Row.Data, a.Data) || r.Row.Table.Name() != a.Table || r.Row.Table.Database() != a.Database) {
			tb.Errorf("result %d is another row than the answer", i)
		}
	}
	return results
}

// A record that no event can hold the id of, and an event that cannot be answered.
func TestNoEvent(t *testing.T) {
	if _, err := firehose.EventOf([]transform.Record{{ID: strings.Repeat("x", 6<<20)}}); err == nil || !strings.HasPrefix(err.Error(), "make event: form response: 1 record ids do not fit in ") {
		t.Errorf("got %v", err)
	}
	if _, err := firehose.Explain(newTransformer(t), transform.Record{ID: strings.Repeat("x", 6<<20)}); err == nil {
		t.Error("explained")
	}
	for event, want := range map[string]string{
		`[]`: "open event: parse event: expected an object at byte 0",
		"{\"records\":[{\"recordId\":\"a\",\"data\":\"\xff\"}]}": "open event: parse event: invalid UTF-8 at byte 36",
	} {
		if _, err := firehose.Open([]byte(event)); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// Without a limit of its own a response fills Lambda's six megabytes, and no
// more.
func TestDefaultLimitIsLambdas(t *testing.T) {
	grown := strings.Replace(film(0, 0), `"title":""`, `"title":[`+strings.Repeat(`"",`, 35000)+`""]`, 1)
	var data []string
	for i := range 30 {
		data = append(data, strings.Replace(grown, "F0", fmt.Sprintf("F%d", i), 1))
	}
	event := firehose.AppendEvent(nil, firehose.EventInfo{}, stream(data...))
	tr := newTransformer(t)
	response, err := firehose.New(tr, firehose.Options{}).Handle(t.Context(), event)
	if err != nil {
		t.Fatal(err)
	}
	opened := checkOpened(t, tr, event, response)
	if last := opened[len(opened)-1]; last.Reason != transform.ResponseTooLarge {
		t.Errorf("the last row is %s %s", last.Outcome, last.Reason)
	}
	// The records alone make an event of the same size.
	e, err := firehose.Open(event)
	if err != nil {
		t.Fatal(err)
	}
	if e, err = firehose.EventOf(e.Records); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(opened, e.Results(tr), cmp.Comparer(func(a, b *catalog.Table) bool { return a == b })); diff != "" {
		t.Errorf("results of an event made of the records (-event +made):\n%.1000s", diff)
	}
	const lambda = 6 * 1024 * 1024
	if len(response) > lambda || len(response) < lambda*9/10 {
		t.Errorf("a response of %d bytes, Lambda takes %d", len(response), lambda)
	}
}
