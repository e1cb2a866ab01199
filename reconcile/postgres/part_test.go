//go:build postgres

package postgres_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"icehose/internal/pgtest"
	"icehose/reconcile"
	"icehose/reconcile/postgres"
	"icehose/reconcile/reconciletest"
)

// The lake's type of a key may have texts that the source's has not: asking for
// them fails nothing, and finds the others.
func TestKeysThatCannotBe(t *testing.T) {
	for _, tt := range []struct{ source, lake, value, key string }{
		{"uuid", "string", "'123e4567-e89b-12d3-a456-426614174000'", "123e4567-e89b-12d3-a456-426614174000"},
		{"numeric", "string", "1.50", "1.50"},
		{"integer", "string", "7", "7"},
		{"date", "string", "'infinity'", "infinity"},
		{"timestamp", "string", "'2026-01-01 00:00:00'", "2026-01-01 00:00:00"},
		{"timestamptz", "string", "'0044-03-15 00:00:00Z BC'", "0044-03-15 00:00:00+00 BC"},
		{"boolean", "string", "true", "t"},
		{"bytea", "string", "'\\x00ff'", "\\x00ff"},
		{"smallint", "long", "7", "7"},
		{"text", "uuid", "'123E4567-E89B-12D3-A456-426614174000'", "123e4567-e89b-12d3-a456-426614174000"},
		{"text", "long", "'007'", "7"},
		{"integer", "decimal(9,2)", "7", "7.00"},
		{"date", "timestamp", "'2026-01-01'", "2026-01-01T00:00:00.000000"},
	} {
		t.Run(tt.source+" as "+tt.lake, func(t *testing.T) {
			dsn, conn := server.NewDatabase(t)
			pgtest.Execute(t, conn, fmt.Sprintf("CREATE TABLE t (id %s PRIMARY KEY, note text); INSERT INTO t VALUES (%s, 'n')", tt.source, tt.value))
			table := pipeline(t, strings.Replace(oneTable, "id, type: long", "id, type: \""+tt.lake+"\"", 1)).Tables[0]
			texts := [][]string{{tt.key}}
			switch tt.lake {
			case "string":
				texts = append(texts, []string{"garbage"}, []string{""}, []string{"'); SELECT 1; --"}, []string{"2026-13-45"})
			case "long":
				texts = append(texts, []string{"9223372036854775807"})
			}
			keys, err := reconcile.NewKeys(table, texts)
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for _, err := range view(t, open(t, dsn, postgres.Options{}), table, false).Rows(t.Context(), reconcile.Part{Buckets: 1, Keys: keys}) {
				if err != nil {
					t.Fatal(err)
				}
				n++
			}
			if n != 1 {
				t.Errorf("%d rows, want the one of %s", n, tt.key)
			}
		})
	}
}

// Keys may be equal to the column's collation: asked for several of them, in one
// statement or in two, the source gives the row of one once, and so a row that the
// lake has twice is found.
func TestKeysThatAreEqualToTheColumn(t *testing.T) {
	for _, tt := range []struct {
		name, column string
		apart        int // how many keys are between the two
		single       bool
	}{
		{"in one statement", "text COLLATE ci", 0, true},
		{"in several statements", "text COLLATE ci", 5000, true},
		{"among other key columns", "text COLLATE ci", 0, false},
		{"of a domain", "folded", 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dsn, conn := server.NewDatabase(t)
			key, more := "id", ""
			if !tt.single {
				key, more = "id, note", "no "
			}
			pgtest.Execute(t, conn, fmt.Sprintf(`CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false); CREATE DOMAIN folded AS text COLLATE ci;
				CREATE TABLE t (id %s, note text, PRIMARY KEY (%s)); INSERT INTO t SELECT 'k' || g, '%sn' FROM generate_series(1, 50000) g; ANALYZE t`, tt.column, key, more))
			p := pipeline(t, strings.NewReplacer("id, type: long", "id, type: string", "key: [id]", "key: ["+key+"]").Replace(oneTable))
			row := func(id string) []string { return []string{id, more + "n"}[:len(p.Tables[0].Key)] }
			texts := [][]string{row("K1")}
			for i := range tt.apart {
				texts = append(texts, row(fmt.Sprint("none", i)))
			}
			keys, err := reconcile.NewKeys(p.Tables[0], append(texts, row("k1"), row("B"), row("b")))
			if err != nil {
				t.Fatal(err)
			}
			twice := reconciletest.MakeRow("k1", more+"n")
			lake := &reconciletest.Memory{Tables: reconciletest.Tables{"public.t": {twice, twice}}}
			o := reconcile.Options{Keys: map[string]*reconcile.Keys{"public.t": keys}}
			report, err := reconcile.Run(t.Context(), p, open(t, dsn, postgres.Options{}), lake, o)
			if err != nil {
				t.Fatal(err)
			}
			got := report.Tables[0]
			if got.Counts != (reconcile.Counts{Duplicate: 1}) || got.Source.Rows == nil || *got.Source.Rows != 1 {
				t.Errorf("%s %+v, want the row of the source once: %s", got.Verdict, got.Counts, got.Why)
			}
		})
	}
}

// Only rows that the source changed lately.
func TestSince(t *testing.T) {
	dsn, conn := server.NewDatabase(t)
	pgtest.Execute(t, conn, `CREATE TABLE t (id bigint PRIMARY KEY, note timestamptz);
		INSERT INTO t VALUES (1, '2026-01-01 00:00:00Z'), (2, '2026-01-02 00:00:00Z'), (3, NULL), (4, '2026-01-03 00:00:00.000001Z')`)
	table := pipeline(t, strings.Replace(oneTable, "note, type: string", "note, type: timestamptz", 1)).Tables[0]
	v := view(t, open(t, dsn, postgres.Options{}), table, false)
	part := reconcile.Part{Buckets: 1, Since: &reconcile.Since{Column: "note", From: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)}}
	var got []string
	for row, err := range v.Rows(t.Context(), part) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(row.Key))
	}
	if strings.Join(got, " ") != "1:2 1:4" {
		t.Errorf("keys %v, want 2 and 4", got)
	}
}

// The last hours are those of any clock, where the source's times have no zone; and
// a column that the pipeline file does not have is named.
func TestSinceOfAnyClock(t *testing.T) {
	for typ, rows := range map[string]string{
		"timestamp": "(1, '2026-01-01 09:00:00'), (2, '2026-01-01 11:00:00'), (3, '2026-01-01 19:00:00'), (4, '2026-01-02 03:00:00')",
		"date":      "(1, '2025-12-31'), (2, '2026-01-01'), (3, '2026-01-01'), (4, '2026-01-02')",
	} {
		t.Run(typ, func(t *testing.T) {
			dsn, conn := server.NewDatabase(t)
			pgtest.Execute(t, conn, fmt.Sprintf(`CREATE TABLE t (id bigint PRIMARY KEY, note %s, "New" text, dropped text); ALTER TABLE t DROP dropped; INSERT INTO t VALUES %s`, typ, rows))
			p := pipeline(t, strings.Replace(oneTable, "note, type: string", "note, type: "+typ, 1))
			lake := &reconciletest.Memory{Tables: reconciletest.Tables{"public.t": nil}}
			o := reconcile.Options{Since: &reconcile.Since{Column: "note", From: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC), Text: "4h"}}
			report, err := reconcile.Run(t.Context(), p, open(t, dsn, postgres.Options{}), lake, o)
			if err != nil {
				t.Fatal(err)
			}
			if got := report.Tables[0]; got.Counts != (reconcile.Counts{Missing: 3}) || strings.Join(got.Unknown, " ") != "New" {
				t.Errorf("%s %+v, unknown %q: %s", got.Verdict, got.Counts, got.Unknown, got.Why)
			}
		})
	}
}
