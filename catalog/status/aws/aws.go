// Package aws observes a pipeline for package status through the AWS APIs: the DMS
// task, the Kinesis stream, the delivery streams, and CloudWatch's metrics of all
// of them. It changes nothing.
//
// In come clients of AWS's SDK and the names of the parts; out comes what was
// observed, and which part could not be and why.
package aws

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	cwtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	dms "github.com/aws/aws-sdk-go-v2/service/databasemigrationservice"
	dmstypes "github.com/aws/aws-sdk-go-v2/service/databasemigrationservice/types"
	"github.com/aws/aws-sdk-go-v2/service/firehose"
	fhtypes "github.com/aws/aws-sdk-go-v2/service/firehose/types"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"

	"icehose/catalog/status"
)

// CloudWatch is what is used of its client.
type CloudWatch interface {
	GetMetricData(context.Context, *cloudwatch.GetMetricDataInput, ...func(*cloudwatch.Options)) (*cloudwatch.GetMetricDataOutput, error)
	ListMetrics(context.Context, *cloudwatch.ListMetricsInput, ...func(*cloudwatch.Options)) (*cloudwatch.ListMetricsOutput, error)
}

// DMS is what is used of its client.
type DMS interface {
	DescribeReplicationTasks(context.Context, *dms.DescribeReplicationTasksInput, ...func(*dms.Options)) (*dms.DescribeReplicationTasksOutput, error)
	DescribeTableStatistics(context.Context, *dms.DescribeTableStatisticsInput, ...func(*dms.Options)) (*dms.DescribeTableStatisticsOutput, error)
	DescribeReplications(context.Context, *dms.DescribeReplicationsInput, ...func(*dms.Options)) (*dms.DescribeReplicationsOutput, error)
}

// Kinesis is what is used of its client.
type Kinesis interface {
	DescribeStreamSummary(context.Context, *kinesis.DescribeStreamSummaryInput, ...func(*kinesis.Options)) (*kinesis.DescribeStreamSummaryOutput, error)
}

// Firehose is what is used of its client.
type Firehose interface {
	DescribeDeliveryStream(context.Context, *firehose.DescribeDeliveryStreamInput, ...func(*firehose.Options)) (*firehose.DescribeDeliveryStreamOutput, error)
}

var (
	_ CloudWatch = (*cloudwatch.Client)(nil)
	_ DMS        = (*dms.Client)(nil)
	_ Kinesis    = (*kinesis.Client)(nil)
	_ Firehose   = (*firehose.Client)(nil)
)

// Names are those of the parts to observe; an empty one is left out.
type Names struct {
	Stream     string   // Kinesis stream
	Deliveries []string // delivery streams
	// Optional marks deliveries that need not be there.
	Optional  bool
	Task      string // DMS replication task
	Instance  string // DMS replication instance, for metrics
	Source    string // DB instance of RDS or Aurora
	Namespace string // of the transform's metrics; default icehose
}

// A Reader observes pipelines.
type Reader struct {
	CloudWatch CloudWatch
	DMS        DMS
	Kinesis    Kinesis
	Firehose   Firehose
}

// Read observes the parts. Failures and metrics are those of the window before
// now; a lag is the newest value in it.
func (r *Reader) Read(ctx context.Context, names Names, now time.Time, window time.Duration) *status.Observed {
	o := &observation{Reader: r, names: names, now: now, window: window}
	if names.Source != "" {
		o.source(ctx)
	}
	if names.Task != "" {
		o.task(ctx)
	}
	if names.Stream != "" {
		o.stream(ctx)
	}
	for _, name := range names.Deliveries {
		o.delivery(ctx, name)
	}
	return &o.seen
}

type observation struct {
	*Reader
	names  Names
	now    time.Time
	window time.Duration
	seen   status.Observed
}

func (o *observation) unread(part, name string, err error) {
	o.seen.Unread = append(o.seen.Unread, status.Unread{Part: part, Name: name, Err: err})
}

// A metric is a question to CloudWatch.
type metric struct {
	namespace, name, stat string
	dimensions            []cwtypes.Dimension
}

// maxQueries is how many metrics one call of GetMetricData takes.
const maxQueries = 500

// values returns, for each metric, its values in the window, the newest first.
func (o *observation) values(ctx context.Context, metrics []metric) ([][]float64, error) {
	const period = 60
	out := make([][]float64, len(metrics))
	for begin := 0; begin < len(metrics); begin += maxQueries {
		var queries []cwtypes.MetricDataQuery
		for i, m := range metrics[begin:min(begin+maxQueries, len(metrics))] {
			queries = append(queries, cwtypes.MetricDataQuery{
				Id: aws.String("m" + strconv.Itoa(begin+i)),
				MetricStat: &cwtypes.MetricStat{
					Metric: &cwtypes.Metric{Namespace: &m.namespace, MetricName: &m.name, Dimensions: m.dimensions},
					Period: aws.Int32(period), Stat: &m.stat,
				},
			})
		}
		pages := cloudwatch.NewGetMetricDataPaginator(o.CloudWatch, &cloudwatch.GetMetricDataInput{
			StartTime: aws.Time(o.now.Add(-o.window)), EndTime: &o.now, MetricDataQueries: queries, ScanBy: cwtypes.ScanByTimestampDescending,
		})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return nil, fmt.Errorf("get metric data: %w", err)
			}
			for _, result := range page.MetricDataResults {
				i, err := strconv.Atoi(strings.TrimPrefix(aws.ToString(result.Id), "m"))
				if err != nil || i < 0 || i >= len(out) {
					return nil, fmt.Errorf("get metric data: an answer to no question: %q", aws.ToString(result.Id))
				}
				out[i] = append(out[i], result.Values...)
			}
		}
	}
	return out, nil
}

// newest returns the newest value of a metric as a time in the given unit; nil
// if there is none.
func newest(values []float64, unit time.Duration) *time.Duration {
	if len(values) == 0 {
		return nil
	}
	d := time.Duration(values[0] * float64(unit))
	return &d
}

func sum(values []float64) (total float64) {
	for _, v := range values {
		total += v
	}
	return total
}

func dimension(name, value string) cwtypes.Dimension {
	return cwtypes.Dimension{Name: &name, Value: &value}
}

func (o *observation) source(ctx context.Context) {
	values, err := o.values(ctx, []metric{{"AWS/RDS", "OldestReplicationSlotLag", "Maximum", []cwtypes.Dimension{dimension("DBInstanceIdentifier", o.names.Source)}}})
	if err != nil {
		o.unread("source", o.names.Source, err)
		return
	}
	s := &status.Source{Name: o.names.Source}
	if len(values[0]) > 0 {
		s.Slot = aws.Int64(int64(values[0][0]))
	}
	o.seen.Source = s
}

func (o *observation) task(ctx context.Context) {
	name := o.names.Task
	out, err := o.DMS.DescribeReplicationTasks(ctx, &dms.DescribeReplicationTasksInput{
		Filters:         []dmstypes.Filter{{Name: aws.String("replication-task-id"), Values: []string{name}}},
		WithoutSettings: aws.Bool(true),
	})
	_, missing := errors.AsType[*dmstypes.ResourceNotFoundFault](err)
	if missing || err == nil && len(out.ReplicationTasks) == 0 {
		o.serverless(ctx)
		return
	}
	if err != nil {
		o.unread("task", name, fmt.Errorf("describe replication task: %w", err))
		return
	}
	task := &out.ReplicationTasks[0]
	t := &status.Task{Name: name, State: aws.ToString(task.Status), StopReason: aws.ToString(task.StopReason)}
	o.seen.Task = t
	arn := aws.ToString(task.ReplicationTaskArn)
	if t.State == "running" {
		if t.Suspended, err = o.suspended(ctx, arn); err != nil {
			o.unread("task", name, err)
		}
	}
	// The metrics name the task by the last part of its ARN.
	dimensions := []cwtypes.Dimension{
		dimension("ReplicationInstanceIdentifier", o.names.Instance), dimension("ReplicationTaskIdentifier", arn[strings.LastIndexByte(arn, ':')+1:]),
	}
	values, err := o.values(ctx, []metric{{"AWS/DMS", "CDCLatencySource", "Maximum", dimensions}, {"AWS/DMS", "CDCLatencyTarget", "Maximum", dimensions}})
	if err != nil {
		o.unread("task", name, err)
		return
	}
	t.Source, t.Target = newest(values[0], time.Second), newest(values[1], time.Second)
}

// serverless observes a replication of DMS Serverless. Its delays are not looked
// for: by which dimensions CloudWatch has them is not documented.
func (o *observation) serverless(ctx context.Context) {
	name := o.names.Task
	out, err := o.DMS.DescribeReplications(ctx, &dms.DescribeReplicationsInput{
		Filters: []dmstypes.Filter{{Name: aws.String("replication-config-id"), Values: []string{name}}},
	})
	switch {
	case err != nil:
		o.unread("task", name, fmt.Errorf("describe replication: %w", err))
	case len(out.Replications) == 0:
		o.unread("task", name, errors.New("no such task"))
	default:
		r := &out.Replications[0]
		reason := strings.Join(append([]string{aws.ToString(r.StopReason)}, r.FailureMessages...), " ")
		o.seen.Task = &status.Task{Name: name, State: aws.ToString(r.Status), StopReason: strings.TrimSpace(reason)}
	}
}

// suspended returns the tables that a running task does not read any more.
func (o *observation) suspended(ctx context.Context, arn string) ([]string, error) {
	var tables []string
	pages := dms.NewDescribeTableStatisticsPaginator(o.DMS, &dms.DescribeTableStatisticsInput{ReplicationTaskArn: &arn})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("describe table statistics: %w", err)
		}
		for _, s := range page.TableStatistics {
			switch strings.ToLower(aws.ToString(s.TableState)) {
			case "table error", "error", "table cancelled", "table is being suspended", "suspended":
				tables = append(tables, aws.ToString(s.SchemaName)+"."+aws.ToString(s.TableName))
			}
		}
	}
	return tables, nil
}

func (o *observation) stream(ctx context.Context) {
	name := o.names.Stream
	out, err := o.Kinesis.DescribeStreamSummary(ctx, &kinesis.DescribeStreamSummaryInput{StreamName: &name})
	if err != nil {
		o.unread("stream", name, fmt.Errorf("describe stream: %w", err))
		return
	}
	s := &status.Stream{Name: name, State: string(out.StreamDescriptionSummary.StreamStatus)}
	s.Retention = time.Duration(aws.ToInt32(out.StreamDescriptionSummary.RetentionPeriodHours)) * time.Hour
	o.seen.Stream = s
	values, err := o.values(ctx, []metric{{"AWS/Kinesis", "GetRecords.IteratorAgeMilliseconds", "Maximum", []cwtypes.Dimension{dimension("StreamName", name)}}})
	if err != nil {
		o.unread("stream", name, err)
		return
	}
	s.Age = newest(values[0], time.Millisecond)
}

func (o *observation) delivery(ctx context.Context, name string) {
	out, err := o.Firehose.DescribeDeliveryStream(ctx, &firehose.DescribeDeliveryStreamInput{DeliveryStreamName: &name})
	if _, missing := errors.AsType[*fhtypes.ResourceNotFoundException](err); missing && o.names.Optional {
		return
	}
	if err != nil {
		o.unread("delivery", name, fmt.Errorf("describe delivery stream: %w", err))
		return
	}
	description := out.DeliveryStreamDescription
	d := status.Delivery{Name: name, State: string(description.DeliveryStreamStatus)}
	for _, destination := range description.Destinations {
		if iceberg := destination.IcebergDestinationDescription; iceberg != nil && iceberg.S3DestinationDescription != nil {
			d.ErrorBucket = strings.TrimPrefix(aws.ToString(iceberg.S3DestinationDescription.BucketARN), "arn:aws:s3:::")
		}
	}
	if err := o.deliveryMetrics(ctx, &d, aws.ToString(description.DeliveryStreamARN)); err != nil {
		o.unread("delivery", name, err)
	}
	o.seen.Deliveries = append(o.seen.Deliveries, d)
}

func (o *observation) deliveryMetrics(ctx context.Context, d *status.Delivery, arn string) error {
	failures, metrics, err := o.failureMetrics(ctx, arn)
	if err != nil {
		return err
	}
	stream := []cwtypes.Dimension{dimension("DeliveryStreamName", d.Name)}
	values, err := o.values(ctx, append(metrics,
		metric{"AWS/Firehose", "DeliveryToIceberg.DataFreshness", "Maximum", stream},
		metric{"AWS/Firehose", "DeliveryToIceberg.FailedRowCount", "Sum", stream},
	))
	if err != nil {
		return err
	}
	for i, f := range failures {
		if f.Records = sum(values[i]); f.Records > 0 {
			d.Failures = append(d.Failures, f)
		}
	}
	d.Fresh, d.Refused = newest(values[len(metrics)], time.Second), sum(values[len(metrics)+1])
	return nil
}

// failureMetrics finds the tables and reasons that the transform of a delivery
// stream has failed with.
func (o *observation) failureMetrics(ctx context.Context, arn string) ([]status.Failure, []metric, error) {
	namespace, name := o.names.Namespace, "records"
	if namespace == "" {
		namespace = "icehose"
	}
	var failures []status.Failure
	var metrics []metric
	pages := cloudwatch.NewListMetricsPaginator(o.CloudWatch, &cloudwatch.ListMetricsInput{
		Namespace: &namespace, MetricName: &name,
		Dimensions: []cwtypes.DimensionFilter{
			{Name: aws.String("stream"), Value: &arn},
			{Name: aws.String("outcome"), Value: aws.String("ProcessingFailed")},
		},
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, nil, fmt.Errorf("list metrics: %w", err)
		}
		for _, m := range page.Metrics {
			var f status.Failure
			for _, d := range m.Dimensions {
				switch aws.ToString(d.Name) {
				case "table":
					f.Table = aws.ToString(d.Value)
				case "reason":
					f.Reason = aws.ToString(d.Value)
				}
			}
			if f.Table != "" && f.Reason != "" { // else it is the sum of all
				failures = append(failures, f)
				metrics = append(metrics, metric{namespace, name, "Sum", m.Dimensions})
			}
		}
	}
	return failures, metrics, nil
}
