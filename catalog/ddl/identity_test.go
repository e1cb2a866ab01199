package ddl_test

import (
	"fmt"
	"strings"
	"testing"

	"icehose/catalog"
	"icehose/catalog/ddl"
)

// The replica identity of a table is read with its columns, whatever statement
// made the index, and whether the primary key is one.
func TestReplicaIdentity(t *testing.T) {
	const using = "; ALTER TABLE ONLY t REPLICA IDENTITY USING INDEX "
	tests := []struct{ name, text, want string }{
		{"primary key", "CREATE TABLE t (id int PRIMARY KEY NOT DEFERRABLE, u int UNIQUE DEFERRABLE)", "default [] false"},
		{"deferrable", "CREATE TABLE t (id int NOT NULL PRIMARY KEY DEFERRABLE, u int)", "default [] true"},
		{"deferred alone", "CREATE TABLE t (id int PRIMARY KEY INITIALLY DEFERRED, u int)", "default [] true"},
		{"deferrable, of the table", "CREATE TABLE t (id int, u int, PRIMARY KEY (id) INITIALLY DEFERRED)", "default [] true"},
		{"deferrable, added", "CREATE TABLE t (id int, u int); ALTER TABLE ONLY t ADD CONSTRAINT p PRIMARY KEY (id) DEFERRABLE INITIALLY DEFERRED", "default [] true"},
		{"column constraint", "CREATE TABLE t (id int PRIMARY KEY, u int UNIQUE)" + using + "t_u_key", "index [u] false"},
		{"named column constraint", "CREATE TABLE t (id int PRIMARY KEY, u int CONSTRAINT mine UNIQUE)" + using + "mine", "index [u] false"},
		{"table constraint", "CREATE TABLE t (id int PRIMARY KEY, u int, UNIQUE (u, id))" + using + "t_u_id_key", "index [u id] false"},
		{"added constraint", "CREATE TABLE t (id int PRIMARY KEY, u int); ALTER TABLE ONLY t ADD CONSTRAINT c UNIQUE (u)" + using + "c", "index [u] false"},
		{"index", "CREATE TABLE t (id int PRIMARY KEY, u int); CREATE UNIQUE INDEX i ON public.t USING btree (u) INCLUDE (id)" + using + "i", "index [u] false"},
		{"constraint of an index", "CREATE TABLE t (id int PRIMARY KEY, u int); CREATE UNIQUE INDEX i ON t (u); ALTER TABLE t ADD CONSTRAINT c UNIQUE USING INDEX i" + using + "c", "index [u] false"},
		{"primary key by name", "CREATE TABLE t (id int PRIMARY KEY, u int)" + using + "t_pkey", "index [id] false"},
		{"column renamed", "CREATE TABLE t (id int PRIMARY KEY, u int UNIQUE)" + using + "t_u_key; ALTER TABLE t RENAME u TO w", "index [w] false"},
		{"index dropped", "CREATE TABLE t (id int PRIMARY KEY, u int); CREATE UNIQUE INDEX i ON t (u)" + using + "i; DROP INDEX public.i", "index [] false"},
		{"constraint dropped", "CREATE TABLE t (id int PRIMARY KEY, u int UNIQUE)" + using + "t_u_key; ALTER TABLE t DROP CONSTRAINT t_u_key", "index [] false"},
		{"column dropped", "CREATE TABLE t (id int PRIMARY KEY, u int UNIQUE)" + using + "t_u_key; ALTER TABLE t DROP COLUMN u", "index [] false"},
		{"taken back", "CREATE TABLE t (id int PRIMARY KEY, u int UNIQUE)" + using + "t_u_key; ALTER TABLE t REPLICA IDENTITY FULL", "full [] false"},
		{"partition", "CREATE TABLE p (id int PRIMARY KEY DEFERRABLE) PARTITION BY HASH (id); CREATE TABLE t PARTITION OF p FOR VALUES WITH (MODULUS 1, REMAINDER 0)", "default [] true"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s, err := ddl.Read("f.sql", []byte(test.text), catalog.PostgreSQL)
			if err != nil {
				t.Fatal(err)
			}
			table := s.Table("public", "t")
			if got := fmt.Sprint(table.ReplicaIdentity, " ", table.IdentityColumns, " ", table.KeyDeferrable); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
	_, err := ddl.Read("f.sql", []byte("CREATE TABLE t (id int PRIMARY KEY);\nALTER TABLE t REPLICA IDENTITY USING INDEX none"), catalog.PostgreSQL)
	if err == nil || !strings.Contains(err.Error(), "f.sql:2: alter table public.t: replica identity using index none: no unique index of that name") {
		t.Errorf("an index that is not there: %v", err)
	}
}
