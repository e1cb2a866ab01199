package aws_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	cwtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	dms "github.com/aws/aws-sdk-go-v2/service/databasemigrationservice"
	dmstypes "github.com/aws/aws-sdk-go-v2/service/databasemigrationservice/types"
	"github.com/aws/aws-sdk-go-v2/service/firehose"
	fhtypes "github.com/aws/aws-sdk-go-v2/service/firehose/types"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	kinesistypes "github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/google/go-cmp/cmp"

	"icehose/catalog/status"
	statusaws "icehose/catalog/status/aws"
)

// A fake answers every call; err fails those of one service.
type fake struct {
	values map[string][]float64 // by metric name
	err    map[string]error     // by service
	listed [][]cwtypes.Dimension
	asked  []string // metrics, as name and dimension values
}

func (f *fake) GetMetricData(_ context.Context, in *cloudwatch.GetMetricDataInput, _ ...func(*cloudwatch.Options)) (*cloudwatch.GetMetricDataOutput, error) {
	if err := f.err["cloudwatch"]; err != nil {
		return nil, err
	}
	out := new(cloudwatch.GetMetricDataOutput)
	for _, q := range in.MetricDataQueries {
		name := *q.MetricStat.Metric.MetricName
		asked := name
		for _, d := range q.MetricStat.Metric.Dimensions {
			asked += " " + *d.Value
		}
		f.asked = append(f.asked, asked)
		out.MetricDataResults = append(out.MetricDataResults, cwtypes.MetricDataResult{Id: q.Id, Values: f.values[name]})
	}
	return out, nil
}

func (f *fake) ListMetrics(context.Context, *cloudwatch.ListMetricsInput, ...func(*cloudwatch.Options)) (*cloudwatch.ListMetricsOutput, error) {
	if err := f.err["cloudwatch"]; err != nil {
		return nil, err
	}
	out := new(cloudwatch.ListMetricsOutput)
	for _, dimensions := range f.listed {
		out.Metrics = append(out.Metrics, cwtypes.Metric{Dimensions: dimensions})
	}
	return out, nil
}

func (f *fake) DescribeReplicationTasks(_ context.Context, in *dms.DescribeReplicationTasksInput, _ ...func(*dms.Options)) (*dms.DescribeReplicationTasksOutput, error) {
	if err := f.err["dms"]; err != nil {
		return nil, err
	}
	if in.Filters[0].Values[0] != "shop-task" {
		return nil, &dmstypes.ResourceNotFoundFault{}
	}
	return &dms.DescribeReplicationTasksOutput{ReplicationTasks: []dmstypes.ReplicationTask{
		{Status: aws.String("running"), ReplicationTaskArn: aws.String("arn:aws:dms:eu:1:task:ABC")},
	}}, nil
}

func (f *fake) DescribeReplications(_ context.Context, in *dms.DescribeReplicationsInput, _ ...func(*dms.Options)) (*dms.DescribeReplicationsOutput, error) {
	if in.Filters[0].Values[0] != "serverless" {
		return new(dms.DescribeReplicationsOutput), nil
	}
	return &dms.DescribeReplicationsOutput{Replications: []dmstypes.Replication{
		{Status: aws.String("failed"), StopReason: aws.String("FATAL_ERROR"), FailureMessages: []string{"no capacity"}},
	}}, nil
}

func (f *fake) DescribeTableStatistics(context.Context, *dms.DescribeTableStatisticsInput, ...func(*dms.Options)) (*dms.DescribeTableStatisticsOutput, error) {
	if err := f.err["statistics"]; err != nil {
		return nil, err
	}
	return &dms.DescribeTableStatisticsOutput{TableStatistics: []dmstypes.TableStatistics{
		{SchemaName: aws.String("public"), TableName: aws.String("a"), TableState: aws.String("Table completed")},
		{SchemaName: aws.String("public"), TableName: aws.String("b"), TableState: aws.String("Table error")},
	}}, nil
}

func (f *fake) DescribeStreamSummary(context.Context, *kinesis.DescribeStreamSummaryInput, ...func(*kinesis.Options)) (*kinesis.DescribeStreamSummaryOutput, error) {
	if err := f.err["kinesis"]; err != nil {
		return nil, err
	}
	return &kinesis.DescribeStreamSummaryOutput{StreamDescriptionSummary: &kinesistypes.StreamDescriptionSummary{
		StreamStatus: kinesistypes.StreamStatusActive, RetentionPeriodHours: aws.Int32(168),
	}}, nil
}

func (f *fake) DescribeDeliveryStream(_ context.Context, in *firehose.DescribeDeliveryStreamInput, _ ...func(*firehose.Options)) (*firehose.DescribeDeliveryStreamOutput, error) {
	if err := f.err["firehose"]; err != nil {
		return nil, err
	}
	if *in.DeliveryStreamName != "shop-mirror" {
		return nil, &fhtypes.ResourceNotFoundException{}
	}
	return &firehose.DescribeDeliveryStreamOutput{DeliveryStreamDescription: &fhtypes.DeliveryStreamDescription{
		DeliveryStreamStatus: fhtypes.DeliveryStreamStatusActive, DeliveryStreamARN: aws.String("arn"),
		Destinations: []fhtypes.DestinationDescription{{IcebergDestinationDescription: &fhtypes.IcebergDestinationDescription{
			S3DestinationDescription: &fhtypes.S3DestinationDescription{BucketARN: aws.String("arn:aws:s3:::errors")},
		}}},
	}}, nil
}

func dimension(name, value string) cwtypes.Dimension {
	return cwtypes.Dimension{Name: &name, Value: &value}
}

var names = statusaws.Names{
	Stream: "shop-changes", Deliveries: []string{"shop-mirror", "shop-changelog"}, Optional: true, Task: "shop-task", Instance: "shop", Source: "db",
}

func read(f *fake, n statusaws.Names) *status.Observed {
	r := &statusaws.Reader{CloudWatch: f, DMS: f, Kinesis: f, Firehose: f}
	return r.Read(context.Background(), n, time.Unix(1000, 0), time.Hour)
}

func TestRead(t *testing.T) {
	f := &fake{
		values: map[string][]float64{
			"OldestReplicationSlotLag": {1024, 9}, "CDCLatencySource": {7}, "CDCLatencyTarget": {8}, "GetRecords.IteratorAgeMilliseconds": {1500},
			"DeliveryToIceberg.DataFreshness": {61}, "DeliveryToIceberg.FailedRowCount": {1, 2}, "records": {3, 4},
		},
		listed: [][]cwtypes.Dimension{
			{dimension("stream", "arn"), dimension("outcome", "ProcessingFailed")}, // the sum: not counted again
			{dimension("stream", "arn"), dimension("table", "public.a"), dimension("outcome", "ProcessingFailed"), dimension("reason", "no_key")},
		},
	}
	got := read(f, names)
	slot := int64(1024)
	want := &status.Observed{
		Source: &status.Source{Name: "db", Slot: &slot},
		Task:   &status.Task{Name: "shop-task", State: "running", Source: new(7 * time.Second), Target: new(8 * time.Second), Suspended: []string{"public.b"}},
		Stream: &status.Stream{Name: "shop-changes", State: "ACTIVE", Retention: 168 * time.Hour, Age: new(1500 * time.Millisecond)},
		Deliveries: []status.Delivery{{
			Name: "shop-mirror", State: "ACTIVE", Fresh: new(61 * time.Second), Refused: 3, ErrorBucket: "errors",
			Failures: []status.Failure{{Table: "public.a", Reason: "no_key", Records: 7}},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("observed differs (-want +got):\n%s", diff)
	}
	// DMS's metrics name the task by the end of its ARN.
	if !slices.Contains(f.asked, "CDCLatencySource shop ABC") {
		t.Errorf("asked for %q, want CDCLatencySource of shop and ABC", f.asked)
	}
}

// A task that is none may be one of DMS Serverless.
func TestServerless(t *testing.T) {
	want := &status.Observed{Task: &status.Task{Name: "serverless", State: "failed", StopReason: "FATAL_ERROR no capacity"}}
	if diff := cmp.Diff(want, read(&fake{}, statusaws.Names{Task: "serverless"})); diff != "" {
		t.Errorf("observed differs (-want +got):\n%s", diff)
	}
	if o := read(&fake{}, statusaws.Names{Task: "other"}); len(o.Unread) != 1 || o.Unread[0].Err.Error() != "no such task" {
		t.Errorf("no such task: unread %v", o.Unread)
	}
}

// A service that does not answer leaves a note, never a gap.
func TestUnread(t *testing.T) {
	down := errors.New("down")
	for service, want := range map[string][]string{
		"dms": {"task shop-task"}, "statistics": {"task shop-task"}, "kinesis": {"stream shop-changes"},
		"firehose":   {"delivery shop-mirror", "delivery shop-changelog"},
		"cloudwatch": {"source db", "task shop-task", "stream shop-changes", "delivery shop-mirror"},
	} {
		o := read(&fake{err: map[string]error{service: down}}, names)
		var got []string
		for _, u := range o.Unread {
			got = append(got, u.Part+" "+u.Name)
			if !errors.Is(u.Err, down) {
				t.Errorf("%s: %s %s: error %v, want it to wrap the service's", service, u.Part, u.Name, u.Err)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s is down: unread parts differ (-want +got):\n%s", service, diff)
		}
	}
	wanted := names
	wanted.Optional = false
	if o := read(&fake{}, wanted); len(o.Unread) != 1 || o.Unread[0].Name != "shop-changelog" {
		t.Errorf("a delivery stream that was named and is not there: unread %v", o.Unread)
	}
}
