//go:build mariadb

package mysql_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/reconcile"
	"icehose/reconcile/mysql"
	load "icehose/sink/load/mysql"
)

// What is compared, and what a repair would write, is of the columns that a
// load reads and that records are put in; where they find none, neither does it.
func TestReadsWhatALoadDoes(t *testing.T) {
	for _, tt := range []struct {
		name, create, columns string
		want                  []string
		err                   string
	}{
		{
			"names that cross", "CREATE TABLE t (id int PRIMARY KEY, name int, Other int); INSERT INTO t VALUES (1, 20, 30)",
			"{name: id, type: int}, {name: other, source: name, type: int}, {name: name, source: Other, type: int}",
			[]string{"1", "20", "30"},
			"",
		},
		{
			"any spelling", "CREATE TABLE t (Id int PRIMARY KEY, NAME int); INSERT INTO t VALUES (1, 20)",
			"{name: id, type: int}, {name: name, type: int}",
			[]string{"1", "20"},
			"",
		},
		{
			"a table beside it whose name differs by case", "CREATE TABLE t (id int PRIMARY KEY, name int); CREATE TABLE T (name int PRIMARY KEY, id int); INSERT INTO t VALUES (1, 20); INSERT INTO T VALUES (2, 3)",
			"{name: id, type: int}, {name: name, type: int}",
			[]string{"1", "20"},
			"",
		},
		{
			"a name that another column takes", "CREATE TABLE t (id int PRIMARY KEY, name int)",
			"{name: id, type: int}, {name: name_b, source: name, type: int}, {name: name, type: int}", nil, "the source has no column name",
		},
		{
			"a name that an excluded column takes", "CREATE TABLE t (id int PRIMARY KEY, name int)",
			"{name: id, type: int}, {name: old, source: name, type: int, exclude: true}, {name: name, type: int}", nil, "the source has no column name",
		},
		{
			"another spelling than the file's", "CREATE TABLE t (id int PRIMARY KEY, name int)",
			"{name: id, type: int}, {name: name, source: Name, type: int}", nil, "the source has no column name",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			shop(t, tt.create)
			tab := table(t, oneTable[:strings.Index(oneTable, "    columns:")]+"    columns: ["+tt.columns+"]\n")
			rows, err := loaded(t, tab)
			if tt.err != "" && (err == nil || !strings.HasSuffix(err.Error(), tt.err)) || tt.err == "" && (err != nil || !cmp.Equal(rows, tt.want)) {
				t.Errorf("a load: %v, %v, want %v, %q", rows, err, tt.want, tt.err)
			}
			v, err := open(t, server.DSN(""), mysql.Options{}).Open(t.Context(), tab, false)
			if tt.err != "" {
				if err == nil || !strings.HasSuffix(err.Error(), tt.err) {
					t.Errorf("opened: %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer v.Close() //nolint:errcheck // it only read
			values, ok := v.(reconcile.ValueView)
			if !ok {
				t.Fatal("the view tells no values")
			}
			for texts, err := range values.Values(t.Context(), reconcile.Part{Buckets: 1}) {
				if got := row(texts); err != nil || !cmp.Equal(got, tt.want) {
					t.Errorf("values %v, %v, want %v", got, err, tt.want)
				}
			}
		})
	}
}

func row(texts [][]byte) (row []string) {
	for _, text := range texts {
		row = append(row, string(text))
	}
	return row
}

// loaded returns the one row of a load.
func loaded(t *testing.T, tab *catalog.Table) (got []string, err error) {
	t.Helper()
	s, err := load.Open(t.Context(), server.DSN(""), tab, load.Options{})
	if err != nil {
		return nil, err
	}
	defer s.Close() //nolint:errcheck // it only read
	for _, part := range s.Parts {
		for texts, err := range part(t.Context()) {
			if err != nil {
				return nil, err
			}
			got = append(got, row(texts)...)
		}
	}
	return got, nil
}
