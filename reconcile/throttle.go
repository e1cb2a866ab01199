package reconcile

import (
	"context"
	"time"
)

// A Throttle bounds how many rows are read in a second, over everything that
// shares it. Nil bounds nothing.
type Throttle struct {
	ticker *time.Ticker
	chunk  int
	left   chan int // rows of the current tick
}

// ticksPerSecond is how often rows are granted.
const ticksPerSecond = 50

// NewThrottle returns a Throttle; nil for a rate of 0 or less. Stop frees it.
func NewThrottle(rowsPerSecond int) *Throttle {
	if rowsPerSecond <= 0 {
		return nil
	}
	chunk := max(1, rowsPerSecond/ticksPerSecond)
	t := &Throttle{
		ticker: time.NewTicker(time.Duration(float64(chunk) / float64(rowsPerSecond) * float64(time.Second))),
		chunk:  chunk, left: make(chan int, 1),
	}
	t.left <- 0
	return t
}

// Wait returns when rows may be read.
func (t *Throttle) Wait(ctx context.Context, rows int) error {
	if t == nil {
		return nil
	}
	var left int
	select {
	case left = <-t.left:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { t.left <- left }()
	for left < rows {
		select {
		case <-t.ticker.C:
			left += t.chunk
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	left -= rows
	return nil
}

// Stop frees the Throttle.
func (t *Throttle) Stop() {
	if t != nil {
		t.ticker.Stop()
	}
}
