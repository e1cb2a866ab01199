//go:build postgres

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"icehose/catalog"
	"icehose/internal/pgtest"
)

// boundaries are values at the limits of each type, in PostgreSQL's text. Of bigint
// those that DMS writes as integers: beyond 18 digits it writes an exponent,
// which fails as a damaged number.
var boundaries = map[string][]string{
	"boolean": {"true", "false"}, "smallint": {"-32768", "32767"}, "integer": {"-2147483648", "2147483647"},
	"bigint": {"-999999999999999999", "999999999999999999", "0"}, "oid": {"0", "4294967295"}, "xid": {"4294967295"}, "cid": {"4294967295"},
	"xid8": {"18446744073709551615"}, "real": {"3.4028235e38", "1e-45", "2.2", "-0"}, "double precision": {"1.7976931348623157e308", "5e-324", "0.1"},
	"numeric(12,2)": {"9999999999.99", "-9999999999.99", "0"}, "numeric(38,0)": {"99999999999999999999999999999999999999"},
	"numeric(39,2)": {"9999999999999999999999999999999999999.99"}, "numeric(3,5)": {"0.00999"}, "numeric(5,-2)": {"9999900"},
	"numeric(40,2)": {"-99999999999999999999999999999999999999.99"}, "numeric": {"0.1234567890123456789012345", "1e100", "NaN", "-Infinity"},
	"money": {"-92233720368547758.08", "92233720368547758.07"}, "date": {"0001-01-01", "9999-12-31"},
	"time without time zone": {"00:00:00", "23:59:59.999999"}, "time(3) without time zone": {"12:00:00.123"},
	"time with time zone": {"24:00:00-15:59", "12:00:00.5+05:30"}, "timestamp without time zone": {"0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"},
	"timestamp with time zone": {"0001-01-02 00:00:00+00", "9999-12-30 23:59:59.999999+00"}, "timestamp(0) with time zone": {"1969-12-31 23:59:59+00"},
	"interval": {"-1 years -2 mons 3 days -04:05:06.000007", "0"}, "interval day to second(3)": {"1 day 02:03:04.567"},
	"character": {"a", ""}, "character(2)": {"ab", "", "a"}, "character varying": {"ab  "}, "character varying(10)": {"ab  ", "", "ünï🙂"}, "bpchar": {"a"},
	"text": {"a\nb\tc\\\"'\u0001", ""}, `"char"`: {"x"}, "name": {"n"}, "citext": {"A b"}, "hstore": {`"a"=>"1", "b"=>NULL`}, "ltree": {"a.b"}, "lquery": {"a.*"}, "ltxtquery": {"a & b"},
	"bytea": {`\x`, `\x00ff10`}, "uuid": {"ffffffff-ffff-ffff-ffff-ffffffffffff"}, "json": {`{"a":  1, "a": "\u00fc"}`}, "jsonb": {`{"a": 1}`}, "jsonpath": {`$."a"`},
	"xml": {"<a>1</a>"}, "bit": {"1"}, "bit(3)": {"101"}, "bit varying": {"", "10101"}, "point": {"(1,2)"}, "line": {"{1,2,3}"}, "lseg": {"[(0,0),(1,1)]"},
	"box": {"(1,1),(0,0)"}, "path": {"((0,0),(1,1))"}, "polygon": {"((0,0),(1,1),(1,0))"}, "circle": {"<(0,0),1>"}, "inet": {"192.168.0.1/24", "::1"},
	"cidr": {"10.0.0.0/8"}, "macaddr": {"08:00:2b:01:02:03"}, "macaddr8": {"08:00:2b:01:02:03:04:05"}, "tsvector": {"'a' 'b':1"}, "tsquery": {"'a' & 'b'"},
	"int4range": {"[1,5)", "empty"}, "int8range": {"[1,)"}, "numrange": {"[1.5,2.5]"}, "tsrange": {`["2020-01-01 00:00:00","2021-01-01 00:00:00")`},
	"tstzrange": {`["2020-01-01 00:00:00+00",)`}, "daterange": {"[2020-01-01,2021-01-01)"}, "int4multirange": {"{[1,3),[5,7)}"}, "int8multirange": {"{}"},
	"nummultirange": {"{[1,2]}"}, "tsmultirange": {"{}"}, "tstzmultirange": {"{}"}, "datemultirange": {"{}"}, "regclass": {"pg_class"}, "regcollation": {`"C"`},
	"regconfig": {"english"}, "regdictionary": {"simple"}, "regnamespace": {"pg_catalog"}, "regoper": {"||/"}, "regoperator": {"+(integer,integer)"}, "regproc": {"now"},
	"regprocedure": {"now()"}, "regrole": {"postgres"}, "regtype": {"integer"}, "pg_lsn": {"16/B374D848"}, "pg_snapshot": {"10:20:10,14"}, "txid_snapshot": {"10:20:10"},
	"tid": {"(0,1)"}, "aclitem": {"postgres=r/postgres"}, "refcursor": {"c"}, "int2vector": {"1 2"}, "oidvector": {"1 2"}, "text[]": {`{"a,b",NULL}`},
	"an enum": {"it's ok"}, "a composite type": {`(street,"a b")`}, "a range type": {"[1.5,2.5)"},
}

// noColumn are types that no column can have, or that take no value from outside.
var noColumn = []string{"gtsvector", "pg_node_tree", "pg_ndistinct", "pg_dependencies", "pg_mcv_list", "pg_brin_bloom_summary", "pg_brin_minmax_multi_summary"}

// carryTypes carries a table of every type from PostgreSQL into a lake:
// discovered, captured, transformed and written. It returns the source, the
// folder of pipeline.yaml and lake, and the types by table.
func carryTypes(t *testing.T) (conn *pgx.Conn, dir string, names map[string]string) {
	t.Helper()
	server := pgtest.New(t)
	conn = server.Connect(t)
	exec1(t, conn, `CREATE TYPE mood AS ENUM ('sad', 'it''s ok'); CREATE TYPE addr AS (a text, b text); CREATE TYPE floatrange AS RANGE (subtype = float8)`)
	for _, extension := range []string{"citext", "hstore", "ltree"} {
		exec1(t, conn, "CREATE EXTENSION "+extension)
	}
	names = createTypeTables(t, conn)

	dir = t.TempDir()
	if _, stderr, status := runLive(t, dir, server.DSN(), "catalog", "discover", "--database", "lake"); status != exitSame {
		t.Fatalf("discover: status %d: %s", status, stderr)
	}
	ended := make(chan error, 1)
	go func() {
		if _, stderr, status := runLive(t, dir, server.DSN(), "capture", "--out", "events.ndjson", "--until-idle", "3s"); status != exitSame {
			ended <- fmt.Errorf("status %d: %s", status, stderr)
			return
		}
		ended <- nil
	}()
	waitForSlot(t, conn, ended)
	// Each row is also seen as a change, and each value as that of a new row.
	var changes strings.Builder
	for _, name := range slices.Sorted(maps.Keys(names)) {
		fmt.Fprintf(&changes, "UPDATE %s SET id = id; INSERT INTO %s SELECT id + 100, v FROM %s;", name, name, name)
	}
	exec1(t, conn, changes.String())
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if out, stderr, status := runLive(t, dir, "", "sink", "--pipeline", "pipeline.yaml", "--lake", "lake", "events.ndjson"); status != exitSame {
		t.Errorf("sink: status %d: %s%s", status, out, stderr)
	}
	return conn, dir, names
}

// Values at the limits of every type of PostgreSQL arrive as the database's
// own text says: carried the whole way and read again.
func TestEveryTypeRoundTrip(t *testing.T) {
	conn, dir, names := carryTypes(t)
	dumpTypeTables(t, conn, dir, names)
	out, stderr, _ := runLive(t, dir, "", "--json", "reconcile", "--pipeline", "pipeline.yaml", "--lake", "lake", "--dump", "dump", "--final")
	var report struct {
		Tables []struct{ Table, Verdict string } `json:"tables"`
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("%v in %s%s", err, out, stderr)
	}
	got, want := make(map[string]string), make(map[string]string)
	for _, table := range report.Tables {
		got[names[strings.TrimPrefix(table.Table, "public.")]] = table.Verdict
	}
	for _, declared := range names {
		want[declared] = "equal"
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s%s", diff, out)
	}
}

// createTypeTables makes a table of every type in the table of types, with its
// boundary values and a null, and returns the types by table.
func createTypeTables(t *testing.T, conn *pgx.Conn) map[string]string {
	t.Helper()
	names := make(map[string]string)
	own := map[string]string{"an enum": "mood", "a composite type": "addr", "a range type": "floatrange"}
	for i, c := range catalog.Types(catalog.PostgreSQL) {
		if slices.Contains(noColumn, c.Declared) {
			continue
		}
		values := boundaries[c.Declared]
		if len(values) == 0 {
			t.Errorf("no boundary values for %s", c.Declared)
			continue
		}
		name, declared := fmt.Sprintf("t%02d", i), c.Declared
		if sql, ok := own[declared]; ok {
			declared = sql
		}
		names[name] = c.Declared
		exec1(t, conn, "CREATE TABLE "+name+" (id integer PRIMARY KEY, v "+declared+")")
		exec1(t, conn, "INSERT INTO "+name+" VALUES (0, NULL)")
		for j, v := range values {
			if _, err := conn.Exec(t.Context(), fmt.Sprintf("INSERT INTO %s VALUES (%d, '%s'::text::%s)", name, j+1, strings.ReplaceAll(v, "'", "''"), declared)); err != nil {
				// Some types have no cast from text, only a form to be written in.
				exec1(t, conn, fmt.Sprintf("INSERT INTO %s VALUES (%d, '%s')", name, j+1, strings.ReplaceAll(v, "'", "''")))
			}
		}
	}
	return names
}

// dumpTypeTables writes the database's own text of every value.
func dumpTypeTables(t *testing.T, conn *pgx.Conn, dir string, names map[string]string) {
	t.Helper()
	if err := os.Mkdir(filepath.Join(dir, "dump"), 0o700); err != nil {
		t.Fatal(err)
	}
	exec1(t, conn, "SET timezone = 'UTC'; SET datestyle = 'ISO'; SET intervalstyle = 'postgres'; SET extra_float_digits = 1")
	for name, declared := range names {
		value := "v"
		if declared == "money" {
			value = "v::numeric AS v" // the text of money depends on a language
		}
		f, err := os.Create(filepath.Join(dir, "dump", "public."+name+".csv"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = conn.PgConn().CopyTo(t.Context(), f, "COPY (SELECT id, "+value+" FROM "+name+") TO STDOUT (FORMAT csv, HEADER)")
		if err = errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
}
