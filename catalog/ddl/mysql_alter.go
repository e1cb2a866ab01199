package ddl

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"icehose/catalog"
)

// alterTable plays what changes columns and the primary key; dump programs
// other than mysqldump define keys this way.
func (r *mysqlReader) alterTable(tokens []token) error {
	schema, name, rest, err := r.tableName(tokens)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(r.tables, func(t *catalog.SourceTable) bool { return t.Schema == schema && t.Name == name })
	if at < 0 {
		return nil
	}
	elements, _ := r.elements(rest)
	for _, e := range elements {
		if err := r.alter(r.tables[at], e); err != nil {
			return r.at(e[0], fmt.Errorf("alter table %s: %w", r.tables[at].FullName(), err))
		}
	}
	return nil
}

func (r *mysqlReader) alter(t *catalog.SourceTable, e []token) error {
	verb := strings.ToLower(e[0].of(r.text))
	e = e[1:]
	for len(e) > 0 && (e[0].is(r.text, "column") || e[0].is(r.text, "if") || e[0].is(r.text, "not") || e[0].is(r.text, "exists")) {
		e = e[1:]
	}
	if len(e) == 0 {
		return nil
	}
	switch verb {
	case "add":
		if e[0].of(r.text) == "(" {
			elements, after := r.elements(e[1:])
			if after < 0 {
				return errors.New("( without )")
			}
			for _, inner := range elements {
				if err := r.element(t, inner, -1); err != nil {
					return err
				}
			}
			return nil
		}
		e, at := r.place(t, e)
		return r.element(t, e, at)
	case "drop":
		if r.words(e, "primary", "key") {
			t.Key = nil
			return nil
		}
		t.Columns = slices.DeleteFunc(t.Columns, func(c *catalog.SourceColumn) bool { return c.Name == e[0].name(r.text) })
	case "modify":
		return r.replace(t, e[0].name(r.text), e)
	case "change":
		if len(e) < 2 {
			return errors.New("change wants an old and a new name")
		}
		old := e[0].name(r.text)
		for i, k := range t.Key {
			if k == old {
				t.Key[i] = e[1].name(r.text)
			}
		}
		return r.replace(t, old, e[1:])
	}
	return nil
}

// place cuts FIRST or AFTER column off an element and returns the position it means.
func (r *mysqlReader) place(t *catalog.SourceTable, e []token) (element []token, at int) {
	n := len(e)
	if e[n-1].is(r.text, "first") {
		return e[:n-1], 0
	}
	if n > 2 && e[n-2].is(r.text, "after") {
		name := e[n-1].name(r.text)
		return e[:n-2], 1 + slices.IndexFunc(t.Columns, func(c *catalog.SourceColumn) bool { return c.Name == name })
	}
	return e, -1
}

// replace puts a new definition in the place of a column.
func (r *mysqlReader) replace(t *catalog.SourceTable, old string, e []token) error {
	i := slices.IndexFunc(t.Columns, func(c *catalog.SourceColumn) bool { return c.Name == old })
	if i < 0 {
		return fmt.Errorf("no column %s", old)
	}
	t.Columns = slices.Delete(t.Columns, i, i+1)
	e, at := r.place(t, e)
	if at < 0 {
		at = i
	}
	return r.column(t, e, at)
}
