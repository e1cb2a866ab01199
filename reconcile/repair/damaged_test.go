package repair_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/apache/iceberg-go/table"
)

// A list of manifests that was cut behind its header reads as an empty one. A
// repair commits nothing on top of it, and does what it has to once it is restored.
func TestRunDamaged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.damage(rand.New(rand.NewPCG(3, 7)))
	plan := w.plan(w)
	for i, name := range []string{"m", "c"} {
		current, err := w.store.Tables().Tables.LoadTable(t.Context(), table.Identifier{"lake", name})
		if err != nil {
			t.Fatal(err)
		}
		list := strings.TrimPrefix(current.CurrentSnapshot().ManifestList, "file://")
		whole, err := os.ReadFile(list)
		if err != nil {
			t.Fatal(err)
		}
		marker := whole[len(whole)-16:]
		if err := os.WriteFile(list, whole[:bytes.Index(whole, marker)+len(marker)], 0o600); err != nil {
			t.Fatal(err)
		}
		result := w.run(w, plan)
		if left := result.Tables[i]; result.Repaired() || left.Left != left.Keys || !strings.Contains(left.Why, list+" is damaged: ") {
			t.Errorf("%s: result %+v", name, result)
		}
		after, err := w.store.Tables().Tables.LoadTable(t.Context(), current.Identifier())
		if err != nil {
			t.Fatal(err)
		}
		if after.CurrentSnapshot().SnapshotID != current.CurrentSnapshot().SnapshotID {
			t.Errorf("%s: something was committed", name)
		}
		if err := os.WriteFile(list, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if result := w.run(w, w.plan(w)); !result.Repaired() {
		t.Errorf("result %+v", result)
	}
	w.equal(w, "after the repair")
}
