package merge_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"icehose/catalog"
	"icehose/sink/merge"
	"icehose/sink/merge/mergetest"
)

func TestChangelogs(t *testing.T) {
	t.Parallel()
	text := mergetest.Pipeline + "  - {source: s.mirror, mode: mirror, key: [id], readers: [icehose], columns: [{name: id, type: int}]}\n"
	p := pipeline(t, text)
	for _, test := range []struct{ names, want, fault string }{
		{"", "s.keyed s.unkeyed s.plain", ""},
		{"s.plain s.keyed s.plain", "s.plain s.keyed", ""},
		{"s.plain s.none", "", "no table s.none"},
		{"s.mirror", "", "table s.mirror is a mirror: only a changelog is merged"},
	} {
		got, err := merge.Changelogs(p, strings.Fields(test.names))
		var names []string
		for _, table := range got {
			names = append(names, table.Source)
		}
		if strings.Join(names, " ") != test.want || (err == nil) != (test.fault == "") || err != nil && err.Error() != test.fault {
			t.Errorf("%q: %q, %v; want %q, %q", test.names, names, err, test.want, test.fault)
		}
	}
	p.Tables = slices.DeleteFunc(p.Tables, func(table *catalog.Table) bool { return table.Mode == catalog.Changelog })
	if _, err := merge.Changelogs(p, nil); err == nil || err.Error() != "no table is a changelog: nothing to merge" {
		t.Errorf("mirrors only: %v", err)
	}
}

// One that fails does not keep the others from being merged; that the time is up does.
func TestEach(t *testing.T) {
	t.Parallel()
	tables := pipeline(t, mergetest.Pipeline).Tables
	for _, last := range []int{len(tables), 2, 0} {
		ctx, cancel := context.WithCancel(t.Context())
		if last == 0 {
			cancel()
		}
		done := 0
		results, left, err := merge.Each(ctx, tables, func(table *catalog.Table) (*merge.Result, error) {
			if done++; done == last {
				cancel()
			}
			if done == 1 {
				return nil, errors.New("refused")
			}
			return &merge.Result{Table: table.Name()}, nil
		})
		cancel()
		if done != last || len(results) != max(0, last-1) || len(left) != len(tables)-last || (err == nil) != (last == 0) {
			t.Errorf("ended after %d of %d: %d done, results %v, left %v, error %v", last, len(tables), done, results, left, err)
		}
	}
}
