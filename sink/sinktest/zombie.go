package sinktest

import "errors"

// zombieCommits is how many commits paused writers have made so far.
func (r *run) zombieCommits() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.landed
}

// pause stops the process, which will go on when others write the lake.
func (s *session) pause() {
	s.gate.Lock()
	defer s.gate.Unlock()
	s.trace("the writer is paused")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.crashes--
	s.zombie, s.zombified, s.calm = s, true, true
}

// wake lets a paused writer, which knows nothing of its successor, go on.
func (s *session) wake() error {
	if s.zombie == nil || s.zombie == s {
		return nil
	}
	s.land() // or the faults of its commit would strike the other's
	return s.zombie.rise()
}

// land waits until what a session has begun beside its calls has ended.
func (s *session) land() {
	s.gate.Lock()
	defer s.gate.Unlock()
}

// holdZombie keeps a paused writer out of its commits until release is called,
// also out of one that it has begun and not entered: it would step into the
// fault that is laid for another, and wait for itself.
func (t *faultyTable) holdZombie() (release func()) {
	z := t.zombie
	if z == nil || z == t.session {
		return func() {}
	}
	z.gate.Lock()
	return z.gate.Unlock
}

// rise goes on where a paused session has stopped, for a while.
func (s *session) rise() error {
	s.trace("the paused writer goes on")
	before := s.zombieCommits()
	var err error
	for n := s.r.IntN(4); err == nil && n > 0 && len(s.batches) > 0; n-- {
		switch err = s.deliverBatch(); {
		case err == nil:
			s.batches = s.batches[1:]
		case errors.Is(err, errAgain): // it is told of what struck a commit before the pause
			err = nil
		}
	}
	if err == nil && s.r.IntN(2) == 0 {
		err = s.call("flush", s.sink.Flush)
	} else if err == nil {
		err = s.call("checkpoint", s.sink.Checkpoint) // tables without rows too
	}
	if s.zombieCommits() > before {
		s.counted(ZombieLanded)
	}
	switch {
	case errors.Is(err, errEnded):
		s.counted(ZombieFenced)
		return s.bury()
	case errors.Is(err, errAgain):
		return nil
	case err != nil:
		return err
	case s.r.IntN(3) == 0:
		return s.bury()
	}
	return nil
}

func (s *session) bury() error {
	s.trace("the paused writer is gone")
	s.zombie = nil
	err := s.leave()
	s.count(false)
	return err
}

// endZombie lets a paused writer go on for the last time.
func (r *run) endZombie() error {
	if r.zombie == nil {
		return nil
	}
	if err := r.zombie.rise(); err != nil || r.zombie == nil {
		return err
	}
	return r.zombie.bury()
}
