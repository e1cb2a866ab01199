package job_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"icehose/catalog"
	"icehose/reconcile/job"
	"icehose/reconcile/reconciletest"
)

// What is no connection string that is known is refused, unless it is the
// directory of a dump. No error holds the password.
func TestOpenSource(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "day=2026-11-01")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	closed := "127.0.0.1:1/shop?connect_timeout=1"
	for _, tt := range []struct{ source, dsn, want string }{
		{"", "postgresql+asyncpg://u:geheim@h/d", `the scheme "postgresql+asyncpg"`},
		{"", "host=h user=u password=geheim", `the scheme ""`},
		{"", "u:geheim@tcp(h:3306)/shop", `the scheme ""`},
		{"", "geheim", `the scheme ""`},
		{"", folder, `the scheme ""`},
		{"", "Postgres://u:geheim@" + closed, "connect to database shop"},
		{"", "POSTGRESQL://u:geheim@" + closed, "connect to database shop"},
		{"", "MySQL://u:geheim@h/d", "the pipeline file's source is postgresql"},
		{"jdbc:postgresql://u:geheim@h/d", "", `the scheme ""`},
		{"host=h user=u password=geheim", "", `the scheme ""`},
		{"", "", "no source"},
		{folder, "postgres://u:geheim@h/d", "--final is required"},
	} {
		s := job.SourceFlags{Source: tt.source, MaxConnections: 1}
		_, err := s.OpenSource(t.Context(), tt.dsn, reconciletest.Pipeline(t))
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "geheim") {
			t.Errorf("--source %q, ICEHOSE_DSN %q: %v; want %s", tt.source, tt.dsn, err, tt.want)
		}
	}
	s := job.SourceFlags{Source: folder, Final: true}
	p := &catalog.Pipeline{Source: catalog.Source{Engine: catalog.PostgreSQL}}
	if r, err := s.OpenSource(t.Context(), "", p); err != nil || r.Live {
		t.Errorf("a directory: live %v, %v", r.Live, err)
	}
}
