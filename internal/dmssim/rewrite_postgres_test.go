//go:build postgres

package dmssim_test

import (
	"strings"
	"testing"

	"icehose/internal/dmssim"
)

// A table that was rewritten before its load began has lost the rows of the
// snapshot: that is an error, and no empty table. One that is loaded in a snapshot
// of its own has them all.
func TestRewrittenBeforeLoad(t *testing.T) {
	const schema = "CREATE TABLE t (id int PRIMARY KEY, note text); INSERT INTO t SELECT g, 'n' FROM generate_series(1, 10) g"
	for _, tt := range []struct {
		name, rewrite string
		overlaps      bool
		want          string
	}{
		{"ALTER TABLE", "ALTER TABLE t ALTER id TYPE bigint", false, "rewritten"},
		{"TRUNCATE", "TRUNCATE t", false, "rewritten"},
		{"a column of the same name", "ALTER TABLE t DROP note, ADD note text", false, "rewritten"},
		{"another table", "ALTER TABLE t RENAME TO old; CREATE TABLE t (id int PRIMARY KEY, note text)", false, "rewritten"},
		{"a new column", "ALTER TABLE t ADD more text", false, ""},
		{"a snapshot of its own", "ALTER TABLE t ALTER id TYPE bigint", true, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSource(t, schema)
			c := open(t, s, func(o *dmssim.Options) { o.Settings.LoadOverlapsChanges = tt.overlaps })
			s.exec(t, tt.rewrite)
			var err error
			for done := false; !done && err == nil; {
				done, err = c.LoadStep(t.Context())
			}
			loaded := c.Counts()["public.t"][dmssim.Load]
			if tt.want == "" && (err != nil || loaded != 10) || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%d rows, %v, want %q", loaded, err, tt.want)
			}
		})
	}
}

// A rewrite that is under way when a load begins is waited for.
func TestLoadAwaitsRewrite(t *testing.T) {
	s := newSource(t, "CREATE TABLE t (id int PRIMARY KEY, note text); INSERT INTO t SELECT g, 'n' FROM generate_series(1, 10) g")
	c := open(t, s, func(o *dmssim.Options) { o.Settings.LoadOverlapsChanges = true })
	s.exec(t, "BEGIN; ALTER TABLE t ALTER id TYPE bigint")
	ended := make(chan error, 1)
	go func() {
		var err error
		for done := false; !done && err == nil; {
			done, err = c.LoadStep(t.Context())
		}
		ended <- err
	}()
	s.exec(t, "DO $$ BEGIN FOR i IN 1..500 LOOP EXIT WHEN EXISTS (SELECT FROM pg_locks WHERE NOT granted); PERFORM pg_sleep(0.01); END LOOP; END $$; COMMIT")
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if n := c.Counts()["public.t"][dmssim.Load]; n != 10 {
		t.Errorf("%d rows, want 10", n)
	}
}

// Rows that a policy hides from the account are an error.
func TestPolicyFails(t *testing.T) {
	s := newSource(t, `CREATE ROLE few LOGIN REPLICATION; CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1), (2); ALTER TABLE t OWNER TO few;
		ALTER TABLE t ENABLE ROW LEVEL SECURITY; ALTER TABLE t FORCE ROW LEVEL SECURITY; CREATE POLICY one ON t USING (id = 1); GRANT CREATE ON DATABASE postgres TO few`)
	c := open(t, s, func(o *dmssim.Options) { o.DSN = strings.Replace(s.dsn, "postgres@", "few@", 1) })
	var err error
	for done := false; !done && err == nil; {
		done, err = c.LoadStep(t.Context())
	}
	if err == nil || !strings.Contains(err.Error(), "row-level security") {
		t.Errorf("%d rows, %v", c.Counts()["public.t"][dmssim.Load], err)
	}
}
