// Package discover proposes a pipeline file for a source schema, and brings an
// existing one up to date with it.
//
// In comes a catalog.SourceSchema and the text of a pipeline file, if there is
// one; out comes the text with what is new in the source added to it, and
// notes of what was added, changed, or needs a person. Text that a person
// wrote is never removed, moved or rendered anew: additions are put between
// the lines that are there. The result is a valid pipeline file. Whether the
// proposals are what the person wants, only the person knows: each has its
// reason beside it as a comment.
package discover

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"icehose/catalog"
)

// Options are what the source schema does not tell.
type Options struct {
	// Database is the destination database of a new file; empty: the schema of
	// the first table, made a lake name, or "lake" if that is public.
	Database string
	// Tables selects source tables, as schema.table with % for any text.
	// Empty: all.
	Tables []string
	// AsText names source types that no mapping is known for and whose text is
	// to be carried, such as "geometry".
	AsText []string
}

// A Kind says what a Note is about.
type Kind string

// The kinds.
const (
	Added     Kind = "added"     // to the file
	Changed   Kind = "changed"   // in the file
	Attention Kind = "attention" // left as it is: a person must decide
)

// A Note is one thing that was done, or that somebody has to do.
type Note struct {
	Kind   Kind   `json:"kind"`
	Table  string `json:"table,omitempty"`
	Column string `json:"column,omitempty"`
	Text   string `json:"text"`
	// Meanwhile says what becomes of records as long as the file is not
	// updated; empty when nothing happens to them.
	Meanwhile string `json:"meanwhile,omitempty"`
	// Edit is what to write, or to do.
	Edit string `json:"edit,omitempty"`
}

// A Result is a file brought up to date.
type Result struct {
	Text  []byte
	Notes []Note
}

// A SourceError is a table or column of the source that cannot be described
// without a person.
type SourceError struct {
	Table, Column string
	Reason        string // and what to do
}

// Error implements error.
func (e *SourceError) Error() string {
	if e.Column == "" {
		return fmt.Sprintf("table %s: %s", e.Table, e.Reason)
	}
	return fmt.Sprintf("column %s.%s: %s", e.Table, e.Column, e.Reason)
}

// Update returns the file that describes the schema. name stands for the file
// in errors; text is empty for a new one. Every table and column that cannot
// be described is a *SourceError; they are joined.
func Update(name string, text []byte, s *catalog.SourceSchema, o Options) (*Result, error) {
	p, begun, err := catalog.Draft(name, text)
	if err != nil {
		return nil, err
	}
	u := &updater{name: name, schema: s, options: o}
	filter := catalog.Pipeline{Include: o.Tables}
	if u.tables, err = Select(s, o.Tables); err != nil && !slices.ContainsFunc(p.Tables, func(t *catalog.Table) bool {
		return t != nil && len(s.Tables) > 0 && !filter.Excluded(t.Source) // it is gone
	}) {
		return nil, err
	}
	u.skipEmpty(p)
	switch {
	case begun:
		err = u.update(text, p)
	case len(u.tables) == 0:
		err = errors.New("no table of the source has a column")
	default:
		u.create(text)
	}
	if err != nil {
		return nil, err
	}
	u.noteLeftOut(p)
	if len(u.problems) > 0 {
		return nil, errors.Join(u.problems...)
	}
	if _, err := catalog.Parse(name, u.text); err != nil {
		return nil, placed(name, text, err)
	}
	return &Result{Text: u.text, Notes: u.notes}, nil
}

// placed gives what is wrong in the updated text the lines of the text as it
// stands, where it is wrong there too. What is not wrong there, or is mended by
// the update, is not said of it.
func placed(name string, text []byte, after error) error {
	type fault struct{ field, value, reason string }
	of := func(e *catalog.FileError) fault { return fault{e.Field, e.Value, e.Reason} }
	before := make(map[fault]error)
	_, err := catalog.Parse(name, text)
	for _, e := range each(err) {
		if e, ok := errors.AsType[*catalog.FileError](e); ok {
			before[of(e)] = e
		}
	}
	var faults []error
	for _, e := range each(after) {
		if e, ok := errors.AsType[*catalog.FileError](e); ok && before[of(e)] != nil {
			faults = append(faults, before[of(e)])
			continue
		}
		faults = append(faults, fmt.Errorf("in the text that would be written: %w", e))
	}
	return errors.Join(faults...)
}

// each returns the errors that were joined.
func each(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

// Select returns the tables of a schema that the patterns select, each of them
// schema.table with % for any text; all tables without patterns. It fails when
// that is none.
func Select(s *catalog.SourceSchema, patterns []string) ([]*catalog.SourceTable, error) {
	tables, err := Filter(s, patterns)
	switch {
	case err != nil:
		return nil, err
	case len(s.Tables) == 0:
		return nil, errors.New("the source has no table, or none that the account may see")
	case len(tables) == 0:
		return nil, fmt.Errorf("--tables: %s matches none of the source's tables, such as %s", strings.Join(patterns, ", "), s.Tables[0].FullName())
	}
	return tables, nil
}

// Filter returns what Select does, which may be nothing: it fails only when a
// pattern is none.
func Filter(s *catalog.SourceSchema, patterns []string) ([]*catalog.SourceTable, error) {
	for _, p := range patterns {
		if err := catalog.CheckPattern(p); err != nil {
			return nil, fmt.Errorf("--tables: %w, such as %[2]s.%% for all of schema %[2]s, got %[2]q", err, p)
		}
	}
	filter := catalog.Pipeline{Include: patterns}
	return slices.DeleteFunc(slices.Clone(s.Tables), func(t *catalog.SourceTable) bool { return filter.Excluded(t.FullName()) }), nil
}

// An updater makes one Result.
type updater struct {
	name    string
	schema  *catalog.SourceSchema
	options Options
	tables  []*catalog.SourceTable // selected
	text    []byte
	// Of the file that is updated:
	onUnknown catalog.UnknownTable
	nulls     catalog.Nulls
	readBy    []catalog.Reader // its tables that list no readers of their own
	notes     []Note
	problems  []error
}

func (u *updater) note(n Note) { u.notes = append(u.notes, n) }

// added notes a new table.
func (u *updater) added(p *proposal) {
	n := Note{
		Kind: Added, Table: p.source.FullName(), Text: p.summary(),
		Meanwhile: "its records fail unknown_table and are kept in the error bucket", Edit: "run icehose catalog discover",
	}
	if u.onUnknown == catalog.UnknownDrop {
		n.Meanwhile = "its records are dropped, and no copy is kept"
	}
	u.note(n)
}

func (u *updater) problem(table, column, format string, args ...any) {
	u.problems = append(u.problems, &SourceError{Table: table, Column: column, Reason: fmt.Sprintf(format, args...)})
}

// create makes a new file, below the comments that are there.
func (u *updater) create(comments []byte) {
	database := u.options.Database
	if database == "" {
		if database, _ = lakeName(u.tables[0].Schema); database == "public" || catalog.ReservedTable(database) {
			database = "lake"
		}
	}
	targets := newTargets(nil, database)
	var w writer
	w.header(u.schema.Engine, database)
	for _, t := range u.tables {
		p := u.propose(t, nil)
		if p == nil {
			continue
		}
		targets.place(u, p)
		w.table("  ", p)
		u.added(p)
	}
	if comments = bytes.TrimSpace(comments); len(comments) > 0 {
		comments = append(comments, '\n')
	}
	u.text = append(comments, w.String()...)
}

// find returns the index of the source table in the file; -1 if it has none.
func find(p *catalog.Pipeline, t *catalog.SourceTable) int {
	return slices.IndexFunc(p.Tables, func(have *catalog.Table) bool {
		if have == nil {
			return false
		}
		if p.Names == catalog.NamesFold {
			return catalog.FoldName(have.Source) == catalog.FoldName(t.FullName())
		}
		return have.Source == t.FullName()
	})
}
