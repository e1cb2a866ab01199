package main

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/internal/pipelinefile"
	"icehose/transform"
)

func TestParseSettings(t *testing.T) {
	tests := []struct {
		name    string
		environ []string
		want    settings
		fault   string
	}{
		{name: "nothing set", want: settings{pipeline: pipelinefile.Place{Path: "/var/task/pipeline.yaml"}, refresh: 5 * time.Minute, namespace: "icehose"}},
		{
			name:    "a path in the zip",
			environ: []string{"ICEHOSE_PIPELINE=conf/shop.yaml", "PATH=/bin"},
			want:    settings{pipeline: pipelinefile.Place{Path: "/var/task/conf/shop.yaml"}, refresh: 5 * time.Minute, namespace: "icehose"},
		},
		{
			name:    "a path in a layer",
			environ: []string{"ICEHOSE_PIPELINE=/opt/shop.yaml", "ICEHOSE_METRICS_NAMESPACE="},
			want:    settings{pipeline: pipelinefile.Place{Path: "/opt/shop.yaml"}, refresh: 5 * time.Minute},
		},
		{
			name: "everything",
			environ: []string{
				"ICEHOSE_PIPELINE=s3://bucket/a/b.yaml", "ICEHOSE_PIPELINE_REFRESH=90s", "ICEHOSE_ONLY=mirror", "ICEHOSE_MODE=changelog", "ICEHOSE_DATABASE=log",
				"ICEHOSE_SUFFIX=_log", "ICEHOSE_BINARY=base64", "ICEHOSE_LOG_LEVEL=warn", "ICEHOSE_METRICS_NAMESPACE=shop", "AWS_REGION=eu-west-1", "AWS_ACCESS_KEY_ID=key",
				"AWS_SECRET_ACCESS_KEY=secret=", "AWS_SESSION_TOKEN=token", "AWS_ENDPOINT_URL_S3=http://localhost:1",
			},
			want: settings{
				pipeline: pipelinefile.Place{Bucket: "bucket", Key: "a/b.yaml"}, refresh: 90 * time.Second, options: transform.Options{Only: catalog.Mirror, Mode: catalog.Changelog, Database: "log", Suffix: "_log", Binary: transform.Base64},
				level: slog.LevelWarn, namespace: "shop", region: "eu-west-1", accessKey: "key", secret: "secret=", token: "token",
				endpoint: "http://localhost:1",
			},
		},
		{name: "a misspelt name", environ: []string{"ICEHOSE_PIPELNE=x"}, fault: "ICEHOSE_PIPELNE: no such setting"},
		{name: "no pipeline", environ: []string{"ICEHOSE_PIPELINE="}, fault: "ICEHOSE_PIPELINE: want a path or s3://bucket/key"},
		{name: "no key", environ: []string{"ICEHOSE_PIPELINE=s3://bucket/"}, fault: `want s3://bucket/key, got "s3://bucket/"`},
		{name: "no bucket", environ: []string{"ICEHOSE_PIPELINE=s3:///key"}, fault: "want s3://bucket/key"},
		{name: "a refresh without a unit", environ: []string{"ICEHOSE_PIPELINE_REFRESH=5"}, fault: "ICEHOSE_PIPELINE_REFRESH: want a time such as 5m"},
		{name: "a negative refresh", environ: []string{"ICEHOSE_PIPELINE_REFRESH=-5m"}, fault: "want a time such as 5m"},
		{name: "a mode that is none", environ: []string{"ICEHOSE_MODE=both"}, fault: `ICEHOSE_MODE: want mirror or changelog, got "both"`},
		{name: "a form of bytes that is none", environ: []string{"ICEHOSE_BINARY=base32"}, fault: `ICEHOSE_BINARY: want hex or base64, got "base32"`},
		{name: "a level that is none", environ: []string{"ICEHOSE_LOG_LEVEL=loud"}, fault: "ICEHOSE_LOG_LEVEL: "},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := parseSettings(test.environ, "/var/task/bootstrap")
			if test.fault != "" {
				if err == nil || !strings.Contains(err.Error(), test.fault) {
					t.Fatalf("error %v, want %q in it", err, test.fault)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(settings{})); diff != "" {
				t.Errorf("settings differ (-want +got):\n%s", diff)
			}
		})
	}
}
