//go:build postgres

package canonsql_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"icehose/catalog"
	"icehose/internal/canon"
	"icehose/internal/canon/canonsql"
	"icehose/internal/pgtest"
)

var postgresCases = []typeCase{
	{source: "boolean", lake: "boolean", values: []string{"true", "false"}},
	{source: "boolean", lake: "string", values: []string{"true", "false"}},
	{source: "smallint", lake: "int", values: []string{"-32768", "32767", "0"}},
	{source: "integer", lake: "int", values: []string{"-2147483648", "2147483647", "0"}},
	{source: "integer", lake: "long", values: []string{"-2147483648", "7"}},
	{source: "integer", lake: "string", values: []string{"-1", "7"}},
	{source: "bigint", lake: "long", values: []string{"-9223372036854775808", "9223372036854775807"}},
	{source: "bigint", lake: "int", values: []string{"1"}, streamed: true},
	{source: "oid", lake: "long", values: []string{"0", "4294967295"}},
	{source: "xid8", lake: "decimal(20,0)", values: []string{"'0'", "'18446744073709551615'"}},
	{source: "real", lake: "float", values: []string{"0", "'-0'", "0.1", "1e-45", "3.4028235e+38", "16777216", "'NaN'", "'Infinity'", "'-Infinity'", "1e6", "-1.5", "'Infinity'::real - 'Infinity'::real"}},
	{source: "real", lake: "double", values: []string{"0.1"}, streamed: true},
	{source: "double precision", lake: "double", values: []string{"0", "'-0'", "0.1", "5e-324", "2.2250738585072014e-308", "1.7976931348623157e+308", "1e15", "1e16", "123456789.123456789", "1e-5", "'NaN'", "'Infinity'", "'-Infinity'", "9007199254740993", "'Infinity'::float8 - 'Infinity'::float8"}},
	{source: "numeric(12,2)", lake: "decimal(12,2)", values: []string{"0", "-0.01", "9999999999.99", "-9999999999.99", "1.5", "-0.00"}},
	{source: "numeric(12,2)", lake: "decimal(14,4)", values: []string{"0", "1.5", "-0.01"}},
	{source: "numeric(12,2)", lake: "decimal(12,2)", losses: null, values: []string{"1.5", "'NaN'"}},
	{source: "numeric(38,10)", lake: "decimal(38,10)", values: []string{"1234567890123456789012345678.0123456789", "-0.0000000001"}},
	{source: "numeric(5,-2)", lake: "decimal(7,0)", values: []string{"1234500", "99"}},
	{source: "numeric(3,5)", lake: "decimal(5,5)", values: []string{"0.00123", "0"}},
	{source: "numeric(12,4)", lake: "decimal(12,2)", values: []string{"1"}, streamed: true},
	{source: "numeric", lake: "string", values: []string{"0.00", "1e40", "-1.500", "'NaN'", "'Infinity'"}},
	{source: "numeric", lake: "decimal(10,2)", values: []string{"1.5"}, streamed: true},
	{source: "numeric(40,2)", lake: "string", values: []string{"12345678901234567890123456789012345678.01", "1.5", "'NaN'", "-0.00"}},
	{source: "numeric(45)", lake: "string", values: []string{"-7", "0"}},
	{source: "time(3)", lake: "string", values: []string{"'12:00'", "'12:00:00.25'"}, streamed: true},
	{source: "money", lake: "decimal(23,4)", values: []string{"'12.34'", "'-92233720368547758.08'", "'0'"}},
	{source: "date", lake: "date", values: []string{"'0001-01-01'", "'9999-12-31'", "'1582-10-10'", "'2024-02-29'"}},
	{source: "date", lake: "date", losses: null, values: []string{"'infinity'", "'-infinity'", "'0044-03-15 BC'", "'10000-01-01'", "'2026-01-01'"}},
	{source: "time", lake: "time", values: []string{"'00:00'", "'23:59:59.999999'", "'12:00:00.1'"}},
	{source: "time(0)", lake: "time", values: []string{"'23:59:58'"}},
	{source: "time", lake: "time", losses: null, values: []string{"'24:00'", "'23:59:59.999999'"}},
	{source: "timestamp", lake: "timestamp", values: []string{"'0001-01-01'", "'9999-12-31 23:59:59.999999'", "'1969-12-31 23:59:59.999999'", "'2026-03-29 02:30'", "'2026-01-01 00:00:00.1'"}},
	{source: "timestamp(3)", lake: "timestamp", values: []string{"'2026-01-01 00:00:00.123'"}},
	{source: "timestamp", lake: "timestamp", losses: null, values: []string{"'infinity'", "'-infinity'", "'0044-03-15 01:02:03 BC'", "'10000-01-01'", "'2026-01-01'"}},
	{source: "timestamptz", lake: "timestamptz", values: []string{"'0001-01-01 00:00Z'", "'9999-12-31 23:59:59.999999Z'", "'2026-03-29 02:30+05:45'", "'1900-01-01 00:00:00.000001-12'"}},
	{source: "timestamptz", lake: "timestamptz", losses: null, values: []string{"'infinity'", "'0001-01-01 00:00+15:59:59'", "'10000-01-01 00:00Z'", "'0044-01-01 00:00Z BC'"}},
	{source: "timetz", lake: "string", values: []string{"'01:02:03.5+02'", "'24:00:00-15:59:59'"}},
	{source: "interval", lake: "string", values: []string{"'1 day 04:00:00.000001'", "'-1 mon +2 days -00:00:01'", "'0'", "'178000000 years'"}},
	{source: "text", lake: "string", values: []string{"''", "' '", "'a  '", "'N:'", "'1:a'", `E'tab\t\\back\n"quote"'`, "'日本語 🧊 e\u0301'", "repeat('x', 100000)"}},
	{source: "varchar(10)", lake: "string", values: []string{"''", "'a  '", "'ä'"}},
	{source: `varchar(10) COLLATE "C"`, lake: "string", values: []string{"'a'", "'A'", "'á'"}},
	{source: "char(5)", lake: "string", values: []string{"''", "'a'", "'a b  '", "'äöü'"}},
	{source: "char(5)", lake: "string", losses: []catalog.Loss{"padded"}, values: []string{"''", "'a'", "'a b  '", "'äöü'"}},
	{source: "bpchar", lake: "string", losses: []catalog.Loss{"padded"}, values: []string{"'a  '"}},
	{source: `"char"`, lake: "string", values: []string{"'x'", "''"}},
	{source: "name", lake: "string", values: []string{"'some name'"}},
	{source: "uuid", lake: "uuid", values: []string{"'00000000-0000-0000-0000-000000000000'", "'FFFFFFFF-ffff-FFFF-ffff-123456789abc'"}},
	{source: "uuid", lake: "string", values: []string{"'FFFFFFFF-ffff-FFFF-ffff-123456789abc'"}},
	{source: "bytea", lake: "binary", values: []string{`''`, `'\x00'`, `'\xff00'`, `'\x5c78'`}},
	{source: "bytea", lake: "fixed[2]", values: []string{`'\x00ff'`}},
	{source: "bytea", lake: "fixed[2]", losses: null, values: []string{`'\x00ff'`, `'\x00'`}},
	{source: "bytea", lake: "string", values: []string{`'\x00ff'`}},
	{source: "json", lake: "string", values: []string{`'{"b": 1,  "a":2, "a":3}'`, "'null'", `'"x"'`}},
	{source: "jsonb", lake: "string", values: []string{`'{"b": 1,  "a":2, "a":3}'`, "'null'", "'1.50'"}},
	{source: "xml", lake: "string", values: []string{"'<a>x</a>'"}},
	{source: "integer[]", lake: "string", values: []string{"'{}'", "'{1,NULL,3}'", "'[0:1]={1,2}'", "'{{1,2},{3,4}}'"}},
	{source: "text[]", lake: "string", values: []string{`ARRAY['a,b', NULL, '', 'NULL', 'q"u', 'b\s']`}},
	{source: "timestamptz[]", lake: "string", values: []string{"ARRAY['2026-01-01 00:00+05'::timestamptz]"}},
	{source: "mood", lake: "string", values: []string{"'very sad'", "'ok'"}},
	{source: "pair", lake: "string", values: []string{`ROW(1, 'a,b')`, "ROW(NULL, '')"}},
	{source: "whole", lake: "string", values: []string{"5"}},
	{source: "whole", lake: "int", values: []string{"5"}, streamed: true},
	{source: "inet", lake: "string", values: []string{"'10.0.0.1'", "'10.0.0.0/8'", "'::1'"}},
	{source: "cidr", lake: "string", values: []string{"'10.0.0.0/8'"}},
	{source: "macaddr", lake: "string", values: []string{"'08:00:2b:01:02:03'"}},
	{source: "bit(3)", lake: "string", values: []string{"B'101'", "B'000'"}},
	{source: "varbit", lake: "string", values: []string{"B''", "B'1'"}},
	{source: "point", lake: "string", values: []string{"'(1,-2.5)'"}},
	{source: "int4range", lake: "string", values: []string{"'[1,5)'", "'empty'"}},
	{source: "tsvector", lake: "string", values: []string{"'a:1 b:2'"}},
	{source: "numeric(12,2)[]", lake: "string", values: []string{"'{1.5,NaN}'"}},
}

// PostgreSQL renders every type as canon does, byte for byte.
func TestPostgresRendersLikeCanon(t *testing.T) {
	server := pgtest.New(t)
	conn := server.Connect(t)
	setUp := `CREATE TYPE mood AS ENUM ('very sad', 'ok'); CREATE TYPE pair AS (n integer, s text); CREATE DOMAIN whole AS integer CHECK (VALUE > 0);
		SET timezone = 'UTC'; SET datestyle = 'ISO, YMD'; SET intervalstyle = 'postgres'; SET bytea_output = 'hex'; SET extra_float_digits = 1`
	if _, err := conn.Exec(t.Context(), setUp); err != nil {
		t.Fatal(err)
	}
	for i, tt := range postgresCases {
		t.Run(tt.source+" as "+tt.lake, func(t *testing.T) {
			for n, mask := range []catalog.Mask{"", catalog.MaskSHA256, catalog.MaskNull} {
				comparePostgres(t, conn, fmt.Sprintf("t_%d_%d", i, n), tt, mask)
			}
		})
	}
}

func comparePostgres(t *testing.T, conn *pgx.Conn, table string, tt typeCase, mask catalog.Mask) {
	t.Helper()
	column := columnOf(t, tt, mask)
	if _, err := conn.Exec(t.Context(), fmt.Sprintf("CREATE TABLE %s (c %s)", table, tt.source)); err != nil {
		t.Fatal(err)
	}
	insert := fmt.Sprintf("INSERT INTO %s VALUES (%s), (NULL)", table, strings.Join(tt.values, "), ("))
	if _, err := conn.Exec(t.Context(), insert); err != nil {
		t.Fatal(err)
	}
	var declared, class string
	if err := conn.QueryRow(t.Context(), `SELECT format_type(atttypid, atttypmod), typtype::text FROM pg_attribute JOIN pg_type y ON y.oid = atttypid
		WHERE attrelid = $1::regclass AND attnum = 1`, table).Scan(&declared, &class); err != nil {
		t.Fatal(err)
	}
	typ, err := catalog.ParseSourceType(declared)
	if err != nil {
		t.Fatal(err)
	}
	rows := canonsql.Postgres([]canonsql.Column{{Column: column, Spelled: "c", Type: typ, Domain: class == "d"}})
	if checkExact(t, tt, mask, &rows) {
		return
	}
	result := conn.PgConn().ExecParams(t.Context(), fmt.Sprintf("SELECT %s, %s FROM %s t", rows.Texts[0], rows.Canonical[0], table), nil, nil, nil, nil)
	n := 0
	for result.NextRow() {
		n++
		checkValue(t, column, canon.Postgres, result.Values()[0], result.Values()[1])
	}
	if _, err := result.Close(); err != nil || n != len(tt.values)+1 {
		t.Errorf("%d rows, %v", n, err)
	}
}
