package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

// With --stream-name and --glue the command asks AWS, where the environment
// says that it is.
func TestDriftAsksAWS(t *testing.T) {
	pipeline := t.TempDir() + "/pipeline.yaml"
	err := os.WriteFile(pipeline, []byte(`
version: 1
database: shop
source: {engine: postgresql, position: postgres}
tables:
  - {source: public.orders, mode: changelog, columns: [{name: id, type: long}]}
  - {source: public.lost, target: gone.lost, mode: changelog, columns: [{name: id, type: long}]}
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Header.Get("X-Amz-Target"))
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		answer := `{"TableList": []}`
		if body, err := io.ReadAll(r.Body); err == nil && strings.Contains(string(body), "gone") {
			w.WriteHeader(http.StatusBadRequest)
			answer = `{"__type": "EntityNotFoundException", "message": "Database gone not found."}`
		}
		if strings.HasPrefix(r.Header.Get("X-Amz-Target"), "Firehose") {
			answer = `{"DeliveryStreamDescription": {"DeliveryStreamName": "cdc", "DeliveryStreamStatus": "ACTIVE", "Destinations": []}}`
		}
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": server.URL, "AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y",
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull,
	} {
		t.Setenv(name, value)
	}
	var stdout, stderr bytes.Buffer
	args := []string{"--json", "catalog", "drift", "--pipeline", pipeline, "--stream-name", "cdc", "--glue"}
	status := run(context.Background(), args, environment{stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr, getenv: os.Getenv})
	if status != exitDifferent {
		t.Errorf("status %d, stderr %s", status, &stderr)
	}
	for _, want := range []string{`"id":"no-iceberg-destination"`, `"id":"no-table","where":"table shop.orders"`, `"id":"no-database","where":"database gone"`} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("no %s in %s", want, &stdout)
		}
	}
	if got := strings.Join(asked, " "); got != "Firehose_20150804.DescribeDeliveryStream AWSGlue.GetTables AWSGlue.GetTables" {
		t.Errorf("asked %s", got)
	}
}
