//go:build interop && postgres

package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"icehose/catalog"
)

// onlyLoaded are values that a load brings and DMS does not: it writes integers
// beyond 18 digits with an exponent, and what is no number as null.
var onlyLoaded = map[string][]string{
	"bigint": {"-9223372036854775808", "9223372036854775807"},
	"real":   {"NaN", "Infinity", "-Infinity"}, "double precision": {"NaN", "Infinity", "-Infinity"},
}

// What engines that are not ours read of every type of PostgreSQL is
// PostgreSQL's own text of the value: after capture, transform and sink, and
// after a load.
func TestTypesReadIndependently(t *testing.T) {
	conn, dir, names := carryTypes(t)
	p, err := catalog.Load(filepath.Join(dir, "pipeline.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	exec1(t, conn, "SET timezone = 'UTC'; SET datestyle = 'ISO'; SET intervalstyle = 'postgres'; SET extra_float_digits = 1")
	var tables []carried
	for _, name := range slices.Sorted(maps.Keys(names)) {
		table := p.BySource("public", name)
		if table == nil {
			t.Fatalf("no table public.%s in the pipeline file", name)
		}
		c := carried{names[name], table}
		if losses := c.column().Loses; len(losses) > 0 {
			t.Errorf("%s: loses %v: this test takes every value for equal", c.declared, losses)
		}
		tables = append(tables, c)
	}
	t.Run("captured", func(t *testing.T) {
		compareEngines(t, postgresTexts(t, conn, tables), filepath.Join(dir, "lake"), tables)
	})
	t.Run("loaded", func(t *testing.T) {
		for name, declared := range names {
			for i, v := range onlyLoaded[declared] {
				exec1(t, conn, fmt.Sprintf("INSERT INTO %s VALUES (%d, '%s')", name, 1000+i, v))
			}
		}
		dsn := conn.Config().ConnString()
		args := []string{"load", "--lake", "loaded"}
		var loaded []carried
		for _, c := range tables {
			loaded, args = append(loaded, c), append(args, c.table.Source)
		}
		if out, stderr, status := runLive(t, dir, dsn, args...); status != exitSame {
			t.Fatalf("load: status %d: %s%s", status, out, stderr)
		}
		compareEngines(t, postgresTexts(t, conn, loaded), filepath.Join(dir, "loaded"), loaded)
	})
}

// postgresTexts returns PostgreSQL's own texts of the tables by type and id.
func postgresTexts(t *testing.T, conn *pgx.Conn, tables []carried) map[string]map[string]string {
	t.Helper()
	texts := make(map[string]map[string]string)
	for i := range tables {
		texts[tables[i].declared] = postgresTextsOf(t, conn, &tables[i])
	}
	return texts
}

// postgresTextsOf returns PostgreSQL's own text of each v by id, as its output
// functions write it.
func postgresTextsOf(t *testing.T, conn *pgx.Conn, c *carried) map[string]string {
	t.Helper()
	value := "v"
	if c.declared == "money" {
		value = "v::numeric" // the text of money has a currency and depends on a language
	}
	// The simple protocol gives texts.
	results, err := conn.PgConn().Exec(t.Context(), "SELECT id, "+value+" FROM "+c.table.Source).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	texts := make(map[string]string)
	for _, row := range results[0].Rows {
		id := string(row[0])
		if row[1] == nil {
			texts[id] = null
			continue
		}
		text := string(row[1])
		switch c.declared {
		case "boolean":
			text = map[string]string{"t": "true", "f": "false"}[text] // one letter for the word
		case "character", "character(2)", "bpchar":
			text = strings.TrimRight(text, " ") // padding, which PostgreSQL itself ignores: docs/types.md
		}
		texts[id] = normal(t, c.column().Type.Kind, &text)
	}
	if len(texts) < 4 { // a null and a value, each loaded and changed
		t.Errorf("%s: %d rows, want 4 or more", c.declared, len(texts))
	}
	return texts
}
