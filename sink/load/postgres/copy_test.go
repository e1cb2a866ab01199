package postgres_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"icehose/sink/load/postgres"
)

func TestParseCopy(t *testing.T) {
	t.Parallel()
	const text = "1\ta\\tb\\\\\\n\\\\N\t\\N\n\t\\b\\f\\r\\v€\t\n\n"
	want := [][]string{{`"1"`, `"a\tb\\\n\\N"`, "NULL"}, {`""`, `"\b\f\r\v€"`, `""`}, {`""`}}
	for size := 1; size <= len(text); size++ {
		got, err := postgres.ParseCopy([]byte(text), size)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Fatalf("in pieces of %d: %v (-want +got):\n%s", size, err, diff)
		}
	}
	for _, bad := range []string{"\\x41\n", "a\\\n"} {
		if got, err := postgres.ParseCopy([]byte(bad), 100); err == nil {
			t.Errorf("%q is read as %v", bad, got)
		}
	}
}
