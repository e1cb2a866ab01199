//go:build unix

package iceberg_test

import (
	"syscall"
	"testing"
	"time"
)

// cpu returns the processor time of this process so far, garbage collection and
// all: on a machine that others use it tells more than the clock.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
