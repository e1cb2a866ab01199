//go:build interop

package interop_test

import (
	"testing"
	"time"

	"icehose/cdc"
	"icehose/sink/merge/mergetest"
)

// Rows of a table without a key that came and were deleted since the last merge,
// as an erasure does, are no current ones.
func TestSparkDeletedMeanwhile(t *testing.T) {
	f := newFixture(t, "spark")
	def := f.table("unkeyed")
	log := mergetest.UnkeyedLog(4)
	f.append(t, def, log[:len(log)/2]...)
	f.merge(t, def)
	f.append(t, def, log[len(log)/2:]...)
	f.sql(t, "DELETE FROM d.unkeyed WHERE cdc_operation = 'insert'")
	f.sql(t, "DELETE FROM d.unkeyed_folded")
	f.append(t, def, log[:1]...)
	f.merge(t, def)
	rows := f.sql(t, "SELECT c.cdc_position FROM d.unkeyed_folded AS c LEFT ANTI JOIN d.unkeyed AS l ON l.cdc_position = c.cdc_position")
	if len(rows) != 0 {
		t.Errorf("%d current rows are none of the changelog", len(rows))
	}
}

// Of one run commit times that fall behind positions are a warning, and no more.
func TestSparkOutOfStep(t *testing.T) {
	f := newFixture(t, "spark")
	def := f.table("plain")
	for _, test := range []struct{ position, minute int }{{9, 0}, {5, 30}} {
		row := mergetest.PlainRow{
			Position: cdc.ChangePosition(0, cdc.Body{Hi: uint64(test.position), Lo: 1}, 1), ID: test.position, Operation: cdc.Update,
			Committed: mergetest.Start().Add(time.Duration(test.minute) * time.Minute),
		}
		f.append(t, def, row.Lake())
	}
	if result := f.merge(t, def); result.Regressed != 0 || len(result.Warnings) != 1 {
		t.Errorf("%+v, want a warning", result)
	}
}
