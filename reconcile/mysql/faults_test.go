//go:build mariadb

package mysql_test

import (
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/reconcile"
	"icehose/reconcile/mysql"
	"icehose/reconcile/reconciletest"
)

// Faults in rows of a real MariaDB, whose collation takes some of the texts
// for equal: every one is found, with its kind and key, and none is invented.
func TestFaults(t *testing.T) {
	p, err := catalog.Parse("pipeline.yaml", []byte(strings.Replace(reconciletest.FaultPipeline, "{engine: postgresql, position: postgres}", "{engine: mariadb, position: mysql}", 1)))
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(2) {
		source, lake, want := reconciletest.Faults(seed, 200, false)
		fill(t, database(t), p, reconciletest.Tables{"public.t": source})
		for _, o := range []mysql.Options{{}, {Stream: true}} {
			report, err := reconcile.Run(t.Context(), p, open(t, server.DSN(""), o), &reconciletest.Memory{Tables: reconciletest.Tables{"public.t": lake}}, reconcile.Options{MaxFindings: 10_000})
			if err != nil {
				t.Fatal(err)
			}
			got := report.Tables[0]
			reconciletest.SortFindings(got.Findings)
			if diff := gocmp.Diff(want, got.Findings); diff != "" || got.Verdict != reconcile.Different || got.Why != "" {
				t.Errorf("seed %d, stream %v: %s, %q, findings differ (-want +got):\n%s", seed, o.Stream, got.Verdict, got.Why, diff)
			}
		}
	}
}
