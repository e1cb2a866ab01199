//go:build aws

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	kinesistypes "github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"

	cdckinesis "icehose/cdc/kinesis"
	"icehose/internal/rietest"
)

const (
	emulatedPipeline = "../../testdata/events/tpcc/pipeline.yaml"
	artifactBucket   = "shop-artifacts"
)

// An emulatedAWS is moto with the stacks of the TPC-C pipeline in it.
type emulatedAWS struct {
	endpoint string
	config   aws.Config
	stacks   map[string]map[string]any // outputs, by stack
	unknown  string                    // schema.table of the record that no stream delivers
	secret   string                    // ARN of the source's, which is empty at first
}

// A shardRecord is a record of the stream and its shard.
type shardRecord struct {
	shard string
	kinesistypes.Record
}

// command runs icehose in this process and demands an exit status.
func (e *emulatedAWS) command(t *testing.T, want int, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	got := run(t.Context(), args, environment{stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr, getenv: os.Getenv})
	if got != want {
		t.Fatalf("icehose %s: exit status %d, want %d\n%s%s", strings.Join(args, " "), got, want, &stdout, &stderr)
	}
	return stdout.String()
}

func (e *emulatedAWS) output(t *testing.T, stack, name string) string {
	t.Helper()
	value, ok := e.stacks[stack][name].(string)
	if !ok {
		t.Fatalf("stack %s has no output %s: %v", stack, name, e.stacks[stack])
	}
	return value
}

func (e *emulatedAWS) s3() *s3.Client {
	return s3.NewFromConfig(e.config, func(o *s3.Options) { o.UsePathStyle = true })
}

func (e *emulatedAWS) put(t *testing.T, bucket, key string, data []byte) {
	t.Helper()
	if _, err := e.s3().PutObject(t.Context(), &s3.PutObjectInput{Bucket: &bucket, Key: &key, Body: bytes.NewReader(data)}); err != nil {
		t.Fatal(err)
	}
}

// startAWS starts moto and creates the generated stacks in it.
func startAWS(t *testing.T) *emulatedAWS {
	t.Helper()
	python := os.Getenv("EMULATE_PYTHON")
	if python == "" {
		t.Fatal("EMULATE_PYTHON does not say where the emulator is: run make aws-test")
	}
	port := rietest.FreePort(t)
	e := &emulatedAWS{endpoint: "http://127.0.0.1:" + port}
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": e.endpoint, "AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "test",
		"AWS_SECRET_ACCESS_KEY": "test", "AWS_EC2_METADATA_DISABLED": "true",
	} {
		t.Setenv(name, value)
	}
	// The emulator itself must not ask the emulator.
	environ := slices.DeleteFunc(os.Environ(), func(pair string) bool { return strings.HasPrefix(pair, "AWS_ENDPOINT_URL=") })
	rietest.Start(t, port, environ, python, "../../cloudformation/emulate/serve.py", port)
	var err error
	if e.config, err = config.LoadDefaultConfig(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := e.s3().CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String(artifactBucket)}); err != nil {
		t.Fatal(err)
	}
	pipeline, err := os.ReadFile(emulatedPipeline)
	if err != nil {
		t.Fatal(err)
	}
	e.put(t, artifactBucket, "pipeline.yaml", pipeline)
	e.put(t, artifactBucket, "transform.zip", emptyZip)
	e.put(t, artifactBucket, "reconcile.zip", emptyZip)
	e.put(t, artifactBucket, "merge.zip", emptyZip)
	secret, err := secretsmanager.NewFromConfig(e.config).CreateSecret(t.Context(), &secretsmanager.CreateSecretInput{Name: aws.String("shop"), SecretString: aws.String("{}")})
	if err != nil {
		t.Fatal(err)
	}
	e.secret = *secret.ARN
	dir := t.TempDir()
	e.command(t, exitSame, "stack", "generate", "--pipeline", emulatedPipeline, "--out", dir)
	deploy := exec.CommandContext(t.Context(), python, "../../cloudformation/emulate/deploy.py", dir, "Name=shop", "ShardCount=2", "ArtifactBucket="+artifactBucket,
		"TransformKey=transform.zip", "ReconcileKey=reconcile.zip", "MergeKey=merge.zip", "PipelineKey=pipeline.yaml", "VpcId=vpc-1", "SubnetIds=subnet-1",
		"SourceSecretArn="+e.secret, "SourceTLS=disable", "Settle=2")
	var stderr bytes.Buffer
	deploy.Stderr = &stderr
	out, err := deploy.Output()
	if err != nil {
		t.Fatalf("deploy: %v\n%s", err, &stderr)
	}
	if err := json.Unmarshal(out, &e.stacks); err != nil {
		t.Fatalf("deploy printed %q: %v", out, err)
	}
	return e
}

// emptyZip is a zip without files: the emulator stores code and runs none.
var emptyZip = append([]byte("PK\x05\x06"), make([]byte, 18)...)

// TestEmulatedPipeline deploys the generated stacks of the recorded TPC-C
// pipeline into an emulator of AWS, sends its records through Kinesis and the
// transform Lambda, and lets every command that talks to AWS look at the result.
func TestEmulatedPipeline(t *testing.T) {
	e := startAWS(t)
	warehouse := e.output(t, "tables", "Warehouse")
	glue := []string{"--catalog", "glue", "--warehouse", warehouse, "--uri", e.endpoint, "--prop", "s3.endpoint=" + e.endpoint, "--prop", "s3.force-virtual-addressing=false"}
	apply := append([]string{"catalog", "apply", "--pipeline", emulatedPipeline}, glue...)
	e.command(t, exitSame, apply...)
	plan := append([]string{"catalog", "plan", "--pipeline", emulatedPipeline}, glue...)
	e.command(t, exitSame, plan...) // nothing is left to do

	// Delivery streams and tables are what the pipeline file says, and a look at
	// the wrong stream is not.
	for _, mode := range []string{"mirror", "changelog"} {
		e.command(t, exitSame, "catalog", "drift", "--pipeline", emulatedPipeline, "--only", mode, "--stream-name", e.output(t, mode, "DeliveryName"), "--glue",
			"--lambda", "arn:aws:lambda:us-east-1:123456789012:function:"+e.output(t, mode, "TransformName")+":$LATEST")
	}
	if text := e.command(t, exitDifferent, "catalog", "drift", "--pipeline", emulatedPipeline, "--stream-name", "shop-mirror"); !strings.Contains(text, "table-not-listed") {
		t.Errorf("drift of the whole file against the mirrors' stream: want table-not-listed in\n%s", text)
	}

	records := e.sendRecords(t)
	e.checkDelivery(t, records)
	e.checkRedrive(t, records)
	e.checkStatus(t)
	e.checkReconcile(t, glue)
}

// sendRecords puts every 16th recorded record, and one of an unknown table, on
// the stream and reads them back.
func (e *emulatedAWS) sendRecords(t *testing.T) []shardRecord {
	t.Helper()
	in, err := cdckinesis.Open("../../testdata/events/tpcc/events.ndjson.zst")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close() //nolint:errcheck // opened for reading
	var entries []kinesistypes.PutRecordsRequestEntry
	n := 0
	for r, err := range cdckinesis.Read(in) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n%16 == 0 {
			entries = append(entries, kinesistypes.PutRecordsRequestEntry{Data: bytes.Clone(r.Data), PartitionKey: aws.String(r.PartitionKey)})
		}
	}
	unknown := strings.Replace(string(entries[len(entries)-1].Data), `"schema-name":"public"`, `"schema-name":"elsewhere"`, 1)
	var named struct {
		Metadata struct {
			Table string `json:"table-name"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal([]byte(unknown), &named); err != nil {
		t.Fatal(err)
	}
	e.unknown = "elsewhere." + named.Metadata.Table
	entries = append(entries, kinesistypes.PutRecordsRequestEntry{Data: []byte(unknown), PartitionKey: aws.String("elsewhere")})
	client := kinesis.NewFromConfig(e.config)
	name := e.output(t, "stream", "StreamName")
	for batch := range slices.Chunk(entries, 500) {
		out, err := client.PutRecords(t.Context(), &kinesis.PutRecordsInput{StreamName: &name, Records: batch})
		if err != nil || aws.ToInt32(out.FailedRecordCount) > 0 {
			t.Fatalf("put records: %v", err)
		}
	}
	got := e.records(t)
	if len(got) != len(entries) {
		t.Fatalf("the stream holds %d records, %d were sent", len(got), len(entries))
	}
	return got
}

// records reads everything on the stream, shard by shard.
func (e *emulatedAWS) records(t *testing.T) []shardRecord {
	t.Helper()
	client := kinesis.NewFromConfig(e.config)
	name := e.output(t, "stream", "StreamName")
	shards, err := client.ListShards(t.Context(), &kinesis.ListShardsInput{StreamName: &name})
	if err != nil {
		t.Fatal(err)
	}
	if len(shards.Shards) != 2 {
		t.Errorf("the stream has %d shards, want 2", len(shards.Shards))
	}
	var records []shardRecord
	for _, shard := range shards.Shards {
		iterator, err := client.GetShardIterator(t.Context(), &kinesis.GetShardIteratorInput{
			StreamName: &name, ShardId: shard.ShardId, ShardIteratorType: kinesistypes.ShardIteratorTypeTrimHorizon,
		})
		if err != nil {
			t.Fatal(err)
		}
		for next := iterator.ShardIterator; ; {
			out, err := client.GetRecords(t.Context(), &kinesis.GetRecordsInput{ShardIterator: next})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range out.Records {
				records = append(records, shardRecord{*shard.ShardId, r})
			}
			if next = out.NextShardIterator; len(out.Records) == 0 {
				break
			}
		}
	}
	return records
}
