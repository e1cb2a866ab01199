package sinktest

import (
	"context"
	"testing"

	"icehose/sink"
)

// testAhead stages batches, of which one is committed, one is not and one comes
// while another is being committed.
func testAhead(t *testing.T, store sink.Store) {
	table, def := openTable(t, store, storeTables, "all")
	stager, ok := table.(sink.Stager)
	if !ok {
		t.Skip("the store writes nothing ahead")
	}
	next := func(parent, id string) *sink.Batch {
		b := batch(parent, id)
		if parent != "" {
			b.Deletes = sink.NewRows(Row("1", "hot"))
		}
		b.Inserts = sink.NewRows(Row(keyed("1", "hot", id)...), Row(keyed("2", id, id)...))
		return b
	}
	ahead := func(b *sink.Batch) error {
		return stager.Stage(t.Context(), &sink.Batch{ID: b.ID, Inserts: b.Inserts, Deletes: b.Deletes})
	}
	first, never, second, third := next("", "one"), next("one", "never"), next("one", "two"), next("two", "three")
	for _, b := range []*sink.Batch{first, never} {
		if err := ahead(b); err != nil {
			t.Fatal(err)
		}
		want(t, table, def)
	}
	commit(t, table, first)
	staged := make(chan error)
	go func() { staged <- ahead(third) }()
	commit(t, table, second)
	if err := <-staged; err != nil {
		t.Fatal(err)
	}
	want(t, table, def, keyed("1", "hot", "two"), keyed("2", "one", "one"), keyed("2", "two", "two"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	fourth := next("three", "four")
	if err := stager.Stage(ctx, fourth); err == nil {
		t.Log("a cancelled call went on") // as it may: nothing is visible
	}
	commit(t, table, third)
	commit(t, table, fourth)
	want(t, table, def, keyed("1", "hot", "four"), keyed("2", "four", "four"), keyed("2", "one", "one"), keyed("2", "three", "three"), keyed("2", "two", "two"))
}
