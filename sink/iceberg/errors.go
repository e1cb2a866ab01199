package iceberg

import (
	"strings"
)

// oneLine makes the text of an error, which may be joined from several, one line.
func oneLine(err error) error {
	if err == nil || !strings.Contains(err.Error(), "\n") {
		return err
	}
	return &lineError{err}
}

type lineError struct{ err error }

// Error implements error.
func (e *lineError) Error() string {
	var parts []string
	for line := range strings.SplitSeq(e.err.Error(), "\n") {
		if line = strings.TrimSpace(line); line != "" {
			parts = append(parts, line)
		}
	}
	return strings.Join(parts, "; ")
}

// Unwrap returns the error itself.
func (e *lineError) Unwrap() error { return e.err }
