package cloudformation_test

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"icehose/cloudformation"
	"icehose/internal/cwtest"
	"icehose/transform"
	"icehose/transform/firehose"
)

// documented are the metrics of AWS's own services that the stacks read, by
// namespace and dimensions. Sources: "Monitor Kinesis Data Streams with
// CloudWatch", "Monitor Firehose with CloudWatch metrics" (data delivery to
// Apache Iceberg Tables), "Metrics for Lambda functions", "Monitoring DMS
// tasks", "CloudWatch metrics for RDS".
var documented = []struct {
	namespace  string
	dimensions []string
	metrics    []string
}{
	{"AWS/Kinesis", []string{"StreamName"}, []string{"GetRecords.IteratorAgeMilliseconds", "IncomingRecords", "WriteProvisionedThroughputExceeded"}},
	{"AWS/Firehose", []string{"DeliveryStreamName"}, []string{"DeliveryToIceberg.DataFreshness", "DeliveryToIceberg.FailedRowCount", "KinesisMillisBehindLatest"}},
	{"AWS/Lambda", []string{"FunctionName"}, []string{"Errors", "Throttles"}},
	{"AWS/DMS", []string{"ReplicationInstanceIdentifier", "ReplicationTaskIdentifier"}, []string{"CDCLatencySource", "CDCLatencyTarget"}},
	{"AWS/RDS", []string{"DBInstanceIdentifier"}, []string{"OldestReplicationSlotLag"}},
}

// roles are those of delivery.yaml, which end the names of the delivery streams.
var roles = []string{"mirror", "changelog", "history"}

// dmsLog has lines as DMS's tasks log them, with what the filters look for.
const dmsLog = `2026-01-02T03:04:05 [TARGET_APPLY ]W: Skip this record, the size of the message is over the limit (kinesis_records.c:1)
2026-01-02T03:04:05 [TARGET_APPLY ]W: Using default partition key for table 'public'.'stock' (kinesis_records.c:1)
2026-01-02T03:04:05 [TASK_MANAGER ]W: Table 'public'.'stock' (subtask 1 thread 1) is suspended (replicationtask.c:1)
2026-01-02T03:04:05 [SORTER ]I: Transaction is opened for append (sorter_transaction.c:1)`

// dropped are the reasons that no record fails for.
var dropped = []transform.Reason{transform.Control, transform.Excluded, transform.InternalTable, transform.Superseded}

// transformLog is what the transform's Lambda logs of batches that end in every
// outcome and for every reason: failures and the rest.
func transformLog(t *testing.T) string {
	t.Helper()
	stream := "arn:aws:firehose:eu-central-1:1:deliverystream/" + cwtest.Pipeline + "-mirror"
	var counts []firehose.Count
	for _, reason := range transform.Reasons() {
		outcome := transform.ProcessingFailed
		if slices.Contains(dropped, reason) {
			outcome = transform.Dropped
		}
		c := firehose.Count{Stream: stream, Table: "public.stock", Outcome: outcome, Reason: reason, Records: 2, Bytes: 100}
		if reason == transform.Control {
			c.Drifts = 1
		}
		if reason == transform.InvalidJSON {
			c.Table = "" // nobody knows it
		}
		counts = append(counts, c)
	}
	counts = append(counts, firehose.Count{Stream: stream, Table: "public.stock", Outcome: transform.Ok, Records: 3, Bytes: 100, OldKeyLeft: 1})
	var out bytes.Buffer
	if err := firehose.NewEMF(&out, "icehose", func() time.Time { return time.Unix(1767323045, 0) }).Write(t.Context(), counts); err != nil {
		t.Fatal(err)
	}
	slog.New(slog.NewJSONHandler(&out, nil)).Error("record failed", slog.String("reason", "no_key"), slog.String("table", "public.stock"))
	return out.String()
}

// TestMetrics wants every metric that an alarm or the dashboard reads to come of
// something: of AWS's own services, of the Lambda's metric lines, or of a metric
// filter over lines that are logged.
func TestMetrics(t *testing.T) {
	t.Parallel()
	readers, filters, err := cwtest.Parse(cloudformation.Templates)
	if err != nil {
		t.Fatal(err)
	}
	logs := map[string]string{
		"TransformLog": transformLog(t), "TaskLog": dmsLog,
		// What a run of the reconcile's Lambda logs is held against the filter in its own tests.
		"ReconcileLog": `{"message":"table compared","table":"public.stock","verdict":"different"}`,
	}
	var published []cwtest.Metric
	for _, d := range documented {
		for _, name := range d.metrics {
			for _, role := range roles {
				m := cwtest.Metric{Namespace: d.namespace, Name: name, Dimensions: map[string]string{}}
				for _, dimension := range d.dimensions {
					m.Dimensions[dimension] = ""
					if dimension == "DeliveryStreamName" {
						m.Dimensions[dimension] = cwtest.Pipeline + "-" + role
					}
				}
				published = append(published, m)
			}
		}
	}
	for line := range strings.Lines(logs["TransformLog"]) {
		metrics, err := cwtest.Embedded(line)
		if err != nil {
			t.Fatal(err)
		}
		published = append(published, metrics...)
	}
	for _, f := range filters {
		n := 0
		for line := range strings.Lines(logs[f.Log]) {
			m, err := f.Published(line)
			if err != nil {
				t.Errorf("%s: %v", f.Template, err)
			}
			if m != nil {
				published = append(published, *m)
				n++
			}
		}
		if n == 0 || n == strings.Count(logs[f.Log], "\n")+1 && n > 1 {
			t.Errorf("%s: %s: the pattern %s matches %d lines of %s: want some and not all", f.Template, f.Resource, f.Pattern, n, f.Log)
		}
	}
	for _, r := range readers {
		if !slices.ContainsFunc(published, func(m cwtest.Metric) bool { return m.Covers(unplaced(r.Metric)) }) {
			t.Errorf("%s: %s reads %s, which nothing publishes", r.Template, r.Resource, r.Metric)
		}
	}
	checkReasons(t, readers)
}

// unplaced lets one delivery stream stand for those of the other roles.
func unplaced(m cwtest.Metric) cwtest.Metric {
	role, ok := strings.CutPrefix(m.Dimensions["stream"], "arn:aws:firehose:eu-central-1:1:deliverystream/"+cwtest.Pipeline+"-")
	if ok && slices.Contains(roles, role) {
		m.Dimensions["stream"] = ""
	}
	return m
}

// checkReasons wants an alarm for each reason that a record fails with.
func checkReasons(t *testing.T, readers []cwtest.Reader) {
	t.Helper()
	for _, reason := range transform.Reasons() {
		watched := slices.ContainsFunc(readers, func(r cwtest.Reader) bool { return r.Dimensions["reason"] == string(reason) })
		if fails := !slices.Contains(dropped, reason); watched != fails {
			t.Errorf("reason %s: an alarm %t, want %t", reason, watched, fails)
		}
	}
}
