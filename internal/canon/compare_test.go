package canon_test

import (
	"testing"

	"icehose/catalog"
	"icehose/internal/canon"
)

// Texts of each type from the least value to the greatest.
func TestCompare(t *testing.T) {
	t.Parallel()
	for kind, texts := range map[catalog.TypeKind][]string{
		catalog.Boolean:     {"false", "true"},
		catalog.Long:        {"-100", "-20", "-3", "0", "3", "20", "100"},
		catalog.Decimal:     {"-10.50", "-9.75", "-0.01", "0.00", "0.01", "9.75", "10.50"},
		catalog.Double:      {"-Infinity", "-1e+21", "-2", "0", "0.1", "2", "10", "1e+21", "Infinity", "NaN"},
		catalog.Date:        {"0999-12-31", "2026-01-02"},
		catalog.TimestampTZ: {"2026-01-02T03:04:05.000000Z", "2026-01-02T03:04:05.000001Z"},
		catalog.String:      {"", "10", "9", "a", "ä"},
		catalog.Binary:      {"", "00", "7f", "80"},
	} {
		for i, a := range texts {
			for j, b := range texts {
				if got, want := canon.Compare(kind, []byte(a), []byte(b)), sign(i-j); got != want {
					t.Errorf("%v: %q and %q: %d, want %d", kind, a, b, got, want)
				}
			}
		}
	}
}

func sign(n int) int { return max(-1, min(1, n)) }
