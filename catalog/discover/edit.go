package discover

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"icehose/catalog"
)

// A document is the text of a YAML file, the tree that says where things stand
// in it, and the edits to make. Edits are of text, so that what nobody edits
// stays byte for byte.
type document struct {
	name  string
	text  string
	lines []int // offsets of the lines' first bytes, and the end
	root  ast.Node
	edits []edit
}

// An edit replaces a stretch of text.
type edit struct {
	from, to int
	text     string
}

func parseDocument(name string, text []byte) (*document, error) {
	d := &document{name: name, text: string(text)}
	if d.text != "" && !strings.HasSuffix(d.text, "\n") {
		d.text += "\n"
	}
	// The tree's places are lines and columns, which are those of d.text too.
	file, err := parser.ParseBytes(catalog.UnixLines([]byte(d.text)), 0)
	if err != nil {
		return nil, fmt.Errorf("%s: cannot be read as YAML: %w", name, err)
	}
	if len(file.Docs) != 1 || file.Docs[0].Body == nil {
		return nil, fmt.Errorf("%s: want one YAML document", name)
	}
	d.root = file.Docs[0].Body
	for at := 0; ; {
		d.lines = append(d.lines, at)
		next := strings.IndexByte(d.text[at:], '\n')
		if next < 0 {
			return d, nil
		}
		at += next + 1
	}
}

// pairs returns the members of a mapping.
func pairs(n ast.Node) []*ast.MappingValueNode {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}
	case *ast.AnchorNode:
		return pairs(n.Value)
	}
	return nil
}

// member finds a member of a mapping; nil if it has none of this name.
func member(n ast.Node, key string) *ast.MappingValueNode {
	for _, p := range pairs(n) {
		if p.Key != nil && p.Key.GetToken() != nil && p.Key.GetToken().Value == key {
			return p
		}
	}
	return nil
}

func sequence(p *ast.MappingValueNode) *ast.SequenceNode {
	if p == nil {
		return nil
	}
	switch n := p.Value.(type) {
	case *ast.SequenceNode:
		return n
	case *ast.AnchorNode:
		if s, ok := n.Value.(*ast.SequenceNode); ok {
			return s
		}
	}
	return nil
}

// offset returns the byte at which a token of the tree begins.
func (d *document) offset(n ast.Node) (int, error) {
	if m, ok := n.(*ast.MappingNode); ok && m.IsFlowStyle && m.Start != nil {
		return d.place(m.Start.Position.Line, m.Start.Position.Column)
	}
	return d.place(n.GetToken().Position.Line, n.GetToken().Position.Column)
}

func (d *document) place(line, column int) (int, error) {
	if line < 1 || line >= len(d.lines) {
		return 0, fmt.Errorf("%s: no line %d", d.name, line)
	}
	at := d.lines[line-1]
	for i := range d.text[at:d.lines[line]] {
		if column--; column == 0 {
			return at + i, nil
		}
	}
	return 0, fmt.Errorf("%s:%d: no such column", d.name, line)
}

// lineOf returns the index of the line that holds an offset.
func (d *document) lineOf(offset int) int {
	i, found := slices.BinarySearch(d.lines, offset)
	if !found {
		i--
	}
	return i
}

func (d *document) line(i int) string { return d.text[d.lines[i]:d.lines[i+1]] }

// indentOf returns the blanks that a line begins with.
func indentOf(line string) string { return line[:len(line)-len(strings.TrimLeft(line, " "))] }

// blockEnd returns the offset behind the last line of a block whose first line
// is given: of what is indented deeper than column, the 0-based column of its
// dash or key. Blank lines and comments at its end are not part of it.
func (d *document) blockEnd(first, column int) int {
	last := first
	for i := first + 1; i+1 < len(d.lines); i++ {
		line := strings.TrimRight(d.line(i), "\r\n")
		content := strings.TrimLeft(line, " ")
		if content == "" {
			continue
		}
		if len(line)-len(content) <= column {
			if strings.HasPrefix(content, "#") {
				continue
			}
			break
		}
		if !strings.HasPrefix(content, "#") {
			last = i
		}
	}
	return d.lines[last+1]
}

// dashBefore finds the dash of the list item whose content begins at the offset.
func (d *document) dashBefore(offset int) (int, error) {
	for i := offset - 1; i >= 0; i-- {
		line := d.line(d.lineOf(i))
		if d.text[i] == '-' && strings.TrimLeft(line, " ")[0] == '-' && i-d.lines[d.lineOf(i)] == len(indentOf(line)) {
			return i, nil
		}
	}
	return 0, fmt.Errorf("%s:%d: this list cannot be edited", d.name, d.lineOf(offset)+1)
}

// insert puts text before the byte at the offset.
func (d *document) insert(offset int, text string) {
	if strings.Contains(d.text, "\r\n") {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	d.edits = append(d.edits, edit{offset, offset, text})
}

// replace puts a new scalar in the place of an old one.
func (d *document) replace(n ast.Node, text string) error {
	at, err := d.offset(n)
	if err != nil {
		return err
	}
	token := n.GetToken()
	length := len(token.Value)
	if quote := d.text[at]; quote == '"' || quote == '\'' {
		length = quotedLength(d.text[at:])
	} else if !strings.HasPrefix(d.text[at:], token.Value) {
		length = 0
	}
	if length == 0 {
		return fmt.Errorf("%s:%d: cannot replace this text: write %s by hand", d.name, token.Position.Line, text)
	}
	d.edits = append(d.edits, edit{at, at + length, text})
	return nil
}

// quotedLength returns the number of bytes of the quoted scalar that a text
// begins with, quotes and all; 0 if it does not end. A quote inside is doubled in
// single quotes and follows a backslash in double ones.
func quotedLength(text string) int {
	quote := text[0]
	for i := 1; i < len(text); i++ {
		switch {
		case quote == '"' && text[i] == '\\':
			i++
		case text[i] != quote:
		case quote == '\'' && strings.HasPrefix(text[i+1:], "'"):
			i++
		default:
			return i + 1
		}
	}
	return 0
}

// own returns the text of a member that is written in the mapping itself; nil if
// it is not there, or an alias or anchor makes it the text of other places too.
func own(n ast.Node, key string) ast.Node {
	p := member(n, key)
	if p == nil {
		return nil
	}
	if s, ok := p.Value.(*ast.StringNode); ok {
		return s
	}
	return nil
}

// appendItems writes items, each on one line or within brackets, behind the
// last one of a list; comments may be nil, or have one for each item.
func (d *document) appendItems(list *ast.MappingValueNode, items, comments []string) error {
	seq := sequence(list)
	if seq == nil {
		return fmt.Errorf("%s:%d: want a list", d.name, list.GetToken().Position.Line)
	}
	if seq.IsFlowStyle {
		end, err := d.place(seq.End.Position.Line, seq.End.Position.Column)
		if err != nil {
			return err
		}
		text := strings.Join(items, ", ")
		if len(seq.Values) > 0 {
			text = ", " + text
		}
		d.insert(len(strings.TrimRight(d.text[:end], " \r\n,")), text)
		return nil
	}
	at, err := d.offset(seq.Values[len(seq.Values)-1])
	if err != nil {
		return err
	}
	dash, err := d.dashBefore(at)
	if err != nil {
		return err
	}
	line := d.lineOf(dash)
	indent := strings.Repeat(" ", dash-d.lines[line])
	var text strings.Builder
	for i, item := range items {
		text.WriteString(indent + "- " + item)
		if comments != nil && comments[i] != "" {
			text.WriteString(" # " + comments[i])
		}
		text.WriteByte('\n')
	}
	d.insert(d.blockEnd(line, len(indent)), text.String())
	return nil
}

// result makes the edits.
func (d *document) result() []byte {
	slices.SortStableFunc(d.edits, func(a, b edit) int { return a.from - b.from })
	var b strings.Builder
	at := 0
	for _, e := range d.edits {
		b.WriteString(d.text[at:e.from])
		b.WriteString(e.text)
		at = e.to
	}
	b.WriteString(d.text[at:])
	return []byte(b.String())
}
