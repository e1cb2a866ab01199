package main

import (
	"strings"
	"testing"

	"icehose/cloudformation"
	"icehose/internal/cwtest"
)

// The alarm NotEqual counts the lines of tables that are not equal, and no others.
func TestMetricFilter(t *testing.T) {
	_, filters, err := cwtest.Parse(cloudformation.Templates)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	w.dump(t, "s.b", "other")
	w.invoke(t, w.function(t), `{}`)
	for _, f := range filters {
		if f.Log != "ReconcileLog" {
			continue
		}
		var counted []string
		for line := range strings.Lines(w.log.String()) {
			if m, err := f.Published(line); err != nil {
				t.Error(err)
			} else if m != nil {
				counted = append(counted, line)
			}
		}
		if len(counted) != 1 || !strings.Contains(counted[0], `"s.b"`) {
			t.Errorf("%s counts %q of\n%s", f.Resource, counted, &w.log)
		}
		return
	}
	t.Error("no metric filter on the reconcile's log")
}
