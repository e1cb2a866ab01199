//go:build !unix

package iceberg_test

import (
	"testing"
	"time"
)

// cpu cannot tell here: benchmarks report zero.
func cpu(*testing.B) time.Duration { return 0 }
