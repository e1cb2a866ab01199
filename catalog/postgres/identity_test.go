//go:build postgres

package postgres_test

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/catalog/ddl"
	"icehose/catalog/postgres"
)

// identities has a table of each kind of replica identity.
const identities = `CREATE TABLE plain (id int PRIMARY KEY, u int NOT NULL UNIQUE);
CREATE TABLE included (id int, u int NOT NULL, PRIMARY KEY (id) INCLUDE (u));
CREATE TABLE whole (id int PRIMARY KEY DEFERRABLE, u int); ALTER TABLE whole REPLICA IDENTITY FULL;
CREATE TABLE wider (id int PRIMARY KEY, u int NOT NULL, UNIQUE (u, id)); ALTER TABLE wider REPLICA IDENTITY USING INDEX wider_u_id_key;
CREATE TABLE "Other" (id int PRIMARY KEY, u int NOT NULL UNIQUE); ALTER TABLE "Other" REPLICA IDENTITY USING INDEX "Other_u_key";
CREATE TABLE beside (id int PRIMARY KEY, u int NOT NULL); CREATE UNIQUE INDEX of_u ON beside (u) INCLUDE (id); ALTER TABLE beside REPLICA IDENTITY USING INDEX of_u;
CREATE TABLE late (id int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, u int NOT NULL UNIQUE);
CREATE TABLE late_other (id int PRIMARY KEY DEFERRABLE, u int NOT NULL UNIQUE); ALTER TABLE late_other REPLICA IDENTITY USING INDEX late_other_u_key;
CREATE TABLE nothing (id int PRIMARY KEY, u int); ALTER TABLE nothing REPLICA IDENTITY NOTHING;
CREATE TABLE late_nothing (id int PRIMARY KEY DEFERRABLE, u int); ALTER TABLE late_nothing REPLICA IDENTITY NOTHING;
CREATE TABLE parted (id int PRIMARY KEY DEFERRABLE, u int) PARTITION BY HASH (id); CREATE TABLE part PARTITION OF parted FOR VALUES WITH (MODULUS 1, REMAINDER 0);
`

// A live server and its dump say the same of what the log has of an old row.
// Where that is not the key, preflight says so with a statement that mends it.
func TestReplicaIdentity(t *testing.T) {
	server, conn := start(t)
	if _, err := conn.Exec(t.Context(), identities); err != nil {
		t.Fatal(err)
	}
	live, err := postgres.Read(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	text, err := exec.CommandContext(t.Context(), server.Program("pg_dump"), "--schema-only", "--dbname", server.DSN()).Output()
	if err != nil {
		t.Fatal(err)
	}
	dumped, err := ddl.Read("dump.sql", text, "")
	if err != nil {
		t.Fatal(err)
	}
	of := func(s *catalog.SourceSchema) map[string]string {
		out := make(map[string]string)
		for _, table := range s.Tables {
			out[table.Name] = fmt.Sprint(table.Key, " ", table.ReplicaIdentity, " ", table.IdentityColumns, " ", table.KeyDeferrable)
		}
		return out
	}
	want := map[string]string{
		"plain": "[id] default [] false", "included": "[id] default [] false", "whole": "[id] full [] true", "wider": "[id] index [u id] false", "Other": "[id] index [u] false",
		"beside": "[id] index [u] false", "late": "[id] default [] true", "late_other": "[id] index [u] true", "nothing": "[id] nothing [] false", "late_nothing": "[id] nothing [] true",
		"part": "[id] default [] true",
	}
	if diff := cmp.Diff(want, of(live)); diff != "" {
		t.Errorf("live (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, of(dumped)); diff != "" {
		t.Errorf("dump (-want +got):\n%s", diff)
	}

	// An index that is dropped stays named as the identity.
	if _, err := conn.Exec(t.Context(), `CREATE TABLE gone (id int PRIMARY KEY, u int NOT NULL UNIQUE); ALTER TABLE gone REPLICA IDENTITY USING INDEX gone_u_key; ALTER TABLE gone DROP CONSTRAINT gone_u_key`); err != nil {
		t.Fatal(err)
	}
	findings := func() map[string]string {
		s, err := postgres.Read(t.Context(), conn)
		if err != nil {
			t.Fatal(err)
		}
		found, err := postgres.Preflight(t.Context(), conn, s, nil)
		if err != nil {
			t.Fatal(err)
		}
		out := make(map[string]string)
		for _, f := range found {
			if f.Severity == catalog.SeverityError {
				out[f.ID+" "+f.Object] = f.Fix
			}
		}
		return out
	}
	found := findings()
	for _, id := range []string{
		"replica_identity_index public.Other", "replica_identity_index public.beside", "replica_identity_index public.late_other", "replica_identity_index public.gone",
		"key_deferrable public.late", "key_deferrable public.part", "replica_identity_nothing public.nothing", "replica_identity_nothing public.late_nothing",
	} {
		fix, ok := found[id]
		if !ok {
			t.Errorf("no finding %s", id)
			continue
		}
		delete(found, id)
		statement, _, _ := strings.Cut(fix, ";")
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Errorf("%s: %v", statement, err)
		}
	}
	if len(found) > 0 {
		t.Errorf("other errors: %v", found)
	}
	if still := findings(); len(still) > 0 {
		t.Errorf("errors after the fixes: %v", still)
	}

	// Every deferrable key is whole by now, and may change places in one statement.
	s, err := postgres.Read(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	all, err := postgres.Preflight(t.Context(), conn, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	var warned []string
	for _, f := range all {
		if f.ID == "key_deferrable_changes" {
			warned = append(warned, f.Object)
		}
	}
	slices.Sort(warned)
	if diff := cmp.Diff([]string{"public.late", "public.late_nothing", "public.late_other", "public.part", "public.whole"}, warned); diff != "" {
		t.Errorf("keys that may change places (-want +got):\n%s", diff)
	}
}
