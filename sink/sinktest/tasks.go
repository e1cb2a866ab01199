package sinktest

import "slices"

// beside runs what the sink lets run beside its calls: at once, when the sink
// waits for it, or between two calls (step). So it comes early and late, and at
// the same place whenever the seed runs.
func (s *session) beside(f func()) (wait func()) {
	begun := false
	run := func() {
		if !begun {
			begun = true
			f()
		}
	}
	if s.r.IntN(4) == 0 {
		run()
	} else {
		s.tasks = append(s.tasks, run)
	}
	return run
}

// step runs some of what runs beside the calls, in any order.
func (s *session) step() {
	for len(s.tasks) > 0 && s.r.IntN(3) > 0 {
		n := s.r.IntN(len(s.tasks))
		run := s.tasks[n]
		s.tasks = slices.Delete(s.tasks, n, n+1)
		run()
	}
}
