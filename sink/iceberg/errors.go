package iceberg

import (
	"errors"
	"slices"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"icehose/sink"
)

// lasting marks an error that trying again does not mend (sink.ErrPermanent): on
// the local disk that is each one but that of a catalog that somebody has
// locked, elsewhere what the catalog's own file says.
func (s *Store) lasting(err error) error {
	if err == nil || errors.Is(err, sink.ErrConflict) || errors.Is(err, sink.ErrPermanent) {
		return err
	}
	if code := (*sqlite.Error)(nil); errors.As(err, &code) {
		if slices.Contains([]int{sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}, code.Code()&0xff) {
			return err
		}
		return &lastingError{err}
	}
	if s.location != "" && isLocal(s.location) { // a catalog that places tables itself is a server
		return &lastingError{err}
	}
	return err
}

// A lastingError reads as the error that it is.
type lastingError struct{ error }

// Unwrap returns the error and what is said of it.
func (e *lastingError) Unwrap() []error { return []error{e.error, sink.ErrPermanent} }

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
