//go:build interop

package interop_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"icehose/sink/merge/mergetest"
)

func TestSparkTraps(t *testing.T) { traps(t, newFixture(t, "spark")) }
func TestTrinoTraps(t *testing.T) { traps(t, newFixture(t, "trino")) }

func traps(t *testing.T, f *fixture) {
	t.Helper()
	def := f.table("plain")
	f.engine.sql(t, f.artifact(t, "plain", "current"))
	all := mergetest.Traps()
	for n := 0; ; n++ { // the n-th step of every trap, in one window
		var batch [][][]byte
		for i := range all {
			if n < len(all[i].Steps) {
				for r := range all[i].Steps[n].Rows {
					batch = append(batch, shifted(i+1, &all[i].Steps[n].Rows[r]))
				}
			}
		}
		if len(batch) == 0 {
			break
		}
		f.append(t, def, batch...)
		f.merge(t, def)
		merged, viewed := plainRows(t, f.engine, f.database+".plain_folded"), plainRows(t, f.engine, f.database+".plain_current")
		for i, trap := range all {
			t.Run(fmt.Sprintf("step %d %s", n+1, trap.Name), func(t *testing.T) {
				want := wantOf(i+1, trap.Steps[min(n, len(trap.Steps)-1)].Want)
				for name, rows := range map[string]map[string]string{"table": merged, "view": viewed} {
					got := make(map[string]string)
					for id, v := range rows {
						if len(id) > 2 && id[:len(id)-2] == fmt.Sprint(i+1) {
							got[id] = v
						}
					}
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("%s (-want +got):\n%s", name, diff)
					}
				}
			})
		}
	}
}

func plainRows(t testing.TB, e *engine, from string) map[string]string {
	t.Helper()
	out := make(map[string]string)
	for _, row := range e.sql(t, "SELECT CAST(id AS "+map[string]string{"spark": "STRING", "trino": "VARCHAR"}[e.name]+"), v FROM "+from) {
		out[*row[0]] = *row[1]
	}
	return out
}

// shifted moves a trap to keys and positions of its own, so that all share a table.
func shifted(trap int, row *mergetest.PlainRow) [][]byte {
	moved := *row
	moved.ID += 100 * trap
	if moved.OldID != 0 {
		moved.OldID += 100 * trap
	}
	return moved.Lake()
}

func wantOf(trap int, want map[string]string) map[string]string {
	out := make(map[string]string)
	for id, v := range want {
		var n int
		_, _ = fmt.Sscan(id, &n)
		out[fmt.Sprint(n+100*trap)] = v
	}
	return out
}
