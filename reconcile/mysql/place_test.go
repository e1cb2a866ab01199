package mysql_test

import (
	"slices"
	"testing"

	"icehose/reconcile/mysql"
)

func TestOwnedIDs(t *testing.T) {
	for text, want := range map[string][]string{
		"": nil,
		"3e11fa47-71ca-11e1-9e33-c80aa9429562:23#46": {"3e11fa47-71ca-11e1-9e33-c80aa9429562:23#46"},
		"a-b:23#46:24#47,\nc-d:1#5":                  {"a-b:23#46", "a-b:24#47", "c-d:1#5"},
	} {
		if got := mysql.OwnedIDs(text); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
