package firehose_test

import (
	"fmt"
	"strings"
	"testing"

	"icehose/transform/firehose"
)

// Without a limit of its own a response fills Lambda's six megabytes, and no
// more.
func TestDefaultLimitIsLambdas(t *testing.T) {
	grown := strings.Replace(film(0, 0), `"title":""`, `"title":[`+strings.Repeat(`"",`, 35000)+`""]`, 1)
	var data []string
	for i := range 30 {
		data = append(data, strings.Replace(grown, "F0", fmt.Sprintf("F%d", i), 1))
	}
	event := firehose.AppendEvent(nil, firehose.EventInfo{}, stream(data...))
	response, err := firehose.New(newTransformer(t), firehose.Options{}).Handle(t.Context(), event)
	if err != nil {
		t.Fatal(err)
	}
	const lambda = 6 * 1024 * 1024
	if len(response) > lambda || len(response) < lambda*9/10 {
		t.Errorf("a response of %d bytes, Lambda takes %d", len(response), lambda)
	}
}
