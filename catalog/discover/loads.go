package discover

import (
	"fmt"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"icehose/catalog"
	"icehose/cdc"
)

// AnnounceLoad returns the text of a pipeline file with a reload added to the
// loads of a table: records of loads that are built at since or later belong
// to it, and reflect everything that was committed below the floor. Everything
// else in the text stays as it is.
func AnnounceLoad(name string, text []byte, table string, floor cdc.Body, since time.Time) ([]byte, error) {
	item := fmt.Sprintf("{floor: %q, since: %s}", floor, since.UTC().Format(time.RFC3339Nano))
	return editLoads(name, text, table, func(d *document, node ast.Node, loads *ast.MappingValueNode) error {
		if loads != nil {
			return d.appendItems(loads, []string{item}, nil)
		}
		columns := member(node, "columns")
		if columns == nil || isFlow(node) {
			return fmt.Errorf("%s: table %s: cannot be edited: write it with one line for each setting", name, table)
		}
		at, err := d.offset(columns.Key)
		if err != nil {
			return err
		}
		line := d.lineOf(at)
		indent := strings.Repeat(" ", at-d.lines[line])
		d.insert(d.lines[line], indent+"loads: # a load record belongs to the last of these that began before it was built\n"+indent+"  - "+item+"\n")
		return nil
	})
}

// FinishLoad returns the text with the last load of a table marked as
// finished: all its rows have come, and what it did not bring was removed.
func FinishLoad(name string, text []byte, table string) ([]byte, error) {
	return editLoads(name, text, table, func(d *document, _ ast.Node, loads *ast.MappingValueNode) error {
		seq := sequence(loads)
		if seq == nil || len(seq.Values) == 0 {
			return fmt.Errorf("%s: table %s: no load was announced", name, table)
		}
		last := unwrapAnchor(seq.Values[len(seq.Values)-1])
		if p := member(last, "finished"); p != nil {
			return d.replace(p.Value, "true")
		}
		since := member(last, "since")
		if since == nil {
			return fmt.Errorf("%s: table %s: its last load has no since", name, table)
		}
		at, err := d.offset(since.Key)
		if err != nil {
			return err
		}
		if isFlow(last) {
			d.insert(at, "finished: true, ")
			return nil
		}
		d.insert(at, "finished: true\n"+strings.Repeat(" ", at-d.lines[d.lineOf(at)]))
		return nil
	})
}

func editLoads(name string, text []byte, table string, edit func(*document, ast.Node, *ast.MappingValueNode) error) ([]byte, error) {
	p, err := catalog.Parse(name, text)
	if err != nil {
		return nil, err
	}
	schema, source, _ := strings.Cut(table, ".")
	t := p.BySource(schema, source)
	if t == nil {
		return nil, fmt.Errorf("%s: no table %s", name, table)
	}
	d, err := parseDocument(name, text)
	if err != nil {
		return nil, err
	}
	for i, have := range p.Tables {
		if have != t {
			continue
		}
		seq := sequence(member(d.root, "tables"))
		if seq == nil || i >= len(seq.Values) {
			return nil, fmt.Errorf("%s: tables: cannot be edited: want a list", name)
		}
		node := unwrapAnchor(seq.Values[i])
		if err := edit(d, node, member(node, "loads")); err != nil {
			return nil, err
		}
	}
	out := d.result()
	if _, err := catalog.Parse(name, out); err != nil {
		return nil, fmt.Errorf("check the file after the update: %w", err)
	}
	return out, nil
}
