package discover_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/catalog/discover"
	"icehose/cdc"
)

// A reload is a line in the right place, whatever the file looks like, and
// nothing else changes.
func TestAnnounceAndFinishLoad(t *testing.T) {
	const head = "version: 1\ndatabase: d\nsource: {engine: postgresql, position: postgres}\n"
	first, second := cdc.Body{Hi: 0x16B3748}, cdc.Body{Hi: 0x16B3749}
	early := time.Date(2026, 3, 1, 10, 0, 0, 123456000, time.UTC)
	late := early.Add(time.Hour)
	const item = `{floor: "00000000016b37480000000000000000", since: 2026-03-01T10:00:00.123456Z}`
	const other = `{floor: "00000000016b37490000000000000000", since: 2026-03-01T11:00:00.123456Z}`
	for name, test := range map[string]struct{ before, once, twice, finished string }{
		"a table without loads": {
			head + "tables:\n  - source: s.t # mine\n    mode: mirror\n    key: [id]\n    # the columns\n    columns:\n      - {name: id, type: int}\n",
			head + "tables:\n  - source: s.t # mine\n    mode: mirror\n    key: [id]\n    # the columns\n    loads: # a load record belongs to the last of these that began before it was built\n      - " + item + "\n    columns:\n      - {name: id, type: int}\n",
			head + "tables:\n  - source: s.t # mine\n    mode: mirror\n    key: [id]\n    # the columns\n    loads: # a load record belongs to the last of these that began before it was built\n      - " + item + "\n      - " + other + "\n    columns:\n      - {name: id, type: int}\n",
			head + "tables:\n  - source: s.t # mine\n    mode: mirror\n    key: [id]\n    # the columns\n    loads: # a load record belongs to the last of these that began before it was built\n      - " + item + "\n      - " + strings.Replace(other, "since", "finished: true, since", 1) + "\n    columns:\n      - {name: id, type: int}\n",
		},
		"loads in brackets": {
			head + "tables:\n- loads: []\n  source: s.t\n  mode: changelog\n  columns: [{name: id, type: int}]\n",
			head + "tables:\n- loads: [" + item + "]\n  source: s.t\n  mode: changelog\n  columns: [{name: id, type: int}]\n",
			head + "tables:\n- loads: [" + item + ", " + other + "]\n  source: s.t\n  mode: changelog\n  columns: [{name: id, type: int}]\n",
			head + "tables:\n- loads: [" + item + ", " + strings.Replace(other, "since", "finished: true, since", 1) + "]\n  source: s.t\n  mode: changelog\n  columns: [{name: id, type: int}]\n",
		},
		"loads on lines": {
			head + "tables:\n  - source: s.t\n    mode: changelog\n    columns: [{name: id, type: int}]\n    loads:\n      - floor: 00000000000000000000000000000001\n        since: 2026-01-01T00:00:00Z # the first\n\n# end\n",
			head + "tables:\n  - source: s.t\n    mode: changelog\n    columns: [{name: id, type: int}]\n    loads:\n      - floor: 00000000000000000000000000000001\n        since: 2026-01-01T00:00:00Z # the first\n      - " + item + "\n\n# end\n",
			head + "tables:\n  - source: s.t\n    mode: changelog\n    columns: [{name: id, type: int}]\n    loads:\n      - floor: 00000000000000000000000000000001\n        since: 2026-01-01T00:00:00Z # the first\n      - " + item + "\n      - " + other + "\n\n# end\n",
			head + "tables:\n  - source: s.t\n    mode: changelog\n    columns: [{name: id, type: int}]\n    loads:\n      - floor: 00000000000000000000000000000001\n        since: 2026-01-01T00:00:00Z # the first\n      - " + item + "\n      - " + strings.Replace(other, "since", "finished: true, since", 1) + "\n\n# end\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			once, err := discover.AnnounceLoad("f", []byte(test.before), "s.t", first, early)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.once, string(once)); diff != "" {
				t.Errorf("first load (-want +got):\n%s", diff)
			}
			twice, err := discover.AnnounceLoad("f", once, "s.t", second, late)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.twice, string(twice)); diff != "" {
				t.Errorf("second load (-want +got):\n%s", diff)
			}
			finished, err := discover.FinishLoad("f", twice, "s.t")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.finished, string(finished)); diff != "" {
				t.Errorf("finished (-want +got):\n%s", diff)
			}
			p, err := catalog.Parse("f", finished)
			if err != nil {
				t.Fatal(err)
			}
			load, ok := p.Tables[0].LoadAt(late.Add(time.Minute))
			if !ok || load.Floor != second || !load.Since.Equal(late) || !load.Finished {
				t.Errorf("the last load is %+v", load)
			}
			again, err := discover.FinishLoad("f", finished, "s.t")
			if err != nil || string(again) != test.finished {
				t.Errorf("finished twice: %v\n%s", err, again)
			}
			// Time and floor only go up.
			if _, err := discover.AnnounceLoad("f", finished, "s.t", first, late.Add(time.Hour)); err == nil || !strings.Contains(err.Error(), "floor") {
				t.Errorf("a lower floor: %v", err)
			}
			if _, err := discover.AnnounceLoad("f", finished, "s.t", second, early); err == nil || !strings.Contains(err.Error(), "since") {
				t.Errorf("an earlier time: %v", err)
			}
		})
	}
	for name, test := range map[string]struct{ text, table, want string }{
		"no table":  {edited, "public.nope", "no table public.nope"},
		"not valid": {"version: 2\n", "a.b", "want 1"},
		"one line":  {head + "tables: [{source: s.t, mode: changelog, columns: [{name: id, type: int}]}]\n", "s.t", "cannot be edited"},
	} {
		if _, err := discover.AnnounceLoad("f", []byte(test.text), test.table, first, early); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
	if _, err := discover.FinishLoad("f", []byte(edited), "public.orders"); err == nil || !strings.Contains(err.Error(), "no load was announced") {
		t.Errorf("finish without a start: %v", err)
	}
}
