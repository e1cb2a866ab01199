package main

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestByteSize(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]byteSize{"0": 0, "7": 7, "7B": 7, "3KiB": 3072, "64MiB": 64 << 20, "2GiB": 2 << 30} {
		var got byteSize
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "MiB", "-1", "1.5MiB", "1MB", "1mib", "1 MiB", "99999999999999999999", "2000000GiB", "1KiBB"} {
		var got byteSize
		if err := got.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%s: taken for %d", text, got)
		}
	}
}

// What is begun may be ended for a while after an interrupt, not for ever.
func TestOutlive(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	work, release := outlive(ctx, time.Hour)
	defer release()
	interrupt()
	if err := work.Err(); err != nil {
		t.Errorf("done at once: %v", err)
	}
	short, releaseShort := outlive(ctx, time.Millisecond)
	defer releaseShort()
	<-short.Done()
	if cause := context.Cause(short); !errors.Is(cause, errTooLong) {
		t.Errorf("done because of %v", cause)
	}
}
