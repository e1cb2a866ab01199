//go:build interop

package discover_test

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"icehose/catalog"
	"icehose/catalog/artifact"
	"icehose/catalog/catalogtest"
	"icehose/catalog/ddl"
	"icehose/catalog/discover"
	"icehose/catalog/mysql"
	"icehose/catalog/postgres"
	"icehose/internal/mariadbtest"
	"icehose/internal/pgtest"
)

var schemas = flag.String("schemas", "", "folder that packages.sh filled")

// scripts returns the schemas of an engine by name.
func scripts(t *testing.T, engine string) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(*schemas, engine, "*.sql"))
	if err != nil || len(paths) < 5 {
		t.Fatalf("%d schemas of %s in -schemas %q, %v", len(paths), engine, *schemas, err)
	}
	out := make(map[string]string)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		out[strings.TrimSuffix(filepath.Base(path), ".sql")] = string(text)
	}
	return out
}

// dump runs a program that prints a schema.
func dump(t *testing.T, program string, args ...string) []byte {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", program, err, stderr.String())
	}
	return out
}

// check holds the live schema against that of a dump, proposes a pipeline for
// it and generates everything from that.
func check(t *testing.T, live *catalog.SourceSchema, dumped []byte) {
	t.Helper()
	read, err := ddl.Read("dump.sql", dumped, live.Engine)
	if err != nil {
		t.Fatal(err)
	}
	catalogtest.Check(t, live, read)
	text, _ := run(t, "", live, discover.Options{Database: "lake"})
	again, notes := run(t, text, read, discover.Options{})
	if again != text || notes != "" {
		t.Errorf("the dump says something else than the server: %s\n%s", notes, cmp.Diff(text, again))
	}
	p, err := catalog.Parse("pipeline.yaml", []byte(allowed(text)))
	if err != nil {
		t.Fatal(err)
	}
	columns := 0
	for _, table := range p.Tables {
		columns += len(table.Columns)
	}
	made, err := artifact.Generate(p, artifact.Options{Warehouse: "s3://lake/wh"})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d tables, %d columns, %d artifacts", len(p.Tables), columns, len(made.Files))
	if len(p.Tables) != len(live.Tables) {
		t.Errorf("%d tables in the file, %d in the source", len(p.Tables), len(live.Tables))
	}
}

// allowed allows every loss, as a person would after reading.
func allowed(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if _, losses, ok := strings.Cut(line, "loses: ["); ok {
			losses, _, _ = strings.Cut(losses, "]")
			line = strings.Replace(line, "loses: [", "allow_lossy: ["+losses+"], loses: [", 1)
		}
		b.WriteString(line)
	}
	return b.String()
}

func TestForeignSchemasOfPostgreSQL(t *testing.T) {
	server := pgtest.New(t)
	for name, script := range scripts(t, "postgresql") {
		t.Run(name, func(t *testing.T) {
			admin, err := pgx.Connect(t.Context(), server.DSN())
			if err != nil {
				t.Fatal(err)
			}
			defer admin.Close(t.Context()) //nolint:errcheck // the server is stopped anyway
			if _, err := admin.Exec(t.Context(), "CREATE DATABASE "+name); err != nil {
				t.Fatal(err)
			}
			config := admin.Config().Copy()
			config.Database = name
			conn, err := pgx.ConnectConfig(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(t.Context()) //nolint:errcheck // the server is stopped anyway
			if _, err := conn.Exec(t.Context(), script); err != nil {
				t.Fatal(err)
			}
			live, err := postgres.Read(t.Context(), conn)
			if err != nil {
				t.Fatal(err)
			}
			check(t, live, dump(t, server.Program("pg_dump"), "--schema-only", "--dbname", strings.Replace(server.DSN(), "/postgres?", "/"+name+"?", 1)))
		})
	}
}

func TestForeignSchemasOfMariaDB(t *testing.T) {
	server := mariadbtest.New(t, "--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0", "--innodb-file-per-table=0")
	for name, script := range scripts(t, "mysql") {
		t.Run(name, func(t *testing.T) {
			admin, err := mysql.Open(server.DSN(""))
			if err != nil {
				t.Fatal(err)
			}
			defer admin.Close() //nolint:errcheck // the server is stopped anyway
			if _, err := admin.ExecContext(t.Context(), "CREATE DATABASE "+name+" CHARACTER SET utf8mb4"); err != nil {
				t.Fatal(err)
			}
			// Scripts change the delimiter, which is the client's business.
			client := exec.CommandContext(t.Context(), "mariadb", "--no-defaults", "--host=127.0.0.1", "--port="+strconv.Itoa(server.Port()), "--user=root", name)
			client.Stdin = strings.NewReader(script)
			if out, err := client.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			db, err := mysql.Open(server.DSN(name))
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close() //nolint:errcheck // the server is stopped anyway
			live, err := mysql.Read(t.Context(), db)
			if err != nil {
				t.Fatal(err)
			}
			check(t, live, dump(t, "mariadb-dump", "--no-defaults", "--no-data", "--host=127.0.0.1", "--port="+strconv.Itoa(server.Port()), "--user=root", "--databases", name))
		})
	}
}
