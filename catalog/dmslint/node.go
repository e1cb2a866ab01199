package dmslint

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// maxDepth bounds how deep a document may nest.
const maxDepth = 64

// A node is a value of a JSON document that knows where it stands.
type node struct {
	path   string // such as "rules[2].rule-action"
	line   int    // 1-based
	value  any    // nil, bool, string or json.Number of a scalar
	fields map[string]*node
	items  []*node
	list   bool // a list, even if it is empty
}

// parse reads one JSON document.
func parse(text []byte) (*node, error) {
	p := &parser{text: text, dec: json.NewDecoder(bytes.NewReader(text))}
	p.dec.UseNumber()
	n, err := p.value("", 0)
	if err != nil {
		return nil, err
	}
	if _, err := p.dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("line %d: more than one JSON document", p.line())
	}
	return n, nil
}

// embedded reads a document that is text of another one, as the AWS CLI prints
// table mappings and settings. Its nodes stand where the text stands.
func (n *node) embedded() (*node, error) {
	text, ok := n.value.(string)
	if !ok {
		if n.fields != nil {
			return n, nil // somebody has unfolded it
		}
		return nil, fmt.Errorf("line %d: %s is not text", n.line, n.path)
	}
	inner, err := parse([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("line %d: %s: %w", n.line, n.path, err)
	}
	inner.walk(func(i *node) {
		i.line = n.line
		i.path = strings.TrimSuffix(n.path+": "+i.path, ": ")
	})
	return inner, nil
}

func (n *node) walk(visit func(*node)) {
	visit(n)
	for _, f := range n.fields {
		f.walk(visit)
	}
	for _, i := range n.items {
		i.walk(visit)
	}
}

type parser struct {
	text []byte
	dec  *json.Decoder
	at   int // bytes counted so far
	seen int // newlines among them
}

// line is the line of the token that was just read.
func (p *parser) line() int {
	end := min(int(p.dec.InputOffset()), len(p.text))
	p.seen += bytes.Count(p.text[p.at:end], []byte{'\n'})
	p.at = end
	return p.seen + 1
}

func (p *parser) value(path string, depth int) (*node, error) {
	token, err := p.dec.Token()
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("line %d: not JSON: %w", p.line(), err)
	}
	n := &node{path: path, line: p.line()}
	if depth > maxDepth {
		return nil, fmt.Errorf("line %d: nested too deep", n.line)
	}
	switch t := token.(type) {
	case json.Delim:
		if t == '{' {
			return n, p.object(n, depth)
		}
		n.list = true
		for p.dec.More() {
			item, err := p.value(path+"["+strconv.Itoa(len(n.items))+"]", depth+1)
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, item)
		}
		return n, p.end()
	default:
		n.value = t
	}
	return n, nil
}

func (p *parser) object(n *node, depth int) error {
	n.fields = make(map[string]*node)
	for p.dec.More() {
		token, err := p.dec.Token()
		if err != nil {
			return fmt.Errorf("line %d: not JSON: %w", p.line(), err)
		}
		key, ok := token.(string)
		if !ok {
			return fmt.Errorf("line %d: not JSON: a name is no text", p.line())
		}
		path := key
		if n.path != "" {
			path = n.path + "." + key
		}
		if n.fields[key], err = p.value(path, depth+1); err != nil {
			return err
		}
	}
	return p.end()
}

func (p *parser) end() error {
	if _, err := p.dec.Token(); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("line %d: not JSON: %w", p.line(), err)
	}
	return nil
}

// field returns a member of an object, in whatever case its name is written;
// nil if there is none. Infrastructure tools disagree about the case.
func (n *node) field(name string) *node {
	if n == nil {
		return nil
	}
	if f, ok := n.fields[name]; ok {
		return f
	}
	for key, f := range n.fields {
		if strings.EqualFold(key, name) {
			return f
		}
	}
	return nil
}

// isNull reports whether there is nothing: no node, or a null.
func (n *node) isNull() bool {
	return n == nil || n.fields == nil && !n.list && n.value == nil
}

// wantObject refuses a node that is something else than an object or nothing.
func (n *node) wantObject() error {
	if n.isNull() || n.fields != nil {
		return nil
	}
	return fmt.Errorf("line %d: %s is not an object", n.line, cmp.Or(n.path, "the document"))
}

// objects returns the items of a list of objects; none if there is nothing.
func (n *node) objects() ([]*node, error) {
	if n == nil {
		return nil, nil
	}
	if !n.list {
		return nil, fmt.Errorf("line %d: %s is not a list", n.line, n.path)
	}
	for _, item := range n.items {
		if item.fields == nil {
			return nil, fmt.Errorf("line %d: %s is not an object", item.line, item.path)
		}
	}
	return n.items, nil
}

// text returns a scalar as text; empty if there is none.
func (n *node) text() string {
	if n == nil || n.value == nil {
		return ""
	}
	return fmt.Sprint(n.value)
}

// truth returns a boolean, which some tools write as text, or def if there is
// none.
func (n *node) truth(def bool) bool {
	switch strings.ToLower(n.text()) {
	case "true":
		return true
	case "false":
		return false
	}
	return def
}

// number returns an integer, or def if there is none.
func (n *node) number(def int) int {
	if v, err := strconv.Atoi(n.text()); err == nil {
		return v
	}
	return def
}

// or returns the first of two nodes that there is: the place to show for a
// setting that is not written.
func (n *node) or(other *node) *node {
	if n != nil {
		return n
	}
	return other
}

// elements returns the items of a list that may not be there.
func (n *node) elements() []*node {
	if n == nil {
		return nil
	}
	return n.items
}
