//go:build mariadb

package canonsql_test

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"icehose/catalog"
	"icehose/catalog/mysql"
	"icehose/internal/canon"
	"icehose/internal/canon/canonsql"
	"icehose/internal/mariadbtest"
)

var mariadbCases = []typeCase{
	{source: "tinyint", lake: "int", values: []string{"-128", "127", "0"}},
	{source: "tinyint(1)", lake: "boolean", values: []string{"0", "1"}},
	{source: "tinyint unsigned", lake: "int", values: []string{"255"}},
	{source: "tinyint(3) unsigned zerofill", lake: "int", values: []string{"7", "0"}},
	{source: "smallint", lake: "int", values: []string{"-32768", "32767"}},
	{source: "mediumint unsigned", lake: "int", values: []string{"16777215"}},
	{source: "int", lake: "int", values: []string{"-2147483648", "2147483647"}},
	{source: "int unsigned", lake: "long", values: []string{"4294967295", "0"}},
	{source: "int unsigned", lake: "int", values: []string{"1"}, streamed: true},
	{source: "int(10) unsigned zerofill", lake: "long", values: []string{"42"}},
	{source: "bigint", lake: "long", values: []string{"-9223372036854775808", "9223372036854775807"}},
	{source: "bigint unsigned", lake: "decimal(20,0)", values: []string{"18446744073709551615", "0"}},
	{source: "bigint unsigned", lake: "long", values: []string{"1"}, streamed: true},
	{source: "year", lake: "int", values: []string{"1901", "2155", "0"}},
	{source: "bit(1)", lake: "boolean", values: []string{"b'0'", "b'1'"}},
	{source: "bit(8)", lake: "binary", values: []string{"b'0'", "b'101'", "b'11111111'"}},
	{source: "bit(9)", lake: "binary", values: []string{"b'1'", "b'111111111'"}},
	{source: "bit(64)", lake: "binary", values: []string{"b'1'", "18446744073709551615"}},
	{source: "decimal(12,2)", lake: "decimal(12,2)", values: []string{"0", "-0.00", "-0.001", "9999999999.99", "-9999999999.99", "1.5"}},
	{source: "decimal(38,10)", lake: "decimal(38,10)", values: []string{"1234567890123456789012345678.0123456789", "-0.0000000001"}},
	{source: "decimal(12,2) unsigned", lake: "decimal(12,2)", values: []string{"1.5"}, streamed: true},
	{source: "decimal(12,2)", lake: "decimal(12,4)", values: []string{"1.5"}, streamed: true},
	{source: "decimal(60,2)", lake: "string", values: []string{"12345678901234567890123456789012345678901234567890.12", "0"}},
	{source: "decimal(65,30)", lake: "string", values: []string{"1.5", "-0.000000000000000000000000000001", "0", "-0.0"}},
	{source: "decimal(60)", lake: "string", values: []string{"-7", "123456789012345678901234567890123456789012345678901234567890"}},
	{source: "decimal(60,2) unsigned zerofill", lake: "string", values: []string{"1.5"}, streamed: true},
	{source: "time", lake: "string", values: []string{"'00:00:00'", "'-838:59:59'"}},
	{source: "time(3)", lake: "string", values: []string{"'00:00:00'", "'100:00:00.25'"}},
	{source: "float", lake: "float", values: []string{"0", "0.1", "16777216", "3.4028235e38", "1.4e-45", "-1.5"}, streamed: true},
	{source: "double", lake: "double", values: []string{"0", "-0e0", "0.1", "1e15", "1e16", "1.7976931348623157e308", "5e-324", "123456789.12345678"}, streamed: true},
	{source: "date", lake: "date", values: []string{"'2024-02-29'", "'9999-12-31'", "'0001-01-01'"}},
	{source: "date", lake: "date", losses: null, values: []string{"'0000-00-00'", "'2024-00-10'", "'2024-01-00'", "'2024-01-01'"}},
	{source: "datetime(6)", lake: "timestamp", values: []string{"'9999-12-31 23:59:59.999999'", "'2026-03-29 02:30:00'", "'0001-01-01'"}},
	{source: "datetime", lake: "timestamp", values: []string{"'2026-03-29 02:30:00'"}},
	{source: "datetime(6)", lake: "timestamp", losses: null, values: []string{"'0000-00-00'", "'2024-00-10 01:02:03'", "'2024-01-01'"}},
	{source: "timestamp(6) NULL", lake: "timestamptz", values: []string{"'2026-03-29 02:30:00.000001'", "'1970-01-01 00:00:01'", "'2038-01-19 03:14:07.999999'"}},
	{source: "timestamp NULL", lake: "timestamptz", losses: null, values: []string{"'0000-00-00'", "'2026-03-29 02:30:00'"}},
	{source: "time(6)", lake: "string", values: []string{"'-838:59:59'", "'838:59:59.999999'", "'00:00:00'", "'-00:00:00.5'"}},
	{source: "time", lake: "time", values: []string{"'01:02:03'"}, streamed: true},
	{source: "char(5)", lake: "string", values: []string{"''", "'a'", "'a b  '", "'ä'"}},
	{source: "varchar(10)", lake: "string", values: []string{"''", "' '", "'a  '", "'N:'"}},
	{source: "varchar(10) CHARACTER SET latin1", lake: "string", values: []string{"'ä'", "'é'"}},
	{source: "varchar(10) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", lake: "string", values: []string{"'🧊'", "'A'"}},
	{source: "varchar(10) CHARACTER SET utf16", lake: "string", values: []string{"'日本語'"}},
	{source: "text", lake: "string", values: []string{"''", `'tab\t\\back\n"quote"'`, "REPEAT('x', 60000)"}},
	{source: "json", lake: "string", values: []string{`'{"b": 1,  "a":2}'`, "'null'"}},
	{source: "enum('a','B c','')", lake: "string", values: []string{"'a'", "'B c'", "''"}},
	{source: "set('a','b','c')", lake: "string", values: []string{"''", "'a'", "'c,a'"}},
	{source: "binary(4)", lake: "binary", values: []string{"X'00'", "X'FF00FF00'"}},
	{source: "binary(4)", lake: "fixed[4]", values: []string{"X'FF00FF00'"}},
	{source: "varbinary(10)", lake: "binary", values: []string{"''", "X'00'", "X'5C78'"}},
	{source: "blob", lake: "binary", values: []string{"''", "X'00FF'", "REPEAT(X'00FF', 30000)"}},
	{source: "point", lake: "binary", values: []string{"ST_GeomFromText('POINT(1 -2.5)', 4326)"}},
	{source: "uuid", lake: "uuid", values: []string{"'FFFFFFFF-ffff-4FFF-8fff-123456789abc'", "'00000000-0000-0000-0000-000000000000'"}},
	{source: "inet4", lake: "string", values: []string{"'10.0.0.1'"}},
	{source: "inet6", lake: "string", values: []string{"'::1'", "'2001:db8::ff'"}},
}

// MariaDB renders every type as canon does, byte for byte.
func TestMariaDBRendersLikeCanon(t *testing.T) {
	server := mariadbtest.New(t)
	db, err := mysql.Open(server.DSN("") + "?multiStatements=true")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = db.Close() })
	setUp := "CREATE DATABASE conformance CHARACTER SET utf8mb4; USE conformance; SET NAMES utf8mb4; SET time_zone = '+00:00'; SET sql_mode = 'ALLOW_INVALID_DATES'"
	if _, err := db.ExecContext(t.Context(), setUp); err != nil {
		t.Fatal(err)
	}
	for i, tt := range mariadbCases {
		t.Run(tt.source+" as "+tt.lake, func(t *testing.T) {
			for n, mask := range []catalog.Mask{"", catalog.MaskSHA256, catalog.MaskNull} {
				compareMariaDB(t, db, fmt.Sprintf("t_%d_%d", i, n), tt, mask)
			}
		})
	}
}

func compareMariaDB(t *testing.T, db *sql.DB, table string, tt typeCase, mask catalog.Mask) {
	t.Helper()
	column := columnOf(t, tt, mask)
	insert := fmt.Sprintf("CREATE TABLE %[1]s (c %[2]s); INSERT INTO %[1]s VALUES (%[3]s), (NULL)", table, tt.source, strings.Join(tt.values, "), ("))
	if _, err := db.ExecContext(t.Context(), insert); err != nil {
		t.Fatal(err)
	}
	var declared string
	if err := db.QueryRowContext(t.Context(), "SELECT COLUMN_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'conformance' AND TABLE_NAME = ?", table).Scan(&declared); err != nil {
		t.Fatal(err)
	}
	typ, err := catalog.ParseSourceType(declared)
	if err != nil {
		t.Fatal(err)
	}
	rows := canonsql.MySQL([]canonsql.Column{{Column: column, Spelled: "c", Type: typ}})
	if checkExact(t, tt, mask, &rows) {
		checkStreamed(t, db, table, column, &rows)
		return
	}
	found, err := db.QueryContext(t.Context(), fmt.Sprintf("SELECT %s, %s FROM %s t", rows.Texts[0], rows.Canonical[0], table))
	if err != nil {
		t.Fatal(err)
	}
	defer found.Close() //nolint:errcheck // found.Err has what matters
	n := 0
	for found.Next() {
		n++
		var text, got sql.RawBytes
		if err := found.Scan(&text, &got); err != nil {
			t.Fatal(err)
		}
		checkValue(t, column, canon.MySQL, text, got)
	}
	if err := found.Err(); err != nil || n != len(tt.values)+1 {
		t.Errorf("%d rows, %v", n, err)
	}
}

// checkStreamed checks that no digit is lost on the way of a float's text: the
// server must find the value that canon read.
func checkStreamed(t *testing.T, db *sql.DB, table string, c *catalog.Column, rows *canonsql.Rows) {
	t.Helper()
	if c.Type.Kind != catalog.Float && c.Type.Kind != catalog.Double {
		return
	}
	found, err := db.QueryContext(t.Context(), fmt.Sprintf("SELECT %s FROM %s t WHERE c IS NOT NULL", rows.Texts[0], table))
	if err != nil {
		t.Fatal(err)
	}
	defer found.Close() //nolint:errcheck // found.Err has what matters
	var texts []string
	for found.Next() {
		var text string
		if err := found.Scan(&text); err != nil {
			t.Fatal(err)
		}
		canonical, err := canon.Append(nil, c, canon.MySQL, []byte(text))
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		texts = append(texts, string(canonical))
	}
	if err := found.Err(); err != nil {
		t.Fatal(err)
	}
	for _, text := range texts {
		equal := "c = " + text
		if c.Type.Kind == catalog.Float {
			equal = "c = CAST(" + text + " AS FLOAT)"
		}
		var n int
		if err := db.QueryRowContext(t.Context(), fmt.Sprintf("SELECT COUNT(*) FROM %s WHERE %s", table, equal)).Scan(&n); err != nil || n == 0 {
			t.Errorf("no row has %s, %v", text, err)
		}
	}
}
