//go:build postgres

package postgres_test

import (
	"strings"
	"testing"

	"icehose/catalog"
	"icehose/catalog/discover"
	"icehose/catalog/postgres"
)

// What preflight advises for a table with partitions can be done: the
// partitions without the table make a valid pipeline file, with a target for
// each.
func TestPartitionAdvice(t *testing.T) {
	_, conn := start(t)
	if _, err := conn.Exec(t.Context(), `CREATE TABLE event (id int, day date, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
CREATE TABLE event_1 PARTITION OF event FOR VALUES FROM ('2020-01-01') TO ('2021-01-01'); CREATE TABLE event_2 PARTITION OF event DEFAULT`); err != nil {
		t.Fatal(err)
	}
	s, err := postgres.Read(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	found, err := postgres.Preflight(t.Context(), conn, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	advised := false
	for _, f := range found {
		advised = advised || f.ID == "partitioned_table" && f.Object == "public.event" && strings.Contains(f.Fix, "select the partitions and not the table: each is a table of its own")
	}
	if !advised {
		t.Errorf("findings: %+v", found)
	}
	r, err := discover.Update("pipeline.yaml", nil, s, discover.Options{Database: "lake", Tables: []string{"public.event_%"}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := catalog.Parse("pipeline.yaml", r.Text)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"event_1", "event_2"} {
		if table := p.ByTarget("lake", name); table == nil || table.Source != "public."+name || table.Mode != catalog.Mirror || len(table.Key) != 2 {
			t.Errorf("%s is %+v in\n%s", name, table, r.Text)
		}
	}
	// One target for both is what the file cannot say.
	if _, err := catalog.Parse("pipeline.yaml", []byte(strings.ReplaceAll(string(r.Text), "- source: public.event_", "- target: event\n    source: public.event_"))); err == nil {
		t.Error("two sources share a target")
	}
}
