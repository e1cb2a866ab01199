//go:build interop

package interop_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"icehose/sink"
	"icehose/sink/merge"
)

var (
	trinoHome = flag.String("trino", "", "folder of Trino's server with the plugin iceberg and SQLite's driver in it")
	java      = flag.String("java", "java", "Java that runs it: 24 or newer")
)

// trinoWait bounds how long Trino may take to start.
const trinoWait = 5 * time.Minute

// startTrino starts Trino over the lake in a folder, with the catalog lake. It
// returns the port on 127.0.0.1 where it answers.
func startTrino(ctx context.Context, dir string) (port int, stop func(), err error) {
	if *trinoHome == "" {
		return 0, nil, errors.New("want -trino: run make interop-trino")
	}
	if port, err = freePort(ctx); err != nil {
		return 0, nil, err
	}
	etc := filepath.Join(dir, "trino")
	for name, lines := range map[string][]string{
		"config.properties": {
			"coordinator=true", "node-scheduler.include-coordinator=true", "node.environment=interop", "node.bind-ip=127.0.0.1", "node.internal-address=127.0.0.1",
			fmt.Sprint("http-server.http.port=", port), fmt.Sprint("discovery.uri=http://127.0.0.1:", port),
			"plugin.dir=" + filepath.Join(*trinoHome, "plugin"), "catalog.config-dir=" + filepath.Join(etc, "catalog"),
			"query.max-memory=512MB", "query.max-memory-per-node=512MB", "memory.heap-headroom-per-node=256MB", "task.concurrency=2",
		},
		"catalog/lake.properties": {
			"connector.name=iceberg", "iceberg.catalog.type=jdbc", "iceberg.jdbc-catalog.catalog-name=icehose", "iceberg.jdbc-catalog.driver-class=org.sqlite.JDBC",
			"iceberg.jdbc-catalog.connection-url=jdbc:sqlite:" + filepath.Join(dir, "catalog.db") + "?busy_timeout=10000",
			"iceberg.jdbc-catalog.default-warehouse-dir=file://" + filepath.Join(dir, "warehouse"), "iceberg.jdbc-catalog.schema-version=V1",
			"iceberg.expire-snapshots.min-retention=0s", "iceberg.remove-orphan-files.min-retention=0s", "fs.native-local.enabled=true", "local.location=/", "iceberg.file-format=PARQUET",
		},
	} {
		path := filepath.Join(etc, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return 0, nil, err
		}
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			return 0, nil, err
		}
	}
	log, err := os.Create(filepath.Join(etc, "log"))
	if err != nil {
		return 0, nil, err
	}
	cmd := exec.CommandContext(ctx, *java, "-Xmx1536m", "-XX:+UseG1GC", "-XX:TieredStopAtLevel=1", "-XX:+EnableDynamicAgentLoading", "--add-modules", "jdk.incubator.vector",
		"--enable-native-access=ALL-UNNAMED", "--sun-misc-unsafe-memory-access=allow", "-Djdk.attach.allowAttachSelf=true", "-Dfile.encoding=UTF-8", "-Duser.timezone=UTC",
		"-Dconfig="+filepath.Join(etc, "config.properties"), "-cp", filepath.Join(*trinoHome, "lib", "*"), "io.trino.server.TrinoServer")
	cmd.Dir, cmd.Stdout, cmd.Stderr = etc, log, log
	if err := cmd.Start(); err != nil {
		return 0, nil, errors.Join(err, log.Close())
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	stop = func() {
		_ = cmd.Process.Kill()
		<-ended
		_ = log.Close()
	}
	if err := awaitTrino(ctx, port, ended); err != nil {
		stop()
		text, _ := os.ReadFile(log.Name())
		return 0, nil, fmt.Errorf("start Trino: %w\n%s", err, text)
	}
	return port, stop, nil
}

func freePort(ctx context.Context) (int, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	_, port, _ := strings.Cut(l.Addr().String(), ":")
	var n int
	_, err = fmt.Sscan(port, &n)
	return n, errors.Join(err, l.Close())
}

// awaitTrino waits until Trino takes statements.
func awaitTrino(ctx context.Context, port int, ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, trinoWait)
	defer cancel()
	for {
		if request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/v1/info", port), nil); err != nil {
			return err
		} else if response, err := http.DefaultClient.Do(request); err == nil {
			info := struct{ Starting bool }{true}
			err := errors.Join(json.NewDecoder(response.Body).Decode(&info), response.Body.Close())
			if err == nil && !info.Starting {
				return nil
			}
		}
		select {
		case <-ended:
			return errors.New("it ended")
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// trinoQueries runs on Trino what a merge sends to Athena.
type trinoQueries struct{ e *engine }

var _ merge.Queries = trinoQueries{}

// Query implements merge.Queries.
func (q trinoQueries) Query(_ context.Context, statement string) (*merge.QueryResult, error) {
	r, err := q.e.call(map[string]any{"sql": asTrino(statement)})
	if err != nil {
		if merge.IsConflict(err.Error()) {
			err = fmt.Errorf("%w: %w", sink.ErrConflict, err)
		}
		return nil, err
	}
	out := &merge.QueryResult{Updated: r.Updated}
	for _, row := range r.Rows {
		texts := make([]string, len(row))
		for i, v := range row {
			if v != nil {
				texts[i] = *v
			}
		}
		out.Rows = append(out.Rows, texts)
	}
	return out, nil
}

// What Athena spells otherwise than Trino.
var (
	optimize     = regexp.MustCompile(`^OPTIMIZE (\S+) REWRITE DATA USING BIN_PACK$`)
	addColumn    = regexp.MustCompile(`^ALTER TABLE (\S+) ADD COLUMNS \((\S+) (\S+)\)$`)
	vacuum       = regexp.MustCompile(`^VACUUM (\S+)$`)
	hiveType     = regexp.MustCompile("(?m) (string|int|timestamp|float|binary)([,)]?)$")
	hiveLocation = regexp.MustCompile("(?m)^LOCATION ('.*')$")
)

// asTrino translates a statement of Athena's that is another in Trino, or none
// (""): CREATE and ALTER TABLE, which are Hive's, with its quotes, names of types
// and properties; OPTIMIZE; VACUUM, and the property that says what it may
// remove. Views, MERGE, DELETE and queries are the same.
func asTrino(statement string) string {
	switch {
	case addColumn.MatchString(statement):
		return addColumn.ReplaceAllString(hiveColumns(statement), "ALTER TABLE $1 ADD COLUMN $2 $3")
	case strings.HasPrefix(statement, "ALTER TABLE"):
		return ""
	case optimize.MatchString(statement):
		return optimize.ReplaceAllString(statement, "ALTER TABLE $1 EXECUTE optimize")
	case vacuum.MatchString(statement):
		return vacuum.ReplaceAllString(statement, "ALTER TABLE $1 EXECUTE expire_snapshots(retention_threshold => '7d')")
	case !strings.HasPrefix(statement, "CREATE TABLE"):
		return statement
	}
	columns, rest, _ := strings.Cut(statement, "\n)\n")
	properties := "format = 'PARQUET', format_version = 2"
	if location := hiveLocation.FindStringSubmatch(rest); location != nil {
		properties += ", location = " + location[1]
	}
	return hiveColumns(columns) + "\n) WITH (" + properties + ")"
}

// hiveColumns translates quotes and the types that lines end with.
func hiveColumns(text string) string {
	return hiveType.ReplaceAllStringFunc(strings.ReplaceAll(text, "`", `"`), func(t string) string {
		return strings.NewReplacer("string", "varchar", "int", "integer", "timestamp", "timestamp(6)", "float", "real", "binary", "varbinary").Replace(t)
	})
}
