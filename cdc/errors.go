package cdc

import (
	"errors"
	"fmt"
)

// ErrNoPosition is wrapped by every error that says a data change carries no
// position of its table's declared kind.
var ErrNoPosition = errors.New("no position")

// A DecodeError says where a record stopped being a change. It carries no
// value of the record.
type DecodeError struct {
	Offset int    // byte offset in the record
	Reason string // what was wrong there, such as "unterminated string"
}

// Error implements error.
func (e *DecodeError) Error() string {
	return fmt.Sprintf("decode record: %s at byte %d", e.Reason, e.Offset)
}
