package main

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/google/go-cmp/cmp"

	"icehose/cloudformation"
)

func TestSettings(t *testing.T) {
	s, err := parseSettings([]string{
		"ICEHOSE_PIPELINE=s3://conf/shop.yaml", "ICEHOSE_WAREHOUSE=s3://lake/warehouse", "ICEHOSE_PROP=a=b;c=d=e;", "ICEHOSE_WORKGROUP=etl",
		"ICEHOSE_OUTPUT=s3://results/", "ICEHOSE_LOG_LEVEL=warn", "ICEHOSE_METRICS_NAMESPACE=", "PATH=/bin",
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.pipeline.Name() != "s3://conf/shop.yaml" || s.lake.Warehouse != "s3://lake/warehouse" || s.lake.Catalog != "glue" || s.workgroup != "etl" || s.output != "s3://results/" ||
		s.level != slog.LevelWarn || s.namespace != "" || s.lambda || !cmp.Equal(s.lake.Prop, map[string]string{"a": "b", "c": "d=e"}) {
		t.Errorf("settings %+v", s)
	}
	const warehouse = "ICEHOSE_WAREHOUSE=s3://lake/warehouse"
	for want, environ := range map[string][]string{
		"read environment: ICEHOSE_WORKGROUPS: no such setting":            {warehouse, "ICEHOSE_WORKGROUPS=etl"},
		"read environment: ICEHOSE_WAREHOUSE: want a URI":                  {"ICEHOSE_WAREHOUSE=lake"},
		"read environment: ICEHOSE_PIPELINE: want a path or s3://":         {warehouse, "ICEHOSE_PIPELINE="},
		"read environment: ICEHOSE_LOG_LEVEL: ":                            {warehouse, "ICEHOSE_LOG_LEVEL=loud"},
		"read environment: ICEHOSE_PROP: want name=value;name=value":       {warehouse, "ICEHOSE_PROP=secret"},
		"there is no Lambda here: icehose merge --engine athena --catalog": {warehouse},
	} {
		var stderr bytes.Buffer
		if status := run(t.Context(), environ, io.Discard, &stderr, nil); status != exitTrouble || !strings.Contains(stderr.String(), `"message":"start refused","error":"`+want) {
			t.Errorf("%v: status %d, want %q in\n%s", environ, status, want, &stderr)
		}
		if strings.Contains(stderr.String(), "secret") {
			t.Errorf("a property is in\n%s", &stderr)
		}
	}
	started := false
	if status := run(t.Context(), []string{warehouse, runtimeVariable + "=127.0.0.1:1"}, io.Discard, os.Stderr, func(lambda.Handler) { started = true }); status != exitDone || !started {
		t.Errorf("on Lambda: status %d, started %t", status, started)
	}
}

// TestTemplate holds the stack to what the program reads: variables and event.
func TestTemplate(t *testing.T) {
	t.Parallel()
	text, err := cloudformation.Templates.ReadFile("merge.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var environ []string
	for _, found := range regexp.MustCompile(`(?m)^ +(ICEHOSE_[A-Z_]+): (.*)$`).FindAllSubmatch(text, -1) {
		value := regexp.MustCompile(`^!Sub "(.*)"$`).ReplaceAllString(string(found[2]), "$1")
		environ = append(environ, string(found[1])+"="+value)
	}
	s, err := parseSettings(environ)
	if err != nil {
		t.Fatalf("%q: %v", environ, err)
	}
	if s.pipeline.Bucket != "${ArtifactBucket}" || s.lake.Warehouse != "s3://${LakeBucket}/warehouse" || s.workgroup != "!Ref WorkGroup" {
		t.Errorf("settings %+v of %q", s, environ)
	}
	event := regexp.MustCompile(`(?m)^ +Input: '(.*)'$`).FindSubmatch(text)
	if event == nil {
		t.Fatal("the schedule sends no event")
	}
	if e, err := parseEvent(event[1]); err != nil || len(e.Tables) > 0 {
		t.Errorf("event %s: %+v, %v; want one for all tables", event[1], e, err)
	}
}

// The stacks deploy a zip, which the Makefile must make.
func TestPackaged(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\ndist/merge-lambda-%.zip: always\n\t$(call lambda-zip,merge-lambda,)\n", // how
		"\npackage: dist/transform-lambda-arm64.zip dist/reconcile-lambda-arm64.zip dist/merge-lambda-arm64.zip ",
		" dist/merge-lambda-$(arch).zip",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the Makefile does not build the zip that cloudformation/deploy.sh uploads: it has no %q", want)
		}
	}
}
