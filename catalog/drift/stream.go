package drift

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"icehose/catalog"
)

// stream compares the delivery stream.
func (c *comparer) stream(s *Stream) {
	where := "stream " + s.Name
	if s.Status != "" && s.Status != "ACTIVE" {
		c.find(Finding{
			ID: "stream-not-active", Where: where, Field: "DeliveryStreamStatus", Have: s.Status, Want: "ACTIVE",
			Consequence: "nothing is delivered", Fix: "see FailureDescription of the stream",
		})
	}
	if s.Type != "" && s.Type != "KinesisStreamAsSource" {
		c.find(Finding{
			ID: "stream-source", Where: where, Field: "DeliveryStreamType", Have: s.Type, Want: "KinesisStreamAsSource",
			Consequence: "records have no sequence number, and loads have no order among themselves", Fix: "create the stream with a Kinesis stream as source",
		})
	}
	i := slices.IndexFunc(s.Destinations, func(d Destination) bool { return d.Iceberg != nil })
	if i < 0 {
		c.find(Finding{
			ID: "no-iceberg-destination", Where: where, Field: "Destinations",
			Consequence: "nothing of the pipeline is delivered by this stream", Fix: "create the stream with an Iceberg destination",
		})
		return
	}
	iceberg := s.Destinations[i].Iceberg
	c.streamTables(where, iceberg.Tables)
	c.modes(where, iceberg)
	c.buffers(where, iceberg)
	c.processing(where, iceberg.Processing)
}

// streamTables compares the list of tables and their unique keys.
func (c *comparer) streamTables(where string, have []DestinationTable) {
	const field = "DestinationTableConfigurationList"
	listed := make(map[string]bool)
	for _, t := range have {
		name := t.Database + "." + t.Table
		if listed[name] {
			c.find(Finding{
				ID: "table-listed-twice", Where: where, Field: field, Have: name,
				Consequence: "which unique keys count is not documented", Fix: "leave one entry for each table",
			})
		}
		listed[name] = true
		want := c.pipeline.ByTarget(t.Database, t.Table)
		if want == nil {
			c.find(Finding{
				ID: "table-not-in-file", Where: where, Field: field, Have: name,
				Consequence: "nothing is delivered to it any more", Fix: "take it out of the list, or add the table to the pipeline file",
			})
			continue
		}
		c.written(where, field+" "+name, want, t)
		keys := want.UniqueKeys()
		if !sameSet(t.UniqueKeys, keys) && len(keys) > 0 {
			c.find(Finding{
				ID: "unique-keys", Where: where, Field: field + " " + name, Have: strings.Join(t.UniqueKeys, ", "), Want: strings.Join(keys, ", "),
				Consequence: "updates and deletes find other rows than those that are meant, or fail",
				Fix:         "update the destination with firehose/destination-tables.json, then reconcile the table",
			})
		}
	}
	for _, t := range c.pipeline.Tables {
		if name := t.Database() + "." + t.Name(); !listed[name] {
			c.find(Finding{
				ID: "table-not-listed", Where: where, Field: field, Want: name,
				Consequence: missing(t), Fix: "update the destination with firehose/destination-tables.json",
			})
		}
	}
}

// written compares how Firehose writes a table with how it is to be written.
func (c *comparer) written(where, field string, want *catalog.Table, have DestinationTable) {
	if blind := want.BlindReaders(); len(blind) > 0 {
		names := make([]string, len(blind))
		for i, r := range blind {
			names[i] = string(r)
		}
		c.find(Finding{
			ID: "unreadable-deletes", Where: where, Field: field, Have: "merge-on-read", Want: string(catalog.CopyOnWrite),
			Consequence: "Firehose writes delete files, and " + strings.Join(names, ", ") + " would read the table wrong or not at all",
			Fix:         "deliver the table with icehose sink, make it a changelog, or take the reader out of readers:",
		})
	}
	if have.Partition == nil || len(have.Partition.Identity) == 0 {
		return
	}
	columns, fields := make([]string, len(have.Partition.Identity)), make([]string, len(want.Partition))
	for i, identity := range have.Partition.Identity {
		columns[i] = identity.Column
	}
	for i, f := range want.Partition {
		fields[i] = f.String()
	}
	if !slices.Equal(columns, fields) {
		c.find(Finding{
			ID: "stream-partition-spec", Where: where, Field: field, Have: strings.Join(columns, ", "), Want: strings.Join(fields, ", "),
			Consequence: "a table that Firehose has to create gets other partitions than those of the file, and none but by identity",
			Fix:         "take PartitionSpec out of the stream; catalog apply creates tables",
		})
	}
}

// missing says what becomes of a table that the stream does not list.
func missing(t *catalog.Table) string {
	if len(t.UniqueKeys()) > 0 {
		return "updates and deletes have no unique keys, unless the table's identifier gives them: else they go to the error bucket"
	}
	return "Firehose has not checked the table, and may not be able to route to it"
}

func sameSet(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// modes compares what Firehose does to tables.
func (c *comparer) modes(where string, iceberg *Iceberg) {
	mirrors := slices.ContainsFunc(c.pipeline.Tables, func(t *catalog.Table) bool { return len(t.UniqueKeys()) > 0 })
	switch {
	case iceberg.AppendOnly && mirrors:
		c.find(Finding{
			ID: "append-only", Where: where, Field: "AppendOnly", Have: "true", Want: "false",
			Consequence: "the pipeline has mirrors, and updates and deletes of such a stream are out of order or refused",
			Fix:         "create the stream anew without AppendOnly, or make the tables changelogs",
		})
	case !iceberg.AppendOnly && !mirrors:
		c.find(Finding{
			ID: "not-append-only", Where: where, Field: "AppendOnly", Have: "false", Want: "true",
			Consequence: "every table is a changelog, and the stream does not scale as it could", Fix: "create the stream with AppendOnly",
		})
	}
	for _, part := range []struct {
		field string
		have  *Enabled
	}{{"SchemaEvolutionConfiguration", iceberg.SchemaEvolution}, {"TableCreationConfiguration", iceberg.TableCreation}} {
		if part.have != nil && part.have.Enabled {
			c.find(Finding{
				ID: "tables-changed-by-firehose", Where: where, Field: part.field, Have: "enabled", Want: "disabled",
				Consequence: "Firehose makes columns and tables of its own choice, which the pipeline file does not have", Fix: "disable it; catalog apply changes tables",
			})
		}
	}
	if iceberg.Logging == nil || !iceberg.Logging.Enabled {
		c.find(Finding{
			ID: "no-logging", Where: where, Field: "CloudWatchLoggingOptions", Have: "disabled", Want: "enabled",
			Consequence: "why records fail is written nowhere but into the error bucket", Fix: "enable logging",
		})
	}
	if iceberg.Retry != nil && iceberg.Retry.Seconds != nil && *iceberg.Retry.Seconds < minRetry {
		c.find(Finding{
			ID: "short-retry", Where: where, Field: "RetryOptions.DurationInSeconds", Have: strconv.Itoa(*iceberg.Retry.Seconds), Want: strconv.Itoa(minRetry) + " or more",
			Consequence: "a commit that meets another one, of a compaction say, fails for good: file names go to the error bucket, not records",
			Fix:         "raise it",
		})
	}
}

const (
	// minRetry is the retry time, in seconds, that outlasts a compaction's commit.
	minRetry = 60
	// minInterval is the buffer interval, in seconds, below which commits and
	// small files pile up faster than they are compacted.
	minInterval = 60
	// maxLambdaBuffer is the Lambda's buffer, in MB, up to which its response
	// stays below 6 MB with the rows' metadata and the base64 around them.
	maxLambdaBuffer = 2
)

// buffers looks at when Firehose commits.
func (c *comparer) buffers(where string, iceberg *Iceberg) {
	switch {
	case iceberg.Buffering == nil && iceberg.S3 != nil && iceberg.S3.Buffering != nil:
		c.find(Finding{
			ID: "buffers-of-errors-only", Where: where, Field: "BufferingHints", Want: "set on the Iceberg destination",
			Consequence: "the hints of S3DestinationDescription are for the error bucket: tables get 5 MB or 300 seconds", Fix: "set BufferingHints of the Iceberg destination",
		})
	case iceberg.Buffering != nil && iceberg.Buffering.Seconds != nil && *iceberg.Buffering.Seconds < minInterval:
		c.find(Finding{
			ID: "short-buffer", Where: where, Field: "BufferingHints.IntervalInSeconds", Have: strconv.Itoa(*iceberg.Buffering.Seconds), Want: strconv.Itoa(minInterval) + " or more",
			Consequence: "each interval is a snapshot with small files, for every table", Fix: "raise it",
		})
	}
}

// processing looks at the call of the transform.
func (c *comparer) processing(where string, have *Processing) {
	var lambda *Processor
	if have != nil && have.Enabled {
		for i := range have.Processors {
			switch p := &have.Processors[i]; p.Type {
			case "Lambda":
				lambda = p
			case "MetadataExtraction", "AppendDelimiterToRecord", "RecordDeAggregation", "Decompression", "CloudWatchLogProcessing":
				c.find(Finding{
					ID: "other-processor", Where: where, Field: "ProcessingConfiguration", Have: p.Type, Want: "Lambda alone",
					Consequence: "records are not what the transform expects, or are routed by something else than the pipeline file", Fix: "remove the processor",
				})
			default:
				c.find(Finding{
					ID: "other-processor", Where: where, Field: "ProcessingConfiguration", Have: p.Type, Want: "Lambda alone",
					Consequence: "what it does is not known here", Fix: "remove the processor",
				})
			}
		}
	}
	if lambda == nil {
		c.find(Finding{
			ID: "no-transform", Where: where, Field: "ProcessingConfiguration", Want: "a Lambda processor",
			Consequence: "DMS records go to Iceberg as they are: every one fails", Fix: "add the transform",
		})
		return
	}
	arn, _ := lambda.parameter("LambdaArn")
	if want := c.deployed.Lambda; want != "" && arn != want {
		c.find(Finding{
			ID: "other-lambda", Where: where, Field: "LambdaArn", Have: arn, Want: want,
			Consequence: "another function, or another version of it, transforms the records", Fix: "update the destination",
		})
	}
	if text, ok := lambda.parameter("BufferSizeInMBs"); ok {
		if mb, err := strconv.ParseFloat(text, 64); err != nil || mb > maxLambdaBuffer {
			c.find(Finding{
				ID: "lambda-buffer", Where: where, Field: "BufferSizeInMBs", Have: text, Want: fmt.Sprintf("%d or less", maxLambdaBuffer),
				Consequence: "the response may pass Lambda's 6 MB: records that do not fit fail response_too_large", Fix: "lower it to 1",
			})
		}
	}
	if text, ok := lambda.parameter("NumberOfRetries"); ok && text == "0" {
		c.find(Finding{
			ID: "no-lambda-retries", Where: where, Field: "NumberOfRetries", Have: text, Want: "3",
			Consequence: "a batch whose call fails once goes to the error bucket", Fix: "set it to 3",
		})
	}
}
