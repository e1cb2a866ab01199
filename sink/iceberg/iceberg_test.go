package iceberg_test

import (
	"testing"

	"icehose/sink"
	"icehose/sink/iceberg"
	"icehose/sink/sinktest"
)

func open(t *testing.T, dir string) *iceberg.Store {
	t.Helper()
	store, err := iceberg.Open(t.Context(), dir, iceberg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func TestStore(t *testing.T) {
	sinktest.RunStoreTests(t, func(t *testing.T) sink.Store {
		t.Helper()
		store := open(t, t.TempDir())
		t.Cleanup(func() {
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
		return store
	})
}
