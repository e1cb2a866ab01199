//go:build interop && mariadb

package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"icehose/catalog"
	"icehose/catalog/mysql"
	"icehose/internal/mariadbtest"
)

// mariaBoundaries are values at the limits of each type, as expressions of SQL.
var mariaBoundaries = map[string][]string{
	"tinyint": {"-128", "127"}, "tinyint(1)": {"-128", "127"}, "tinyint unsigned": {"0", "255"}, "smallint": {"-32768", "32767"},
	"mediumint": {"-8388608", "8388607"}, "int": {"-2147483648", "2147483647"}, "integer": {"-2147483648", "2147483647"}, "int unsigned": {"0", "4294967295"},
	"bigint": {"-9223372036854775808", "9223372036854775807"}, "bigint unsigned": {"0", "18446744073709551615"}, "year": {"1901", "2155", "'0000'"},
	"decimal": {"-9999999999", "9999999999"}, "decimal(12,2)": {"-9999999999.99", "0", "9999999999.99"},
	"decimal(38,10)": {"9999999999999999999999999999.9999999999", "-0.0000000001"},
	"decimal(65,30)": {"99999999999999999999999999999999999.999999999999999999999999999999", "-0.000000000000000000000000000001"},
	"float":          {"3.4028234e38", "-3.4028234e38", "1.17549435e-38", "16777217", "0.1"}, "double": {"1.7976931348623157e308", "2.2250738585072014e-308", "0.1"},
	"double precision": {"-1.7976931348623157e308", "0.1"}, "real": {"1.7976931348623157e308", "0.1"},
	"date": {"'0001-01-01'", "'1582-10-10'", "'9999-12-31'"}, "datetime": {"'0001-01-01 00:00:00'", "'9999-12-31 23:59:59'"},
	"datetime(6)": {"'0001-01-01 00:00:00'", "'9999-12-31 23:59:59.999999'"}, "timestamp": {"'1970-01-01 00:00:01'", "'2038-01-19 03:14:07'"},
	"time": {"'-838:59:59'", "'838:59:59'", "'00:00:00'"}, "char": {"''", "'a'", "'é'"}, "varchar": {"''", "'ab  '", "'ünï🙂'"},
	"tinytext": {"''", "REPEAT('x', 255)"}, "text": {`'a\nb\tc\\"\'\Z'`, "REPEAT('x', 65535)"}, "mediumtext": {"''", "REPEAT('é', 70000)"}, "longtext": {"''", "'x  '"},
	"json": {`'{"a":  1, "a": "\\u00fc"}'`, "'null'"}, "enum('a','b')": {"'a'", "'b'"}, "set('a','b')": {"''", "'a'", "'a,b'"},
	"binary": {"x'00'", "x'ff'"}, "varbinary": {"''", "x'00ff10'", "x'2000'"}, "tinyblob": {"''", "REPEAT(x'ff', 255)"}, "blob": {"''", "x'00ff275c'"}, "mediumblob": {"''", "REPEAT(x'00', 70000)"},
	"longblob": {"''", "x'00ff'"}, "bit": {"0", "1"}, "bit(1)": {"0", "1"}, "bit(8)": {"0", "1", "255"}, "bit(64)": {"0", "1", "18446744073709551615"},
	"geometry": {"ST_GeomFromText('POINT(1 -2.5)', 4326)", "ST_GeomFromText('GEOMETRYCOLLECTION EMPTY')"}, "point": {"ST_GeomFromText('POINT(1 2)')"},
	"linestring": {"ST_GeomFromText('LINESTRING(0 0,1 1)')"}, "polygon": {"ST_GeomFromText('POLYGON((0 0,1 0,1 1,0 0))')"}, "multipoint": {"ST_GeomFromText('MULTIPOINT(0 0,1 1)')"},
	"multilinestring": {"ST_GeomFromText('MULTILINESTRING((0 0,1 1))')"}, "multipolygon": {"ST_GeomFromText('MULTIPOLYGON(((0 0,1 0,1 1,0 0)))')"},
	"geometrycollection": {"ST_GeomFromText('GEOMETRYCOLLECTION(POINT(1 2))')"},
	"uuid":               {"'00000000-0000-0000-0000-000000000000'", "'FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF'"}, "inet4": {"'0.0.0.0'", "'255.255.255.255'"},
	"inet6": {"'::'", "'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'", "'::ffff:10.0.0.1'"},
}

// zeroDate is a date of no day, which no type of the lake can hold.
var zeroDate = regexp.MustCompile(`^0000-|^.{4}-00|^.{4}-..-00`)

// notMaria are types that not every server with this test has: of MySQL, or of a
// later MariaDB.
var notMaria = []string{"geomcollection", "vector(3)", "xmltype"}

// What engines that are not ours read of every type of MariaDB, after a load,
// is MariaDB's own text of the value; or null, where that loss was declared.
func TestTypesReadIndependentlyMariaDB(t *testing.T) {
	server := mariadbtest.New(t)
	for _, test := range []struct {
		database, modes string
		zeroDates       bool
		losses          []catalog.Loss
	}{
		{"exact", "STRICT_TRANS_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE", false, nil},
		{"zeros", "", true, []catalog.Loss{catalog.LossNull}},
	} {
		t.Run(test.database, func(t *testing.T) {
			m := &mariaLoad{t: t, server: server, dir: t.TempDir()}
			var err error
			if m.db, err = mysql.Open(server.DSN("")); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = m.db.Close() })
			m.db.SetMaxOpenConns(1) // so that SET holds for all statements
			m.exec("SET GLOBAL sql_mode = '" + test.modes + "'")
			m.exec("SET sql_mode = '" + test.modes + "', time_zone = '+00:00'")
			m.exec("CREATE DATABASE " + test.database)
			m.exec("USE " + test.database)
			m.compareTypes(test.database, m.createTypeTables(test.zeroDates), test.losses)
		})
	}
}

// compareTypes loads the tables and compares what is read of them. Each column
// must have these losses, in the words of discover.
func (m *mariaLoad) compareTypes(database string, names map[string]string, losses []catalog.Loss) {
	m.t.Helper()
	m.run(exitSame, m.server.DSN(database), "catalog", "discover", "--database", "lake")
	path := filepath.Join(m.dir, "pipeline.yaml")
	p, err := catalog.Load(path)
	if err != nil {
		m.t.Fatal(err)
	}
	var tables []carried
	args := []string{"load", "--lake", "lake"}
	want := make(map[string]map[string]string)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		table := p.BySource(database, name)
		if table == nil {
			m.t.Fatalf("no table %s.%s in the pipeline file", database, name)
		}
		c := carried{names[name], table}
		if got := c.column().Loses; !slices.Equal(got, losses) {
			m.t.Errorf("%s: discover says it loses %v, want %v", c.declared, got, losses)
		}
		tables, args = append(tables, c), append(args, database+"."+name)
		want[c.declared] = m.ownTexts(name, &c)
	}
	if len(losses) > 0 {
		for _, c := range tables { // nothing is lost in silence
			if out := m.run(exitTrouble, m.server.DSN(database), "load", "--lake", "lake", c.table.Source); !strings.Contains(out, "allow_lossy: [null]") {
				m.t.Errorf("%s: the refusal does not say how to allow the loss: %s", c.declared, out)
			}
		}
		m.allowLosses(path)
	}
	m.run(exitSame, m.server.DSN(database), args...)
	compareEngines(m.t, want, filepath.Join(m.dir, "lake"), tables)
}

// allowLosses allows what loses: lists, as a person would after reading it.
func (m *mariaLoad) allowLosses(path string) {
	m.t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		m.t.Fatal(err)
	}
	text = regexp.MustCompile(`loses: (\[[^]]*\])`).ReplaceAll(text, []byte("allow_lossy: $1, loses: $1"))
	if err := os.WriteFile(path, text, 0o600); err != nil {
		m.t.Fatal(err)
	}
}

// createTypeTables makes a table of every type in the table of types, with its
// boundary values and a null, and returns the types by table: of the types of
// dates that may be zero, or of all others.
func (m *mariaLoad) createTypeTables(zeroDates bool) map[string]string {
	m.t.Helper()
	names := make(map[string]string)
	for i, c := range catalog.Types(catalog.MariaDB) {
		if c.ZeroDates != zeroDates || slices.Contains(notMaria, c.Declared) {
			continue
		}
		values := mariaBoundaries[c.Declared]
		if len(values) == 0 {
			m.t.Errorf("no boundary values for %s", c.Declared)
			continue
		}
		if zeroDates {
			values = append([]string{"'0000-00-00'", "'2024-00-10'", "'2024-01-00'"}, values...)
		}
		name, declared := fmt.Sprintf("t%02d", i), c.Declared
		if strings.HasPrefix(declared, "var") {
			declared += "(100)" // these two have no length of their own
		}
		names[name] = c.Declared
		m.exec("CREATE TABLE " + name + " (id integer PRIMARY KEY, v " + declared + " NULL)")
		m.exec("INSERT INTO " + name + " VALUES (0, NULL)")
		for j, v := range values {
			m.exec(fmt.Sprintf("INSERT INTO %s VALUES (%d, %s)", name, j+1, v))
		}
	}
	return names
}

// ownTexts returns MariaDB's own text of each v by id.
func (m *mariaLoad) ownTexts(name string, c *carried) map[string]string {
	m.t.Helper()
	kind, value := c.column().Type.Kind, "CAST(v AS CHAR)"
	if kind == catalog.Binary || kind == catalog.Boolean {
		value = "v" // bytes, as they are
	}
	if kind == catalog.Float {
		value = "CAST(v + 0e0 AS CHAR)" // as a float it is written with six digits, as a double with all
	}
	rows, err := m.db.QueryContext(m.t.Context(), "SELECT id, "+value+" FROM "+name)
	if err != nil {
		m.t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	texts := make(map[string]string)
	for rows.Next() {
		var id string
		var raw []byte
		if err := rows.Scan(&id, &raw); err != nil {
			m.t.Fatal(err)
		}
		texts[id] = m.ownText(kind, c.declared, raw)
	}
	if err := rows.Err(); err != nil {
		m.t.Fatal(err)
	}
	if len(texts) < 2 { // a null and a value
		m.t.Errorf("%s: %d rows, want 2 or more", c.declared, len(texts))
	}
	return texts
}

func (m *mariaLoad) ownText(kind catalog.TypeKind, declared string, raw []byte) string {
	m.t.Helper()
	if raw == nil {
		return null
	}
	text := string(raw)
	switch {
	case kind == catalog.Binary:
		text = fmt.Sprintf(`\x%x`, raw) // bytes in hexadecimal
	case kind == catalog.Boolean:
		text = map[string]string{"\x00": "false", "\x01": "true"}[text] // one bit for the word
	case declared == "year" && text == "0000":
		text = "0" // a year is written with four digits, an integer with as many as it has
	case kind == catalog.TimestampTZ:
		text += "+00" // the session's zone, which MariaDB leaves out
	}
	if zeroDate.MatchString(text) && (kind == catalog.Date || kind == catalog.Timestamp || kind == catalog.TimestampTZ) {
		return null // the declared loss: compareTypes wants it declared
	}
	return normal(m.t, kind, &text)
}
