package sinktest_test

import (
	"testing"

	"icehose/sink"
	"icehose/sink/sinktest"
)

func TestLake(t *testing.T) {
	sinktest.RunStoreTests(t, func(*testing.T) sink.Store { return sinktest.NewLake() })
}
