package firehose_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/transform"
	"icehose/transform/firehose"
)

var update = flag.Bool("update", false, "write golden files")

const goldenDir = "../../testdata/golden/transform"

func newTransformer(tb testing.TB) *transform.Transformer {
	tb.Helper()
	p, err := catalog.Load(filepath.Join(goldenDir, "pipeline.yaml"))
	if err != nil {
		tb.Fatal(err)
	}
	t, err := transform.New(p, transform.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// untimed is a log handler without the time, which a golden cannot hold.
func untimed(out *bytes.Buffer) *slog.Logger {
	return slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

func TestGolden(t *testing.T) {
	events, err := filepath.Glob(filepath.Join(goldenDir, "*.event.json"))
	if err != nil || len(events) != 3 {
		t.Fatalf("want three events, found %d: %v", len(events), err)
	}
	for _, path := range events {
		name := strings.TrimSuffix(filepath.Base(path), ".event.json")
		t.Run(name, func(t *testing.T) {
			event, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var log, report bytes.Buffer
			var counts []firehose.Count
			h := firehose.New(newTransformer(t), firehose.Options{Log: untimed(&log), Metrics: func(_ context.Context, c []firehose.Count) error {
				counts = c
				return nil
			}})
			response, err := h.Handle(t.Context(), event)
			if err != nil {
				t.Fatal(err)
			}
			checkResponse(t, event, response, firehose.DefaultResponseLimit)
			answers, err := firehose.ParseResponse(response)
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range answers {
				fmt.Fprintf(&report, "%s %s %s.%s %v\n", a.RecordID, a.Result, a.Database, a.Table, a.Operation)
				if a.Result == transform.Ok {
					fmt.Fprintf(&report, "  %s\n", a.Data)
				}
			}
			report.WriteString("\nlog\n" + log.String() + "\ncounts\n")
			for _, c := range counts {
				fmt.Fprintf(&report, "%+v\n", c)
			}
			golden(t, name+".response.json", append(response, '\n'))
			golden(t, name+".report.txt", report.Bytes())
		})
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join(goldenDir, name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", name, diff)
	}
}

// checkResponse reads a response with encoding/json, which shares nothing with
// the package, and checks what holds for every answer to an event. Payloads may
// be left out only of an event that is larger than the limit.
func checkResponse(tb testing.TB, event, response []byte, limit int) {
	tb.Helper()
	var in struct {
		Records []struct {
			RecordID         string `json:"recordId"`
			Data             any    `json:"data"`
			KafkaRecordValue any    `json:"kafkaRecordValue"`
		} `json:"records"`
	}
	var out struct {
		Records []map[string]json.RawMessage `json:"records"`
	}
	// Into maps, because a struct's fields match names in any case.
	var members map[string]json.RawMessage
	var records []map[string]any
	if err := json.Unmarshal(event, &members); err != nil {
		tb.Fatalf("answered an event that is not one: %v", err)
	}
	if err := json.Unmarshal(members["records"], &records); err != nil {
		tb.Fatalf("answered an event without records: %v", err)
	}
	in.Records = slices.Grow(in.Records, len(records))[:len(records)]
	for i, r := range records {
		in.Records[i].RecordID, _ = r["recordId"].(string)
		in.Records[i].Data, in.Records[i].KafkaRecordValue = r["data"], r["kafkaRecordValue"]
	}
	if err := json.Unmarshal(response, &out); err != nil {
		tb.Fatalf("response is not JSON: %v", err)
	}
	if len(in.Records) != len(out.Records) {
		tb.Fatalf("%d answers to %d records", len(out.Records), len(in.Records))
	}
	for i, answer := range out.Records {
		var id, result string
		var data []byte
		payload := answer["data"]
		if answer["kafkaRecordValue"] != nil {
			payload = answer["kafkaRecordValue"]
		}
		if json.Unmarshal(answer["recordId"], &id) != nil || json.Unmarshal(answer["result"], &result) != nil {
			tb.Fatalf("answer %d has no id or result", i)
		}
		if id != in.Records[i].RecordID {
			tb.Errorf("answer %d has id %q, want %q", i, id, in.Records[i].RecordID)
		}
		count := 3
		switch result {
		case "Ok":
			count = 4
			if err := json.Unmarshal(payload, &data); err != nil || !json.Valid(data) {
				tb.Errorf("answer %d delivers what is no row: %v", i, err)
			}
			var metadata map[string]map[string]string
			if err := json.Unmarshal(answer["metadata"], &metadata); err != nil || len(metadata) != 1 || len(metadata["otfMetadata"]) != 3 {
				tb.Errorf("answer %d has metadata %s: %v", i, answer["metadata"], err)
			}
		case "Dropped", "ProcessingFailed":
			var echo string
			if err := json.Unmarshal(payload, &echo); err != nil {
				tb.Errorf("answer %d echoes what is no string: %v", i, err)
			}
			sent, _ := in.Records[i].Data.(string)
			if kafka, ok := in.Records[i].KafkaRecordValue.(string); ok && answer["kafkaRecordValue"] != nil {
				sent = kafka
			}
			data, err := base64.StdEncoding.DecodeString(sent)
			if err != nil {
				data = nil // what is not base64 must not be echoed
			}
			quiet := echo == "" && len(event) > limit
			if want := base64.StdEncoding.EncodeToString(data); echo != want && !quiet && (echo != sent || err != nil) {
				tb.Errorf("answer %d echoes %q, want %q", i, echo, want)
			}
			if _, err := base64.StdEncoding.DecodeString(echo); err != nil {
				tb.Errorf("answer %d echoes what is not base64", i)
			}
		default:
			tb.Errorf("answer %d has result %q", i, result)
		}
		if len(answer) != count {
			tb.Errorf("answer %d (%s) has %d members, want %d", i, result, len(answer), count)
		}
	}
}
