//go:build aws

package main

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"icehose/internal/rietest"
)

// A deployment is deploy.sh with the AWS CLI, in an emulator of CloudFormation.
type deployment struct {
	dir, endpoint, python string
	environ               []string
}

func startDeployment(t *testing.T) *deployment {
	t.Helper()
	python := os.Getenv("EMULATE_PYTHON")
	if python == "" {
		t.Fatal("EMULATE_PYTHON does not say where the emulator is: run make aws-test")
	}
	port := rietest.FreePort(t)
	d := &deployment{dir: t.TempDir(), endpoint: "http://127.0.0.1:" + port, python: python}
	environ := slices.DeleteFunc(os.Environ(), func(pair string) bool { return strings.HasPrefix(pair, "AWS_") })
	rietest.Start(t, port, append(environ, "MINISTACK_ACCOUNT_ID=123456789012", "MINISTACK_REGION=us-east-1", "GATEWAY_PORT="+port, "LOG_LEVEL=ERROR"),
		python, "../../cloudformation/emulate/stacks.py", port)
	cli, err := filepath.Abs("../../cloudformation/emulate/aws.py")
	if err != nil {
		t.Fatal(err)
	}
	aws := filepath.Join(d.dir, "aws")
	d.write(t, "aws", "#!/bin/sh\nexec "+python+" "+cli+" \"$@\"\n")
	if err := os.Chmod(aws, 0o700); err != nil {
		t.Fatal(err)
	}
	d.environ = append(environ, "AWS_ENDPOINT_URL="+d.endpoint, "AWS_REGION=us-east-1", "AWS_DEFAULT_REGION=us-east-1", "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test",
		"AWS_EC2_METADATA_DISABLED=true", "AWS="+aws, "ICEHOSE=icehose", "POLL=1", "DIST=.", "ENVDIR=.")
	d.aws(t, "s3", "mb", "s3://shop-artifacts")
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	if _, err := w.Create("bootstrap"); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"transform", "reconcile", "merge"} {
		d.write(t, name+"-lambda-arm64.zip", archive.String())
	}
	pipeline, err := os.ReadFile(emulatedPipeline)
	if err != nil {
		t.Fatal(err)
	}
	d.write(t, "pipeline.yaml", string(pipeline))
	d.write(t, "common.yaml", "ArtifactBucket: shop-artifacts\nSourceSecretArn: arn:aws:secretsmanager:us-east-1:123456789012:secret:shop-AbCdEf\n"+
		"VpcId: vpc-0123456789abcdef0\nSubnetIds: [subnet-0123456789abcdef0, subnet-0123456789abcdef1]\n")
	d.write(t, "dev.yaml", "Name: shop\n")
	d.write(t, "small.yaml", "Name: small\nMigration: serverless\nReconcile: \"no\"\nMaintenance: \"no\"\n")
	return d
}

func (d *deployment) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(d.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// run runs a program with one line of input.
func (d *deployment) run(t *testing.T, environ []string, input, program string, args ...string) (output string, status int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir, cmd.Env, cmd.Stdin = d.dir, append(slices.Clone(d.environ), environ...), strings.NewReader(input+"\n")
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func (d *deployment) aws(t *testing.T, args ...string) string {
	t.Helper()
	out, status := d.run(t, nil, "", filepath.Join(d.dir, "aws"), args...)
	if status != 0 {
		t.Fatalf("aws %s: exit status %d\n%s", strings.Join(args, " "), status, out)
	}
	return strings.TrimSpace(out)
}

// deploy runs deploy.sh, demands an exit status, and returns its output from the
// change set on.
func (d *deployment) deploy(t *testing.T, want int, input, command, environment string, environ ...string) string {
	t.Helper()
	script, err := filepath.Abs("../../cloudformation/deploy.sh")
	if err != nil {
		t.Fatal(err)
	}
	out, status := d.run(t, environ, input, "bash", script, command, environment)
	if status != want {
		t.Fatalf("deploy.sh %s %s: exit status %d, want %d\n%s", command, environment, status, want, out)
	}
	if at := strings.Index(out, "== change set"); at >= 0 {
		out = out[at:]
	}
	return out
}

// calls returns the calls of DMS that changed something since the last look.
func (d *deployment) calls(t *testing.T, seen *int) []string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.endpoint, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Amz-Target", "AmazonDMSv20160101.Calls")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close() //nolint:errcheck // read to its end
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var calls []string
	if err := json.Unmarshal(text, &calls); err != nil {
		t.Fatal(err)
	}
	fresh := calls[*seen:]
	*seen = len(calls)
	return fresh
}

// inOrder fails unless the texts come one after the other.
func inOrder(t *testing.T, output string, texts ...string) {
	t.Helper()
	rest := output
	for _, text := range texts {
		_, after, ok := strings.Cut(rest, text)
		if !ok {
			t.Fatalf("no %q, or not after what comes before it, in\n%s", text, output)
		}
		rest = after
	}
}

var (
	firstStart = []string{"ModifyEndpoint", "TestConnection", "TestConnection", "StartReplicationTask start-replication"}
	resume     = []string{"ModifyEndpoint", "TestConnection", "TestConnection", "StartReplicationTask resume-processing"}
)

// TestEmulatedDeploy takes a pipeline through its life with deploy.sh: deployed in
// stages, started, deployed again, changed while it runs, changed in vain, stopped
// and deleted.
func TestEmulatedDeploy(t *testing.T) {
	t.Parallel()
	d := startDeployment(t)
	seen := 0
	wantCalls := func(what string, want ...string) {
		t.Helper()
		if got := d.calls(t, &seen); !slices.Equal(got, want) {
			t.Errorf("%s: calls of DMS\n%q, want\n%q", what, got, want)
		}
	}
	inOrder(t, d.deploy(t, 2, "", "deploy", ""), "which environment? ENV=dev")
	inOrder(t, d.deploy(t, 2, "", "deploy", "other"), "no ./other.yaml")
	inOrder(t, d.deploy(t, 2, "", "start", "dev"), "no stacks/main.yaml")

	// Who says no has changed nothing, and may come again.
	inOrder(t, d.deploy(t, 2, "n", "deploy", "dev"), "(CREATE, stage lake)", "Stream", "Tables", "not applied")
	inOrder(t, d.deploy(t, 0, "", "deploy", "dev", "YES=1", "STAGE=roles"), "(CREATE, stage lake)", "apply it",
		"(UPDATE, stage roles)", "DeliverMirror", "icehose catalog plan", "+ tpcc.warehouse", "icehose catalog apply", "apply it", "MirrorDeliveryRoleArn")
	if streams := d.aws(t, "firehose", "list-delivery-streams", "--query", "DeliveryStreamNames", "--output", "text"); streams != "" {
		t.Errorf("stage roles made delivery streams: %s", streams)
	}
	role := d.output(t, "shop", "MirrorDeliveryRoleArn")
	inOrder(t, d.deploy(t, 2, "", "start", "dev"), "has no DMS task")
	inOrder(t, d.deploy(t, 0, "y", "deploy", "dev"), "(UPDATE, stage all)", "DeliverMirror/Delivery", "9 tables as they should be, 0 changes", "apply it")
	if now := d.output(t, "shop", "MirrorDeliveryRoleArn"); now != role {
		t.Errorf("the role that was granted to is %s, then %s", role, now)
	}
	d.checkStacks(t, "shop")
	wantCalls("deploy starts nothing")
	inOrder(t, d.deploy(t, 2, "", "deploy", "dev", "YES=1", "STAGE=roles"), "stage roles would delete")

	d.deploy(t, 0, "", "start", "dev")
	wantCalls("first start", firstStart...)
	inOrder(t, d.deploy(t, 0, "", "start", "dev"), "is running")
	inOrder(t, d.deploy(t, 0, "", "deploy", "dev"), "9 tables as they should be", "nothing to change")
	wantCalls("nothing changed")

	d.changeRunning(t, wantCalls)

	d.deploy(t, 0, "", "stop", "dev")
	inOrder(t, d.deploy(t, 0, "", "stop", "dev"), "is stopped")
	inOrder(t, d.deploy(t, 0, "", "deploy", "dev"), "nothing to change", "!! the DMS task is stopped: make start ENV=dev")
	wantCalls("stop", "StopReplicationTask")
	d.deploy(t, 0, "", "start", "dev")
	wantCalls("start", resume...)
	d.deploy(t, 0, "", "stop", "dev")
	d.teardown(t)
}

// changeRunning adds a column and a table, first beside something that DMS
// refuses.
func (d *deployment) changeRunning(t *testing.T, wantCalls func(what string, want ...string)) {
	t.Helper()
	pipeline, err := os.ReadFile(filepath.Join(d.dir, "pipeline.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	d.write(t, "pipeline.yaml", strings.Replace(string(pipeline), "      - {name: w_ytd,", "      - {name: w_note, type: string, source_type: character varying(20)}\n      - {name: w_ytd,", 1)+
		"  - source: public.region\n    mode: mirror\n    key: [id]\n    columns:\n      - {name: id, type: int, source_type: integer}\n")
	d.write(t, "dev.yaml", "Name: shop\nEngineVersion: 3.9.9\n")
	// What fails goes back, and the task with it.
	out := d.deploy(t, 2, "y", "deploy", "dev")
	inOrder(t, out, "Migrate/Task", "icehose catalog plan", "+ w_note", "+ tpcc.region", "icehose catalog apply", "stop the DMS task", "apply it",
		"No replication engine found", "(resume-processing)", "was not changed")
	if strings.Contains(out, "!!") {
		t.Errorf("a column and a table more replace or remove something:\n%s", out)
	}
	wantCalls("a refused change", slices.Concat([]string{"StopReplicationTask"}, resume)...)
	d.write(t, "dev.yaml", "Name: shop\n")
	inOrder(t, d.deploy(t, 0, "y", "deploy", "dev"), "Migrate/Task", "10 tables as they should be, 0 changes", "stop the DMS task", "apply it", "(resume-processing)")
	wantCalls("the change without it", slices.Concat([]string{"StopReplicationTask", "ModifyReplicationTask"}, resume)...)
}

func (d *deployment) output(t *testing.T, name, output string) string {
	t.Helper()
	return d.aws(t, "cloudformation", "describe-stacks", "--stack-name", "icehose-"+name, "--output", "text",
		"--query", fmt.Sprintf("Stacks[0].Outputs[?OutputKey=='%s'].OutputValue", output))
}

// checkStacks wants every stack complete, and the policy on those that are
// nested, too.
func (d *deployment) checkStacks(t *testing.T, name string) {
	t.Helper()
	states := strings.Fields(d.aws(t, "cloudformation", "describe-stacks", "--query", "Stacks[].StackStatus", "--output", "text"))
	if len(states) != 15 || slices.ContainsFunc(states, func(state string) bool { return state != "CREATE_COMPLETE" && state != "UPDATE_COMPLETE" }) {
		t.Errorf("stacks are %q, want 15 that are complete", states)
	}
	nested := d.aws(t, "cloudformation", "describe-stack-resource", "--stack-name", "icehose-"+name, "--logical-resource-id", "Migrate", "--output", "text",
		"--query", "StackResourceDetail.PhysicalResourceId")
	for _, id := range []string{nested, "icehose-" + name} {
		if policy := d.aws(t, "cloudformation", "get-stack-policy", "--stack-name", id, "--output", "text"); !strings.Contains(policy, "Update:Replace") {
			t.Errorf("%s has the policy %q", id, policy)
		}
	}
}

// teardown deletes the stack and wants the data still there.
func (d *deployment) teardown(t *testing.T) {
	t.Helper()
	held := func() map[string]string {
		return map[string]string{
			"buckets": d.aws(t, "s3api", "list-buckets", "--query", "sort(Buckets[?!contains(Name,'queries')].Name)", "--output", "text"),
			"streams": d.aws(t, "kinesis", "list-streams", "--query", "StreamNames", "--output", "text"),
			"tables":  d.aws(t, "glue", "get-tables", "--database-name", "tpcc", "--query", "sort(TableList[].Name)", "--output", "text"),
		}
	}
	before := held()
	if n := len(strings.Fields(before["tables"])); n != 10 {
		t.Errorf("%d tables, want 10: %s", n, before["tables"])
	}
	d.aws(t, "cloudformation", "delete-stack", "--stack-name", "icehose-shop")
	d.aws(t, "cloudformation", "wait", "stack-delete-complete", "--stack-name", "icehose-shop")
	if diff := cmp.Diff(before, held()); diff != "" {
		t.Errorf("what holds data is not what it was (-before +after):\n%s", diff)
	}
	if streams := d.aws(t, "firehose", "list-delivery-streams", "--query", "DeliveryStreamNames", "--output", "text"); streams != "" {
		t.Errorf("delivery streams are left: %s", streams)
	}
}

// TestEmulatedDeployServerless starts and stops a replication that has no
// instance.
func TestEmulatedDeployServerless(t *testing.T) {
	t.Parallel()
	d := startDeployment(t)
	d.deploy(t, 0, "", "deploy", "small", "YES=1")
	for range 2 {
		d.deploy(t, 0, "", "start", "small")
		d.deploy(t, 0, "", "stop", "small")
	}
	seen := 0
	want := []string{"ModifyEndpoint", "StartReplication start-replication", "StopReplication", "ModifyEndpoint", "StartReplication resume-processing", "StopReplication"}
	if got := d.calls(t, &seen); !slices.Equal(got, want) {
		t.Errorf("calls of DMS\n%q, want\n%q", got, want)
	}
}
