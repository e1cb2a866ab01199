package sinktest

import (
	"testing"

	"icehose/catalog"
	"icehose/sink"
)

// fold returns the current rows of a changelog's contents.
func fold(t testing.TB, p *catalog.Pipeline, log [][]string) [][]string {
	t.Helper()
	reader, err := sink.NewChangelogReader(p.ByTarget("lake", "changelog"))
	if err != nil {
		t.Fatal(err)
	}
	folder := reader.Folder()
	for again := true; again; again = folder.Again() {
		for _, texts := range log {
			row, err := reader.Row(Row(texts...))
			if err != nil {
				t.Fatal(err)
			}
			folder.Add(row)
		}
	}
	var rows [][]string
	for row, err := range folder.Rows() {
		if err != nil {
			t.Fatal(err)
		}
		if len(row.Unknown) > 0 {
			t.Fatalf("columns %v of a folded row are unknown", row.Unknown)
		}
		texts := make([]string, len(row.Values))
		for i, v := range row.Values {
			texts[i] = string(v)
		}
		rows = append(rows, texts)
	}
	return rows
}
