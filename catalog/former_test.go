package catalog_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
)

func TestAppendAbsent(t *testing.T) {
	t.Parallel()
	columns := []catalog.Column{{Name: "id"}, {Name: "b3", RenamedFrom: "b2", FormerNames: []string{"b"}}, {Name: "c", RenamedFrom: "c0"}}
	for _, test := range []struct {
		name, in string
		want     []int
		fails    bool
	}{
		{name: "none"},
		{name: "names of today", in: "b3,c", want: []int{1, 2}},
		{name: "the name before", in: "b2", want: []int{1}},
		{name: "a name of long ago", in: "c0,b", want: []int{2, 1}},
		{name: "two names of one column", in: "b,b2", want: []int{1}},
		{name: "a column that is gone", in: "gone,b", want: []int{1}},
		{name: "metadata", in: "cdc_position", fails: true},
		{name: "no names", in: "b, c", fails: true},
	} {
		got, err := catalog.AppendAbsent(nil, columns, []byte(test.in))
		if (err != nil) != test.fails {
			t.Errorf("%s: error %v", test.name, err)
		}
		if diff := cmp.Diff(test.want, got); err == nil && diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}
