package discover_test

import (
	"strings"
	"testing"

	"icehose/catalog"
	"icehose/catalog/discover"
)

// A table whose log does not have the key of a deleted row is proposed without
// one, and a file that has it differs from the source until one of them changes.
func TestIdentityWithoutKey(t *testing.T) {
	const (
		columns = "(id int PRIMARY KEY, u int NOT NULL UNIQUE, w int NOT NULL, v int, UNIQUE (w, id))"
		index   = "ALTER TABLE t REPLICA IDENTITY USING INDEX t_u_key"
		back    = `ALTER TABLE "public"."t" REPLICA IDENTITY DEFAULT`
		full    = `ALTER TABLE "public"."t" REPLICA IDENTITY FULL`
	)
	tests := []struct {
		name, sql, why, fix string
	}{
		{"default", "CREATE TABLE t " + columns, "", ""},
		{"full", "CREATE TABLE t " + columns + "; ALTER TABLE t REPLICA IDENTITY FULL", "", ""},
		{"full and deferrable", "CREATE TABLE t (id int PRIMARY KEY DEFERRABLE, u int, v int); ALTER TABLE t REPLICA IDENTITY FULL", "", ""},
		{"index with the key", "CREATE TABLE t " + columns + "; ALTER TABLE t REPLICA IDENTITY USING INDEX t_w_id_key", "", ""},
		{"index of another column", "CREATE TABLE t " + columns + ";" + index, "the log has u of a deleted row, the columns of its replica identity, not its id", back},
		{"index that is gone", "CREATE TABLE t " + columns + ";" + index + "; ALTER TABLE t DROP CONSTRAINT t_u_key", "the index that is its replica identity is gone or not valid", back},
		{"nothing", "CREATE TABLE t " + columns + "; ALTER TABLE t REPLICA IDENTITY NOTHING", "REPLICA IDENTITY NOTHING", back},
		{"deferrable", "CREATE TABLE t (id int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, u int, v int)", "the primary key is DEFERRABLE", full},
		{"deferrable, index", "CREATE TABLE t (id int PRIMARY KEY DEFERRABLE, u int NOT NULL UNIQUE);" + index, "the log has u of a deleted row", full},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := read(t, catalog.PostgreSQL, test.sql)
			text, notes := run(t, "", s, discover.Options{})
			p, err := catalog.Parse("pipeline.yaml", []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			sound := test.why == ""
			if got := p.Tables[0]; sound != (got.Mode == catalog.Mirror && len(got.Key) == 1) || !sound && len(got.Key) > 0 {
				t.Errorf("proposed a %s with key %v", got.Mode, got.Key)
			}
			if asked := strings.Contains(notes, "attention"); asked == sound || !strings.Contains(notes, test.why) || !strings.Contains(notes, test.fix) || !strings.Contains(text, test.why) {
				t.Errorf("want %q and %q in the notes:\n%s\n%s", test.why, test.fix, notes, text)
			}
			// What was proposed is asked once.
			if again, more := run(t, text, s, discover.Options{}); again != text || more != "" {
				t.Errorf("a second run says: %s", more)
			}
			// The same table before its identity changed.
			before, _, _ := strings.Cut(strings.NewReplacer(" DEFERRABLE", "", " INITIALLY DEFERRED", "").Replace(test.sql), ";")
			text, _ = run(t, "", read(t, catalog.PostgreSQL, before), discover.Options{})
			updated, notes := run(t, text, s, discover.Options{})
			if updated != text {
				t.Errorf("the file was changed:\n%s", updated)
			}
			if sound && notes != "" {
				t.Errorf("differences: %s", notes)
			}
			if !sound && (strings.Count(notes, "attention") != 1 || !strings.Contains(notes, "deletes do not carry the key of the file: "+test.why) || !strings.Contains(notes, test.fix)) {
				t.Errorf("want one difference with %q and %q:\n%s", test.why, test.fix, notes)
			}
		})
	}
}
