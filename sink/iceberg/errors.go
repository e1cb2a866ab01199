package iceberg

import (
	"errors"
	"slices"
	"strings"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	lake "icehose/catalog/iceberg"
	"icehose/sink"
)

// lasting marks an error that trying again does not mend (sink.ErrPermanent): on
// the local disk that is each one but that of a catalog that somebody has
// locked (sink.ErrUnavailable), elsewhere what the catalog's own file says.
func (s *Store) lasting(err error) error {
	if err == nil || errors.Is(err, sink.ErrConflict) || errors.Is(err, sink.ErrPermanent) {
		return err
	}
	if isBusy(err) {
		return &markedError{err, sink.ErrUnavailable}
	}
	if errors.Is(err, lake.ErrDamaged) {
		return &markedError{err, sink.ErrPermanent}
	}
	if code := (*sqlite.Error)(nil); errors.As(err, &code) {
		return &markedError{err, sink.ErrPermanent}
	}
	if s.location != "" && isLocal(s.location) { // a catalog that places tables itself is a server
		return &markedError{err, sink.ErrPermanent}
	}
	return err
}

// isBusy says that a SQLite database is locked by somebody else.
func isBusy(err error) bool {
	code := (*sqlite.Error)(nil)
	return errors.As(err, &code) && slices.Contains([]int{sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}, code.Code()&0xff)
}

// MayPass says of an error of opening a lake, or a table of it, that trying again
// may mend it: somebody has the catalog locked, or its server, or the storage's,
// takes no connection. Others, such as a refused login, somebody has to mend.
func MayPass(err error) bool {
	return isBusy(err) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET)
}

// A markedError reads as the error that it is.
type markedError struct {
	error
	mark error
}

// Unwrap returns the error and what is said of it.
func (e *markedError) Unwrap() []error { return []error{e.error, e.mark} }

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
