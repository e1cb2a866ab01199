package sinktest

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
)

// A Disk makes the storage under a lake fail. Whoever writes a file asks it
// first (Write). The zero Disk never fails.
type Disk struct {
	mu     sync.Mutex
	armed  bool
	part   string
	left   int
	struck bool
	before func()
}

// Arm lets the writes of files whose base name contains part fail, all of them
// but the first after ones, until Disarm.
func (d *Disk) Arm(part string, after int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.armed, d.part, d.left, d.struck = true, part, after, false
}

// Interrupt calls f once, before the next write of a file whose base name
// contains part. Writes that f makes are let through.
func (d *Disk) Interrupt(part string, f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.part, d.before, d.struck = part, f, false
}

// Disarm ends what Arm or Interrupt began and reports whether it struck.
func (d *Disk) Disarm() (struck bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.armed, d.before = false, nil
	return d.struck
}

// Write is asked before a file is written.
func (d *Disk) Write(name string) error {
	d.mu.Lock()
	matches := strings.Contains(filepath.Base(name), d.part)
	if f := d.before; f != nil && matches {
		d.before, d.struck = nil, true
		d.mu.Unlock()
		f()
		return nil
	}
	defer d.mu.Unlock()
	if !d.armed || !matches {
		return nil
	}
	if d.left > 0 {
		d.left--
		return nil
	}
	d.struck = true
	return fmt.Errorf("write %s: %w", filepath.Base(name), ErrInjected)
}
