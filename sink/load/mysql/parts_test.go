package mysql_test

import (
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"icehose/sink/load/mysql"
)

// Literals are of the column's own type: nothing is converted in a comparison.
func TestLiterals(t *testing.T) {
	for _, tt := range []struct{ dataType, text, read, literal string }{
		{"float", "0.10000000149011612", "(c + 0e0)", "0.10000000149011612e0"},
		{"double", "-1e20", "(c + 0e0)", "-1e20"},
		{"float", "inf", "", ""},
		{"decimal", "-0012345678901234567890.50", "c", "-0012345678901234567890.50"},
		{"year", "0000", "c", "0000"},
		{"year", "", "", ""},
		{"date", "2026-02-28", "c", "'2026-02-28'"},
		{"date", "0000-00-00", "c", "'0000-00-00'"},
		{"date", "2026-02-30", "", ""},
		{"datetime", "2026-02-00 00:00:00", "", ""},
		{"timestamp", "2026-01-01 23:59:59.000001", "c", "'2026-01-01 23:59:59.000001'"},
		{"datetime", "0000-00-00 00:00:00.000000", "c", "'0000-00-00 00:00:00.000000'"},
		{"time", "-838:59:59", "c", "'-838:59:59'"},
		{"char", `it's \`, "c", `'it\'s \\'`},
		{"varchar", "a\x00b", "c", `'a\0b'`},
		{"varchar", "\xff", "", ""},
		{"varbinary", "00FF27", "HEX(c)", "X'00FF27'"},
		{"uuid", "123e4567-e89b-12d3-a456-426614174000", "c", "'123e4567-e89b-12d3-a456-426614174000'"},
		// Ranges of these are not certain, or are cut by number.
		{"enum", "a", "", ""},
		{"set", "a", "", ""},
		{"text", "a", "", ""},
		{"point", "a", "", ""},
		{"geometry", "a", "", ""},
		{"vector", "a", "", ""},
		{"bit", "\x01", "", ""},
	} {
		read, literal, ok := mysql.Literal(tt.dataType, tt.text)
		if ok != (tt.literal != "") || ok && (read != tt.read || literal != tt.literal) {
			t.Errorf("%s %q: got %s, %s, %v; want %s, %s", tt.dataType, tt.text, read, literal, ok, tt.read, tt.literal)
		}
	}
}

// A walk ends, whatever the server says.
func TestWalk(t *testing.T) {
	n := 0
	for _, tt := range []struct {
		name string
		next func(after string) (string, error)
		want int
		err  bool
	}{
		{"none", func(string) (string, error) { return "", sql.ErrNoRows }, 0, false},
		{"rises", func(after string) (string, error) {
			if len(after) == 3 {
				return "", sql.ErrNoRows
			}
			return after + "a", nil
		}, 3, false},
		{"stands still", func(string) (string, error) { return "1", nil }, 0, false},
		{"circles", func(string) (string, error) { n++; return fmt.Sprint(n % 2), nil }, mysql.MostBounds, false},
		{"no literal", func(after string) (string, error) {
			if after == "" {
				return "1", nil
			}
			return "", mysql.ErrNoLiteral
		}, 0, false},
		{"fails", func(string) (string, error) { return "", errors.New("broken") }, 0, true},
	} {
		got, err := mysql.Walk(tt.next)
		if len(got) != tt.want || (err != nil) != tt.err {
			t.Errorf("%s: %d bounds, %v; want %d", tt.name, len(got), err, tt.want)
		}
	}
}
