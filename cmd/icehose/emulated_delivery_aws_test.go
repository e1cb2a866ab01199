//go:build aws

package main

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	cwtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	dms "github.com/aws/aws-sdk-go-v2/service/databasemigrationservice"
	dmstypes "github.com/aws/aws-sdk-go-v2/service/databasemigrationservice/types"

	"icehose/catalog"
	"icehose/catalog/status"
	"icehose/cloudformation"
	"icehose/internal/cwtest"
	"icehose/internal/rietest"
	"icehose/transform"
	"icehose/transform/firehose"
)

// firehoseEvents packs records as Firehose does: those of one shard, in order. A
// record's id is its place in the stream, since the emulator gives sequence
// numbers of one shard to another.
func firehoseEvents(t *testing.T, arn string, records []shardRecord) [][]byte {
	t.Helper()
	var events [][]byte
	for begin, end := 0, 0; begin < len(records); begin = end {
		var list []map[string]any
		for end = begin; end < len(records) && end < begin+400 && records[end].shard == records[begin].shard; end++ {
			r := &records[end]
			at := r.ApproximateArrivalTimestamp.UnixMilli()
			list = append(list, map[string]any{
				"recordId": fmt.Sprintf("%056d", end), "approximateArrivalTimestamp": at, "data": base64.StdEncoding.EncodeToString(r.Data),
				"kinesisRecordMetadata": map[string]any{
					"sequenceNumber": *r.SequenceNumber, "subsequenceNumber": 0, "partitionKey": *r.PartitionKey,
					"shardId": r.shard, "approximateArrivalTimestamp": at,
				},
			})
		}
		event, err := json.Marshal(map[string]any{
			"invocationId": "emulated", "deliveryStreamArn": arn, "sourceKinesisStreamArn": "arn:aws:kinesis:us-east-1:123456789012:stream/shop-changes",
			"region": "us-east-1", "records": list,
		})
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, event)
	}
	return events
}

// checkDelivery runs the real Lambda of both delivery streams, with the
// environment that its template gives it, over what is on the stream. Each
// answer must be what the library gives, each change must be delivered by one of
// the two streams, and the metrics go to CloudWatch as Lambda's log would bring
// them there.
func (e *emulatedAWS) checkDelivery(t *testing.T, records []shardRecord) {
	t.Helper()
	bootstrap := rietest.Build(t, "icehose/cmd/transform-lambda")
	p, err := catalog.Load(emulatedPipeline)
	if err != nil {
		t.Fatal(err)
	}
	delivered := make(map[string]int) // record id -> streams
	rows := make(map[string]int)
	for _, mode := range []catalog.Mode{catalog.Mirror, catalog.Changelog} {
		environ := []string{"AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_ENDPOINT_URL_S3=" + e.endpoint}
		variables, ok := e.stacks[string(mode)]["Environment"].(map[string]any)
		if !ok {
			t.Fatalf("the stack of %s gives its Lambda no environment", mode)
		}
		for name, value := range variables {
			environ = append(environ, fmt.Sprintf("%s=%v", name, value))
		}
		function := rietest.StartFunction(t, os.Getenv("LAMBDA_RIE"), bootstrap, environ...)
		tr, err := transform.New(p, transform.Options{Only: mode})
		if err != nil {
			t.Fatal(err)
		}
		handler := firehose.New(tr, firehose.Options{})
		for _, event := range firehoseEvents(t, e.output(t, string(mode), "DeliveryArn"), records) {
			got := function.Invoke(t, event)
			want, err := handler.HandleInto(t.Context(), nil, event)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Fatalf("%s: the Lambda answers other than the library:\n%.300s\n%.300s", mode, got, want)
			}
			countRows(t, got, delivered, rows)
		}
		output := function.Await(t, func(output string) bool { return measuredRecords(output) == len(records) })
		e.publish(t, output)
		e.checkAlarms(t, e.output(t, string(mode), "DeliveryArn"), output)
	}
	if len(rows) != len(p.Tables) {
		t.Errorf("rows came for %d tables, want %d: %v", len(rows), len(p.Tables), rows)
	}
	for id, n := range delivered {
		if n > 1 {
			t.Errorf("record %s was delivered by %d streams", id, n)
		}
	}
}

// countRows counts the rows of an answer by record and table.
func countRows(t *testing.T, answer []byte, delivered, rows map[string]int) {
	t.Helper()
	var response struct {
		Records []struct {
			ID       string `json:"recordId"`
			Result   string `json:"result"`
			Metadata struct {
				OTF struct {
					Table string `json:"destinationTableName"`
				} `json:"otfMetadata"`
			} `json:"metadata"`
		} `json:"records"`
	}
	if err := json.Unmarshal(answer, &response); err != nil {
		t.Fatal(err)
	}
	for _, r := range response.Records {
		if r.Result == "Ok" {
			delivered[r.ID]++
			rows[r.Metadata.OTF.Table]++
		}
	}
}

// measuredRecords adds up the records that lines of metrics tell of.
func measuredRecords(output string) (n int) {
	for line := range strings.Lines(output) {
		var counted struct {
			Records int `json:"records"`
		}
		if at := strings.IndexByte(line, '{'); at >= 0 && strings.HasSuffix(line, "\n") && strings.Contains(line, "CloudWatchMetrics") &&
			json.Unmarshal([]byte(line[at:]), &counted) == nil {
			n += counted.Records
		}
	}
	return n
}

// checkAlarms wants the failure of the unknown table among the metrics that the
// alarms read, as the stacks' metric filters make them of the Lambda's log.
func (e *emulatedAWS) checkAlarms(t *testing.T, arn, output string) {
	t.Helper()
	_, filters, err := cwtest.Parse(cloudformation.Templates)
	if err != nil {
		t.Fatal(err)
	}
	missing := map[string]bool{
		"icehose/shop failed reason=unknown_table stream=" + arn: true, "icehose/shop failed_by_table stream=" + arn + " table=" + e.unknown: true,
		"icehose records outcome=ProcessingFailed stream=" + arn: true,
	}
	for line := range strings.Lines(output) {
		at := strings.IndexByte(line, '{')
		if at < 0 || !json.Valid([]byte(line[at:])) {
			continue
		}
		published, err := cwtest.Embedded(line[at:])
		if err != nil {
			t.Error(err)
		}
		for _, f := range filters {
			if m, err := f.Published(line[at:]); err != nil {
				t.Error(err)
			} else if m != nil && f.Log == "TransformLog" {
				published = append(published, *m)
			}
		}
		for _, m := range published {
			delete(missing, m.String())
		}
	}
	for name := range missing {
		t.Errorf("no metric %s of what the Lambda has logged", name)
	}
}

// publish does what CloudWatch does with lines of the Embedded Metric Format.
func (e *emulatedAWS) publish(t *testing.T, output string) {
	t.Helper()
	client := cloudwatch.NewFromConfig(e.config)
	// moto's windows end at a whole second: what is of the present one is not in them.
	measured := time.Now().Add(-time.Minute)
	sent := 0
	for line := range strings.Lines(output) {
		at := strings.IndexByte(line, '{')
		if at < 0 || !strings.Contains(line, "CloudWatchMetrics") {
			continue
		}
		var fields map[string]any
		if err := json.Unmarshal([]byte(line[at:]), &fields); err != nil {
			t.Fatalf("a metric line is no JSON: %v: %s", err, line)
		}
		var rules struct {
			AWS struct {
				Metrics []struct {
					Namespace  string
					Dimensions [][]string
					Metrics    []struct{ Name string }
				} `json:"CloudWatchMetrics"`
			} `json:"_aws"`
		}
		if err := json.Unmarshal([]byte(line[at:]), &rules); err != nil {
			t.Fatal(err)
		}
		for _, rule := range rules.AWS.Metrics {
			var data []cwtypes.MetricDatum
			for _, names := range rule.Dimensions {
				var dimensions []cwtypes.Dimension
				for _, name := range names {
					dimensions = append(dimensions, cwtypes.Dimension{Name: &name, Value: aws.String(fmt.Sprint(fields[name]))})
				}
				for _, m := range rule.Metrics {
					value, ok := fields[m.Name].(float64)
					if !ok {
						t.Fatalf("metric %s is no number: %s", m.Name, line)
					}
					data = append(data, cwtypes.MetricDatum{MetricName: &m.Name, Dimensions: dimensions, Value: &value, Timestamp: &measured})
				}
			}
			if _, err := client.PutMetricData(t.Context(), &cloudwatch.PutMetricDataInput{Namespace: &rule.Namespace, MetricData: data}); err != nil {
				t.Fatal(err)
			}
			sent += len(data)
		}
	}
	if sent == 0 {
		t.Fatalf("the Lambda wrote no metrics:\n%.2000s", output)
	}
}

// checkRedrive leaves a changelog's record in the error bucket, as Firehose does
// when a call of the Lambda fails, and sends it again.
func (e *emulatedAWS) checkRedrive(t *testing.T, records []shardRecord) {
	t.Helper()
	at := slices.IndexFunc(records, func(r shardRecord) bool {
		return bytes.Contains(r.Data, []byte(`"table-name":"history"`)) && bytes.Contains(r.Data, []byte(`"record-type":"data"`))
	})
	if at < 0 {
		t.Fatal("the sample has no change of history")
	}
	object := fmt.Sprintf(`{"attemptsMade":4,"arrivalTimestamp":1,"errorCode":"Lambda.FunctionError","errorMessage":"error","attemptEndingTimestamp":2,"rawData":%q,"lambdaARN":"arn"}`+"\n",
		base64.StdEncoding.EncodeToString(records[at].Data))
	bucket := e.output(t, "changelog", "ErrorBucket")
	e.put(t, bucket, "processing-failed/2026/01/02/03/shop-changelog-1", []byte(object))
	e.command(t, exitSame, "redrive", "--pipeline", emulatedPipeline, "--only", "changelog", "--send", "--stream", e.output(t, "stream", "StreamName"),
		"--progress", filepath.Join(t.TempDir(), "progress"), "s3://"+bucket+"/processing-failed/")
	again := e.records(t)
	n := 0
	for _, r := range again {
		if bytes.Equal(r.Data, records[at].Data) {
			n++
		}
	}
	if len(again) != len(records)+1 || n != 2 {
		t.Errorf("after the redrive the stream holds %d records, %d times the one; want %d and 2", len(again), n, len(records)+1)
	}
}

// checkStatus wants the unknown table's failure, a stopped task and a table that
// differs to be red, each with its next step, and nothing else.
func (e *emulatedAWS) checkStatus(t *testing.T) {
	t.Helper()
	client := dms.NewFromConfig(e.config)
	arn := e.output(t, "migration", "TaskArn")
	if _, err := client.StartReplicationTask(t.Context(), &dms.StartReplicationTaskInput{
		ReplicationTaskArn: &arn, StartReplicationTaskType: dmstypes.StartReplicationTaskTypeValueStartReplication,
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.StopReplicationTask(t.Context(), &dms.StopReplicationTaskInput{ReplicationTaskArn: &arn}); err != nil {
		t.Fatal(err)
	}
	bucket := e.output(t, "tables", "Bucket")
	ended := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	e.put(t, bucket, "reports/1.json", []byte(`{"verdict":"different","ended":"`+ended+`","tables":[{"table":"public.item","verdict":"equal"},{"table":"public.stock","verdict":"different","why":"3 rows"}]}`))
	args := []string{"status", "--name", "shop", "--db-instance", "shop-primary", "--report", "s3://" + bucket + "/reports"}
	var report status.Report
	if err := json.Unmarshal([]byte(e.command(t, exitDifferent, append(args, "--json")...)), &report); err != nil {
		t.Fatal(err)
	}
	var red []string
	for _, l := range report.Lines {
		if l.Light == status.OK {
			continue
		}
		red = append(red, l.Part+" "+l.Name+" "+l.What)
		if l.Next == "" {
			t.Errorf("%s %s is %s and has no next step", l.Part, l.Name, l.Light)
		}
	}
	want := []string{
		"task shop-task state", "transform shop-mirror failed unknown_table of " + e.unknown,
		"transform shop-changelog failed unknown_table of " + e.unknown, "verdict public.stock verdict",
	}
	slices.SortFunc(red, cmp.Compare)
	slices.SortFunc(want, cmp.Compare)
	if !slices.Equal(red, want) {
		t.Errorf("red lines\n%s\nwant\n%s", strings.Join(red, "\n"), strings.Join(want, "\n"))
	}
	if text := e.command(t, exitDifferent, args...); !strings.Contains(text, "4 red, 0 not observed") {
		t.Errorf("the text does not count 4 red lines:\n%s", text)
	}
}
