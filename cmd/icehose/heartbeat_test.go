package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// heartbeatOf runs the command in this process, for a source that ICEHOSE_DSN names.
func heartbeatOf(t *testing.T, dsn string, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	var out, failed bytes.Buffer
	status = run(t.Context(), append([]string{"heartbeat"}, args...), environment{
		stdin: strings.NewReader(""), stdout: &out, stderr: &failed, getenv: func(name string) string {
			if name == "ICEHOSE_DSN" {
				return dsn
			}
			return ""
		},
	})
	return out.String(), failed.String(), status
}

// --ddl connects to nothing, and prints no password.
func TestHeartbeatDDL(t *testing.T) {
	t.Parallel()
	const dsn = "postgres://keeper:secret@127.0.0.1:1/shop"
	stdout, stderr, status := heartbeatOf(t, dsn, "--ddl", "--shards", "8")
	for _, want := range []string{
		`CREATE TABLE "public"."heartbeat" (`, `ON "public"."heartbeat" TO "keeper";`, "--   - source: public.heartbeat\n", "-- 120 rows for 8 shards", "8 of 8 get one",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("the definition lacks %q:\n%s", want, stdout)
		}
	}
	if status != exitSame || stderr != "" || strings.Contains(stdout, "secret") {
		t.Errorf("status %d, %s\n%s", status, stderr, stdout)
	}
	for line := range strings.Lines(stdout) {
		if !strings.HasPrefix(line, "-- ") && !strings.HasPrefix(line, "CREATE ") && !strings.HasPrefix(line, "GRANT ") {
			t.Errorf("no SQL: %s", line)
		}
	}
	stdout, _, status = heartbeatOf(t, "", "--source", "mysql://h/shop", "--table", "ops.beat", "--rows", "3", "--ddl", "--json")
	var got struct {
		Create, Pipeline string
		Grants           []string
		Coverage         struct {
			Shards, Rows, Reached int
			Unreached             float64
		}
	}
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || status != exitSame {
		t.Fatalf("%v, status %d: %s", err, status, stdout)
	}
	if !strings.HasPrefix(got.Create, "CREATE TABLE `ops`.`beat` (") || len(got.Grants) != 1 || !strings.HasPrefix(got.Pipeline, "- source: ops.beat\n") ||
		got.Coverage.Rows != 3 || got.Coverage.Shards != 4 || got.Coverage.Reached > 3 || got.Coverage.Unreached != 1 {
		t.Errorf("%+v", got)
	}
}

func TestHeartbeatRefuses(t *testing.T) {
	t.Parallel()
	const dsn = "postgres://keeper:secret@127.0.0.1:1/shop"
	for _, c := range []struct {
		dsn  string
		args []string
		want string
	}{
		{"", nil, "no source: give ICEHOSE_DSN or --source"},
		{"oracle://keeper:secret@h/shop", nil, "want postgres://, mysql:// or mariadb://"},
		{"mysql://keeper:secret@h", nil, "want schema.table"},
		{dsn, []string{"--every", "500ms"}, "--every: want 1s or more"},
		{dsn, []string{"--rows=-1"}, "--rows: want 1 to 100000"},
		{dsn, []string{"--rows", "100001"}, "--rows: want 1 to 100000"},
		{dsn, []string{"--shards", "0"}, "--shards: want 1 to 4096"},
		{dsn, []string{"--for=-1s"}, "--for: want nothing negative"},
		{dsn, []string{"--once", "--for", "1m"}, "--once, --for: want one of them"},
		{dsn, []string{"--lock-timeout", "6s"}, "--statement-timeout, --lock-timeout"},
		{dsn, nil, "connection refused"},
		{"mysql://keeper:secret@127.0.0.1:1/shop", []string{"--once"}, "connection refused"},
	} {
		stdout, stderr, status := heartbeatOf(t, c.dsn, c.args...)
		if status != exitTrouble || stdout != "" || !strings.Contains(stderr, c.want) || strings.Contains(stderr, "secret") || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q: status %d, %s%s", c.args, status, stdout, stderr)
		}
	}
	// Rows that may miss a shard are no reason to stop, but one to be told.
	_, stderr, _ := heartbeatOf(t, dsn, "--rows", "40")
	lines := slices.Collect(strings.Lines(stderr))
	var warning struct {
		Level, Msg string
		Rows       int
		Unreached  float64
	}
	if len(lines) != 2 || json.Unmarshal([]byte(lines[0]), &warning) != nil || warning.Level != "WARN" || warning.Rows != 40 || warning.Unreached < 1e-6 {
		t.Errorf("of ten rows for each of 4 shards: %s", stderr)
	}
}
