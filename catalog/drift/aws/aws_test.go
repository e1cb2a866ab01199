package aws_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/firehose"
	"github.com/aws/aws-sdk-go-v2/service/glue"
	"github.com/google/go-cmp/cmp"

	"icehose/catalog/drift"
	"icehose/catalog/drift/aws"
)

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// unfold turns the CLI's times into the seconds of the wire.
func unfold(t *testing.T, text []byte) map[string]any {
	t.Helper()
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	var walk func(any) any
	walk = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			for name, member := range v {
				if strings.HasSuffix(name, "Time") || strings.HasSuffix(name, "Timestamp") {
					member = 1767323045.5
				}
				v[name] = walk(member)
			}
		case []any:
			for i := range v {
				v[i] = walk(v[i])
			}
		}
		return v
	}
	out, ok := walk(v).(map[string]any)
	if !ok {
		t.Fatal("not an object")
	}
	return out
}

// serve answers as the services do; Glue gives one table a page.
func serve(t *testing.T) sdk.Config {
	t.Helper()
	stream, tables := unfold(t, read(t, "bad-stream.json")), unfold(t, read(t, "tables.json"))
	list, ok := tables["TableList"].([]any)
	if !ok {
		t.Fatal("no TableList")
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		var in struct{ DeliveryStreamName, DatabaseName, NextToken string }
		if err := json.Unmarshal(body, &in); err != nil {
			t.Error(err)
		}
		var out any
		switch target := r.Header.Get("X-Amz-Target"); {
		case target == "Firehose_20150804.DescribeDeliveryStream" && in.DeliveryStreamName == "cdc":
			out = stream
		case target == "AWSGlue.GetTables" && in.DatabaseName == "shop":
			page := len(in.NextToken)
			answer := map[string]any{"TableList": list[page : page+1]}
			if page+1 < len(list) {
				answer["NextToken"] = strings.Repeat("x", page+1)
			}
			out = answer
		case target == "AWSGlue.GetTables" && in.DatabaseName == "nowhere":
			w.WriteHeader(http.StatusBadRequest)
			out = map[string]string{"__type": "EntityNotFoundException", "message": "no such database"}
		default:
			w.WriteHeader(http.StatusBadRequest)
			out = map[string]string{"__type": "ResourceNotFoundException", "message": "no such thing"}
		}
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		_ = json.NewEncoder(w).Encode(out)
	}))
	t.Cleanup(server.Close)
	return sdk.Config{Region: "eu-central-1", BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider("x", "y", "")}
}

// The services and the CLI's files give the same descriptions.
func TestAsFiles(t *testing.T) {
	settings := serve(t)
	want, err := drift.ParseStream(read(t, "bad-stream.json"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := aws.Stream(t.Context(), firehose.NewFromConfig(settings), "cdc")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stream (-file +service):\n%s", diff)
	}
	wantTables, err := drift.ParseTables(read(t, "tables.json"))
	if err != nil {
		t.Fatal(err)
	}
	gotTables, missing, err := aws.Tables(t.Context(), glue.NewFromConfig(settings), []string{"nowhere", "shop"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"nowhere"}, missing); diff != "" {
		t.Errorf("missing databases (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(wantTables, gotTables); diff != "" {
		t.Errorf("tables (-file +service):\n%s", diff)
	}
}

func TestErrors(t *testing.T) {
	settings := serve(t)
	if _, err := aws.Stream(t.Context(), firehose.NewFromConfig(settings), "other"); err == nil || !strings.HasPrefix(err.Error(), "describe delivery stream other: ") {
		t.Errorf("stream: %v", err)
	}
	if _, _, err := aws.Tables(t.Context(), glue.NewFromConfig(settings), []string{"shop", "other"}); err == nil || !strings.HasPrefix(err.Error(), "list tables of other: ") {
		t.Errorf("tables: %v", err)
	}
}
