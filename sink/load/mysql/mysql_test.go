//go:build mariadb

package mysql_test

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	source "icehose/catalog/mysql"
	"icehose/internal/mariadbtest"
	"icehose/sink/load"
	"icehose/sink/load/mysql"
)

// shop starts a server with a database shop, and opens it.
func shop(t *testing.T, options ...string) (*mariadbtest.Server, *sql.DB) {
	t.Helper()
	server := mariadbtest.New(t, options...)
	db, err := source.Open(server.DSN("") + "?multiStatements=true")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	execute(t, db, "CREATE DATABASE shop")
	return server, db
}

func execute(t *testing.T, db interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}, statements string,
) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statements); err != nil {
		t.Fatalf("%s: %v", statements, err)
	}
}

// ids returns the first column of every row, sorted.
func ids(t *testing.T, s *load.Snapshot) (all []string) {
	t.Helper()
	for _, part := range s.Parts {
		for row, err := range part(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, string(row[0]))
		}
	}
	slices.Sort(all)
	return all
}

// Whatever type a key begins with, parts have every row once.
func TestPartsHaveEveryRowOnce(t *testing.T) {
	server, db := shop(t)
	const rows = 60_000
	for _, tt := range []struct {
		name, column string // the definition of the key's first column
		value        string // of seq
		key          string // the key; c, id if empty
		parts        bool
	}{
		{"tinyint", "tinyint unsigned", "seq % 251", "", true},
		{"bigint", "bigint unsigned", "18446744073709551615 - seq * 7", "", true},
		{"zero filled", "int(10) unsigned zerofill", "seq % 9000", "", true},
		{"bits", "bit(8)", "seq % 256", "", true},
		{"all bits", "bit(64)", "seq * 307445734561825", "", true},
		{"year", "year", "IF(seq % 3, 1901 + seq % 250, 0)", "", true},
		{"float", "float", "seq / 7e0 - 4000", "", true},
		{"float of digits", "float(9,3)", "1 + seq / 7e4", "", true},
		{"double", "double", "IF(seq % 2, 1, -1) * EXP(seq / 300)", "", true},
		{"double of digits", "double(20,4)", "seq / 7e0", "", true},
		{"decimal", "decimal(40,10)", "123456789012345678901234567890.5 + seq / 1000", "", true},
		{"date", "date", "IF(seq % 4, '1990-01-01' + INTERVAL seq % 30000 DAY, '0000-00-00')", "", true},
		{"dates that are none", "date", "IF(seq % 2, '2026-02-30', '2026-02-31')", "", false},
		{"datetime", "datetime(6)", "IF(seq % 4, '2026-01-01' + INTERVAL seq MICROSECOND, '0000-00-00')", "", true},
		{"timestamp", "timestamp(3)", "'2026-10-25' + INTERVAL seq SECOND", "", true},
		{"time", "time(2)", "SEC_TO_TIME((CAST(seq AS SIGNED) - 30000) * 100.25)", "", true},
		{"uuid", "uuid", "IF(seq % 2, UUID(), INSERT(INSERT(MD5(seq), 13, 1, '4'), 17, 1, 'a'))", "", true},
		{"inet6", "inet6", "CONCAT(HEX(seq % 60000), '::', HEX(seq))", "", true},
		{"char", "char(12)", "CONCAT(ELT(1 + seq % 5, 'ä', 'A', '''', '\\\\', 'ß'), seq DIV 7, ' ')", "", true},
		{"latin1", "varchar(12) CHARACTER SET latin1 COLLATE latin1_german2_ci", "CONCAT(ELT(1 + seq % 4, 'ä', 'A', 'ae', 'ß'), seq % 5000)", "", true},
		{"no pad", "varchar(12) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin", "CONCAT(seq % 5000, REPEAT(' ', seq % 3))", "", true},
		{"utf16", "varchar(12) CHARACTER SET utf16", "CONCAT('é', seq)", "", true},
		{"binary", "binary(16)", "UNHEX(MD5(seq))", "", true},
		{"varbinary", "varbinary(16)", "LEFT(UNHEX(MD5(seq)), seq % 17)", "", true},
		{"enum", "enum('zebra','ape','mule','bee')", "seq % 5", "", false},
		{"set", "set('zebra','ape','mule','bee')", "seq % 16", "", false},
		{"beginning", "varchar(12)", "CONCAT('a', seq)", "c(2), id", false},
		{"text", "text", "CONCAT('a', seq)", "c(3), id", false},
		{"json", "json", "JSON_ARRAY(seq)", "c(9), id", false},
		{"point", "point", "POINT(seq, 1)", "c(25), id", false},
		{"two rows only", "int", "IF(seq % 2, -2147483648, 2147483647)", "", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			key := tt.key
			if key == "" {
				key = "c, id"
			}
			execute(t, db, fmt.Sprintf("SET SESSION sql_mode = 'ALLOW_INVALID_DATES'; USE shop; CREATE OR REPLACE TABLE t (id int, c %s, PRIMARY KEY (%s)); "+
				"INSERT INTO t (id, c) SELECT seq, %s FROM seq_1_to_%d; ANALYZE TABLE t", tt.column, key, tt.value, rows))
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // else a walk without end is one of the test
			defer cancel()
			s, err := mysql.Open(ctx, server.DSN(""), described(t, "shop.t", "id", "{name: id, type: int}"), mysql.Options{Parallel: 2})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close() //nolint:errcheck // it only read
			all := ids(t, s)
			if each := slices.Compact(slices.Clone(all)); len(all) != rows || len(each) != rows || tt.parts != (len(s.Parts) > 1) {
				t.Errorf("%d rows, %d of them different, in %d parts; want each of %d once, in several: %v", len(all), len(each), len(s.Parts), rows, tt.parts)
			}
		})
	}
}

// Bounds that do not rise as the server compares them are found by their rows.
func TestBoundsThatDoNotRise(t *testing.T) {
	_, db := shop(t)
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // it only read
	execute(t, conn, "USE shop; CREATE TABLE t (b bit(8) PRIMARY KEY, y year, s varchar(9)); INSERT INTO t SELECT seq, 1901 + seq % 254, seq FROM seq_0_to_255")
	many := make([]string, 250)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	for _, tt := range []struct {
		column string
		bounds []string
		rise   bool
	}{
		{"b", nil, true},
		{"b", []string{"7"}, true},
		{"b", []string{"7", "40", "200"}, true},
		{"b", []string{"7", "7", "200"}, true}, // an empty part does no harm
		{"b", many, true},
		{"b", append(slices.Clone(many), "249", "3"), false},
		{"b", []string{"40", "7", "200"}, false},
		{"b", []string{"'1'", `'\0'`}, false},     // as numbers: 1, 0
		{"b", []string{"'9'", `'\\x10'`}, false},  // 9, 0
		{"y", []string{"10", "80", "500"}, false}, // 2010, 1980, none
		{"s", []string{"'10'", "'9'"}, true},
		{"s", []string{"'9'", "'10'"}, false},
	} {
		err := mysql.CheckBounds(t.Context(), conn, "shop.t", tt.column, tt.bounds)
		if tt.rise != (err == nil) || err != nil && !strings.Contains(err.Error(), "load with --parallel 1") {
			t.Errorf("%s %.80q: %v", tt.column, tt.bounds, err)
		}
	}
}

// Neither the connection string nor the server's own settings change values.
func TestValuesOfAnyConnection(t *testing.T) {
	server, db := shop(t, "--default-time-zone=+05:00", "--sql-mode=ANSI,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH", "--skip-character-set-client-handshake", "--character-set-server=latin1")
	execute(t, db, "SET SESSION time_zone = '+00:00', sql_mode = '', character_set_client = utf8mb4; CREATE TABLE shop.t (id int PRIMARY KEY, d date, at datetime(3), seen timestamp, s varchar(9) CHARACTER SET utf8mb4, c char(4), f float); "+
		"INSERT INTO shop.t VALUES (1, '0000-00-00', '0000-00-00', '2026-01-01 00:00:00', '漢é\\\\', 'x', 0.1), (2, '2026-01-01', '2026-01-01 01:02:03.5', 0, '', '', 2); SET GLOBAL sql_select_limit = 1")
	want := "1|0000-00-00|0000-00-00 00:00:00.000|2026-01-01 00:00:00|漢é\\|x|0.10000000149011612\n2|2026-01-01|2026-01-01 01:02:03.500|0000-00-00 00:00:00|||2\n"
	table := described(t, "shop.t", "id", "{name: id, type: int}, {name: d, type: string}, {name: at, type: string}, {name: seen, type: string}, {name: s, type: string}, {name: c, type: string}, {name: f, type: double}")
	for _, parameters := range []string{
		"", "parseTime=true", "parseTime=true&loc=Asia%2FTokyo", "charset=latin1", "charset=latin1&collation=latin1_swedish_ci", "collation=sjis_japanese_ci", "columnsWithAlias=true",
		"clientFoundRows=true", "interpolateParams=false", "timeTruncate=24h", "maxAllowedPacket=1", "net_read_timeout=50",
	} {
		s, err := mysql.Open(t.Context(), server.DSN("")+"?"+parameters, table, mysql.Options{})
		if err != nil {
			t.Errorf("%s: %v", parameters, err)
			continue
		}
		var got strings.Builder
		for row, err := range s.Parts[0](t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			for i, text := range row {
				if i > 0 {
					got.WriteByte('|')
				}
				got.Write(text)
			}
			got.WriteByte('\n')
		}
		if got.String() != want {
			t.Errorf("%s:\n%swant\n%s", parameters, got.String(), want)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
