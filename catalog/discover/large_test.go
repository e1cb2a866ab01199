package discover_test

import (
	"fmt"
	"strings"
	"testing"

	"icehose/catalog"
	"icehose/catalog/artifact"
	"icehose/catalog/ddl"
	"icehose/catalog/discover"
)

// large is a dump of 500 tables with 4 columns each.
func large() string {
	var sql strings.Builder
	for i := range 500 {
		fmt.Fprintf(&sql, "CREATE TABLE public.t%d (id bigint NOT NULL, a numeric(10,2), b character varying(20) DEFAULT 'x'::character varying, c timestamp with time zone);\nALTER TABLE ONLY public.t%d ADD CONSTRAINT t%d_pkey PRIMARY KEY (id);\n", i, i, i)
	}
	return sql.String()
}

func TestLargeSchema(t *testing.T) {
	s := read(t, catalog.PostgreSQL, large())
	text, _ := run(t, "", s, discover.Options{})
	again, _ := run(t, text, s, discover.Options{})
	if again != text {
		t.Error("a second run is not the same")
	}
	p, err := catalog.Parse("pipeline.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Tables) != 500 {
		t.Errorf("%d tables", len(p.Tables))
	}
}

// BenchmarkLargeSchema is what a schema of 500 tables and 2,000 columns costs,
// from the text of its dump to every artifact; the target is 5 s.
func BenchmarkLargeSchema(b *testing.B) {
	sql := []byte(large())
	columns := 0
	for b.Loop() {
		s, err := ddl.Read("schema.sql", sql, catalog.PostgreSQL)
		if err != nil {
			b.Fatal(err)
		}
		r, err := discover.Update("pipeline.yaml", nil, s, discover.Options{})
		if err != nil {
			b.Fatal(err)
		}
		p, err := catalog.Parse("pipeline.yaml", r.Text)
		if err != nil {
			b.Fatal(err)
		}
		made, err := artifact.Generate(p, artifact.Options{Warehouse: "s3://lake/wh"})
		if err != nil {
			b.Fatal(err)
		}
		columns = 0
		for _, t := range p.Tables {
			columns += len(t.Columns)
		}
		if len(p.Tables) != 500 || columns != 2000 || len(made.Files) < 2000 {
			b.Fatalf("%d tables, %d columns, %d files", len(p.Tables), columns, len(made.Files))
		}
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/schema")
	b.ReportMetric(float64(columns), "columns")
}
