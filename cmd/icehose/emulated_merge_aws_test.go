//go:build aws

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/athena"

	cdckinesis "icehose/cdc/kinesis"
	"icehose/internal/rietest"
)

// A mergeAnswer is what the merge Lambda answers.
type mergeAnswer struct {
	Tables, Read, Changed int
	PutOff                []string `json:"put_off"`
	ErrorMessage          string
}

// TestEmulatedMerge runs the program of the merge Lambda under the emulator of its
// runtime, with the environment and the event that its template gives it, beside
// icehose merge in this process, whose notes it reads. The emulator's Athena runs
// no statement: it says what it is told to, and that nothing was changed.
func TestEmulatedMerge(t *testing.T) {
	e := startAWS(t)
	place := []string{
		"--pipeline", emulatedPipeline, "--catalog", "glue", "--warehouse", e.output(t, "tables", "Warehouse"), "--uri", e.endpoint,
		"--prop", "s3.endpoint=" + e.endpoint, "--prop", "s3.force-virtual-addressing=false",
	}
	e.command(t, exitSame, append([]string{"catalog", "apply"}, place...)...)
	e.command(t, exitSame, append([]string{"sink", recorded(t, 0)}, place...)...)
	e.command(t, exitSame, append([]string{"merge"}, place...)...)
	function := rietest.StartFunction(t, os.Getenv("LAMBDA_RIE"), rietest.Build(t, "icehose/cmd/merge-lambda"), e.functionEnviron(t, "merge")...)
	event := e.output(t, "merge", "Event") // the scheduler's
	if a := mergeNow(t, function, event); a.Tables != 3 || a.Read != 0 || len(a.PutOff) > 0 {
		t.Errorf("nothing new: %+v\n%s", a, function.Output())
	}
	if n := len(e.statements(t)); n > 0 {
		t.Errorf("%d statements were sent, though nothing is new", n)
	}

	e.command(t, exitSame, append([]string{"sink", recorded(t, 5)}, place...)...)
	e.answer(t, []string{"7", "0", "0000.00000000000000090000000000000009.1.0000000000000001", "0", "", "", "", "", "0"})
	if a := mergeNow(t, function, event); a.Tables != 3 || a.Read != 7 || a.Changed != 0 {
		t.Errorf("rows that came: %+v\n%s", a, function.Output())
	}
	function.Await(t, func(output string) bool {
		return strings.Contains(output, `"message":"table merged","table":"public.customer","current":"tpcc.customer_folded","read":7,`) && strings.Contains(output, `"merge_read":7,`)
	})
	sent := e.statements(t)
	slices.Sort(sent)
	if len(sent) != 2 || !strings.HasPrefix(sent[0], "MERGE INTO") || !strings.HasPrefix(sent[1], "SELECT count(*)") || !strings.Contains(sent[0], `"customer_folded"`) {
		t.Errorf("statements %q, want a count and a merge", sent)
	}
	if a := mergeNow(t, function, event); a.Tables != 3 || a.Read != 0 {
		t.Errorf("what is noted is merged again: %+v", a)
	}
}

// recorded returns a file with recorded records of the changelogs, from the first
// on until each has one, and some of customers after them.
func recorded(t *testing.T, customers int) string {
	t.Helper()
	in, err := cdckinesis.Open("../../testdata/events/tpcc/events.ndjson.zst")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close() //nolint:errcheck // opened for reading
	named := regexp.MustCompile(`"table-name\\":\\"(customer|history|order_line)\\"`)
	seen := map[string]bool{}
	var text bytes.Buffer
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for (len(seen) < 3 || customers > 0) && lines.Scan() {
		found := named.FindStringSubmatch(lines.Text())
		switch {
		case found == nil || len(seen) == 3 && found[1] != "customer":
			continue
		case len(seen) == 3:
			customers--
		}
		seen[found[1]] = true
		text.Write(lines.Bytes())
		text.WriteByte('\n')
	}
	path := filepath.Join(t.TempDir(), "events.ndjson")
	if err := errors.Join(lines.Err(), os.WriteFile(path, text.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	return path
}

func mergeNow(t *testing.T, f *rietest.Function, event string) (a mergeAnswer) {
	t.Helper()
	answer := f.Invoke(t, []byte(event))
	if err := json.Unmarshal(answer, &a); err != nil || a.ErrorMessage != "" {
		t.Fatalf("answer %s: %v\n%s", answer, err, f.Output())
	}
	return a
}

// statements returns what was sent to the stack's workgroup.
func (e *emulatedAWS) statements(t *testing.T) []string {
	t.Helper()
	client := athena.NewFromConfig(e.config)
	group := e.output(t, "maintenance", "WorkGroup")
	listed, err := client.ListQueryExecutions(t.Context(), &athena.ListQueryExecutionsInput{WorkGroup: &group})
	if err != nil {
		t.Fatal(err)
	}
	var statements []string
	for _, id := range listed.QueryExecutionIds {
		execution, err := client.GetQueryExecution(t.Context(), &athena.GetQueryExecutionInput{QueryExecutionId: &id})
		if err != nil {
			t.Fatal(err)
		}
		statements = append(statements, *execution.QueryExecution.Query)
	}
	return statements
}

// answer has the emulator's Athena answer the next query with a row.
func (e *emulatedAWS) answer(t *testing.T, row []string) {
	t.Helper()
	type datum struct{ VarCharValue string }
	type line struct{ Data []datum }
	var header, data line
	for _, text := range row {
		header.Data, data.Data = append(header.Data, datum{"column"}), append(data.Data, datum{text})
	}
	body, err := json.Marshal(map[string]any{"results": []any{map[string]any{"rows": []line{header, data}, "column_info": []any{}}}})
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, e.endpoint+"/moto-api/static/athena/query-results", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close() //nolint:errcheck // nothing is read
	if response.StatusCode != http.StatusCreated {
		t.Fatalf("%s: %s", request.URL, response.Status)
	}
}
