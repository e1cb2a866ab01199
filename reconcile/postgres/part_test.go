//go:build postgres

package postgres_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"icehose/reconcile"
	"icehose/reconcile/postgres"
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
			dsn, conn := newDatabase(t)
			execute(t, conn, fmt.Sprintf("CREATE TABLE t (id %s PRIMARY KEY, note text); INSERT INTO t VALUES (%s, 'n')", tt.source, tt.value))
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

// Only rows that the source changed lately.
func TestSince(t *testing.T) {
	dsn, conn := newDatabase(t)
	execute(t, conn, `CREATE TABLE t (id bigint PRIMARY KEY, note timestamptz);
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
