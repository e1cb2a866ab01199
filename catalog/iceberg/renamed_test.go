package iceberg_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	lake "icehose/catalog/iceberg"
)

// A column that was added before anybody said that it is an older one, renamed:
// nothing drops the older one's values while the file says that they are to be
// kept, and what is advised leads to the rename.
func TestRenamedAfterItWasAdded(t *testing.T) {
	l := sqlite(t)()
	apply := func(columns ...string) (*lake.Plan, error) {
		return l.Apply(t.Context(), parse(t, orders("mirror", "id", columns...)))
	}
	for _, columns := range [][]string{{"id long", "old string"}, {"id long", "old string", "neu string"}} {
		if _, err := apply(columns...); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"refuse old: column neu has renamed_from: old, and the table has neu already: as a column of its own, null in rows from before it was added, whose values are in old. " +
		"Where neu has no values to keep, stop the table's stream, write name: old instead of neu and no renamed_from:, and apply with --allow-drop, which drops neu; " +
		"then write neu with renamed_from: old, and apply again. Otherwise create the table anew and load it. " +
		"Without renamed_from:, --allow-drop drops old and its values"}
	for _, l.AllowDrop = range []bool{false, true} {
		plan, err := apply("id long", "neu string old")
		if !errors.Is(err, lake.ErrRefused) {
			t.Fatalf("with leave to drop %t: %v, %v", l.AllowDrop, texts(plan), err)
		}
		if diff := cmp.Diff(want, texts(plan)); diff != "" {
			t.Errorf("with leave to drop %t (-want +got):\n%s", l.AllowDrop, diff)
		}
	}
	// As advised.
	for _, columns := range [][]string{{"id long", "old string"}, {"id long", "neu string old"}} {
		if plan, err := apply(columns...); err != nil {
			t.Fatalf("%v: %v", texts(plan), err)
		}
	}
	if diff := cmp.Diff([]string{"1 id long key", "2 neu string"}, fields(t, l)); diff != "" {
		t.Errorf("the table (-want +got):\n%s", diff)
	}
}
