package history_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	icecatalog "github.com/apache/iceberg-go/catalog"

	"icehose/reconcile"
	"icehose/reconcile/history"
	"icehose/sink/iceberg"
)

// The table stays small: its files are put together when there are many, runs
// of more than 400 days ago go, and so do old versions of its metadata.
func TestTidy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := open(t, dir)
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	const runs = 70
	for i := range runs {
		began := now.Add(time.Duration(i) * time.Hour)
		switch i {
		case 0:
			began = now.AddDate(0, 0, -401)
		case 1:
			began = now.AddDate(0, 0, -200)
		}
		if _, err := history.Append(t.Context(), store.Tables(), "lake", report(began)); err != nil {
			t.Fatal(err)
		}
	}
	all, err := history.Read(t.Context(), store.Tables(), "lake", 1000, time.Time{})
	if err != nil || len(all) != runs-1 {
		t.Errorf("%d runs, want %d: %v", len(all), runs-1, err)
	}
	recent, err := history.Read(t.Context(), store.Tables(), "lake", 1000, now.AddDate(0, 0, -120))
	if err != nil || len(recent) != runs-2 || !recent[0].Partial || recent[0].Findings != 15 {
		t.Errorf("%d recent runs, want %d: %v", len(recent), runs-2, err)
	}
	opened, err := store.Tables().Tables.LoadTable(t.Context(), icecatalog.ToIdentifier("lake", history.Name))
	if err != nil {
		t.Fatal(err)
	}
	if files := opened.CurrentSnapshot().Summary.Properties["total-data-files"]; files != "6" {
		t.Errorf("%s data files, want 6", files)
	}
	var metadata int
	err = filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if strings.HasSuffix(path, ".metadata.json") {
			metadata++
		}
		return err
	})
	if err != nil || metadata > 22 {
		t.Errorf("%d versions of the metadata: %v", metadata, err)
	}
}

// The table is one that icehose maintain knows how to look after.
func TestMaintain(t *testing.T) {
	t.Parallel()
	store := open(t, t.TempDir())
	if table, err := history.Table(t.Context(), store.Tables(), "lake"); table != nil || err != nil {
		t.Fatalf("no history: %v, %v", table, err)
	}
	for i := range 10 {
		if _, err := history.Append(t.Context(), store.Tables(), "lake", report(time.Date(2026, 11, 1+i, 0, 0, 0, 0, time.UTC))); err != nil {
			t.Fatal(err)
		}
	}
	table, err := history.Table(t.Context(), store.Tables(), "lake")
	if err != nil {
		t.Fatal(err)
	}
	maintained, err := store.Maintain(t.Context(), table, iceberg.Maintenance{})
	if err != nil || maintained.After.DataFiles != 1 || maintained.Table != "lake."+history.Name {
		t.Fatalf("%+v: %v", maintained, err)
	}
	runs, err := history.Read(t.Context(), store.Tables(), "lake", 100, time.Time{})
	if err != nil || len(runs) != 10 || runs[9].Verdict != reconcile.Different {
		t.Errorf("%d runs: %v", len(runs), err)
	}
}
