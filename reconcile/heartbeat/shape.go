package heartbeat

import (
	"errors"
	"fmt"
	"strings"
)

// A refusal is what is wrong with a table; to look again would not help.
type refusal struct{ text string }

// Error implements error.
func (r *refusal) Error() string { return r.text }

func (s *Source) refuse(format string, args ...any) error {
	return &refusal{"check table " + s.Name() + ": " + fmt.Sprintf(format, args...)}
}

func isRefusal(err error) bool {
	_, ok := errors.AsType[*refusal](err)
	return ok
}

// A column is one of the server's table.
type column struct {
	name    string
	typ     string // as the server spells it
	integer bool
	time    bool // of the one type that reconcile looks for
	key     bool // alone the primary key
	made    bool // by the server: nobody may write it
}

// shape finds the key and the time of a heartbeat table. Every other column
// shows that it is a table for something else.
func (s *Source) shape(columns []column) (key, at string, err error) {
	want := "timestamptz"
	if !s.postgres() {
		want = "TIMESTAMP"
	}
	for _, c := range columns {
		switch {
		case c.made:
			return "", "", s.refuse("the server makes the values of its column %s: nobody may write them", c.name)
		case c.integer && c.key && key == "":
			key = c.name
		case c.time && at == "":
			at = c.name
		default:
			return "", "", s.refuse("its column %s (%s) belongs to no heartbeat: want one integer column, alone the primary key, and one of %s, as --ddl prints it", c.name, strings.ToLower(c.typ), want)
		}
	}
	if key == "" || at == "" {
		return "", "", s.refuse("want one integer column, alone the primary key, and one of %s, as --ddl prints it", want)
	}
	return key, at, nil
}

// missing refuses a table that is not there.
func (s *Source) missing() error {
	return s.refuse("the source has none of this name, or the account may not see it: icehose heartbeat --ddl prints the statement that makes it")
}

// strangers refuses a table with rows that no beat would reach: reconcile goes by
// the oldest row of all.
func (s *Source) strangers(rows int) error {
	return s.refuse("it has rows with other keys than 1 to %d: the times of those would stand still, and reconcile goes by the oldest; delete them, or give more --rows", rows)
}

// denied refuses an account without the rights.
func (s *Source) denied() error {
	grants := s.Define().Grants
	return s.refuse("the account may not write it: it needs SELECT, INSERT and UPDATE, such as by %s", grants[len(grants)-1])
}
