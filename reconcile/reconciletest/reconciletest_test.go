package reconciletest_test

import (
	"testing"

	"icehose/catalog"
	"icehose/reconcile"
	"icehose/reconcile/reconciletest"
)

func TestMemory(t *testing.T) {
	reconciletest.TestReader(t, func(_ *testing.T, _ *catalog.Pipeline, tables reconciletest.Tables) reconcile.Reader {
		return &reconciletest.Memory{Tables: tables}
	})
}
