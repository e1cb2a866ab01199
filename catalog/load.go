package catalog

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// A FileError says what is wrong in a pipeline file, and where. Its text is
// "FILE:LINE: FIELD: what, got VALUE".
type FileError struct {
	File   string
	Line   int    // 1-based; 0 when the whole file is meant
	Field  string // such as "tables[2].columns[0].type"; empty for a syntax error
	Value  string // as written; empty when a field is missing
	Reason string
}

// Error implements error.
func (e *FileError) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d", e.Line)
	}
	b.WriteString(": ")
	if e.Field != "" {
		b.WriteString(e.Field + ": ")
	}
	b.WriteString(e.Reason)
	if e.Value != "" {
		fmt.Fprintf(&b, ", got %q", e.Value)
	}
	return b.String()
}

// Load reads and checks the pipeline file at path. What is wrong in the file
// is a *FileError; several are joined.
func Load(path string) (*Pipeline, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("load pipeline file: %w", err)
	}
	return Parse(path, text)
}

// Parse reads and checks the text of a pipeline file; name stands for it in
// errors. Unknown keys are refused.
func Parse(name string, text []byte) (*Pipeline, error) {
	p, tree, err := decode(name, text, yaml.Strict())
	if err != nil {
		return nil, err
	}
	if tree == nil {
		return nil, &FileError{File: name, Line: 1, Reason: "nothing is described here: icehose catalog discover writes a file from a source"}
	}
	c := &checker{file: name, tree: tree}
	c.pipeline(p)
	if len(c.errs) > 0 {
		return nil, errors.Join(c.errs...)
	}
	return p, nil
}

// Draft reads a pipeline file as far as a person has begun it: nothing is
// checked or filled in. begun is false when it has nothing, or comments alone.
// What is no YAML of a pipeline file's form is a *FileError.
func Draft(name string, text []byte) (p *Pipeline, begun bool, err error) {
	p, tree, err := decode(name, text)
	return p, tree != nil, err
}

// decode reads the text; the tree is nil when nothing is in it.
func decode(name string, text []byte, options ...yaml.DecodeOption) (*Pipeline, *ast.File, error) {
	text = UnixLines(text)
	tree, err := parser.ParseBytes(text, 0)
	if err != nil {
		return nil, nil, yamlError(name, tree, err)
	}
	if len(tree.Docs) > 1 {
		return nil, nil, &FileError{File: name, Line: 1, Reason: fmt.Sprintf("want one YAML document that describes the pipeline, not %d", len(tree.Docs))}
	}
	var p Pipeline
	if len(tree.Docs) == 0 || tree.Docs[0].Body == nil || tree.Docs[0].Body.Type() == ast.NullType || tree.Docs[0].Body.Type() == ast.CommentType {
		return &p, nil, nil
	}
	// The decoder cannot take every value with a tag: it would fall over.
	tags := new(tagFinder)
	if ast.Walk(tags, tree.Docs[0].Body); tags.found != nil {
		return nil, nil, &FileError{
			File: name, Line: tags.found.Start.Position.Line, Field: strings.TrimPrefix(tags.found.GetPath(), "$."), Value: tags.found.Start.Value,
			Reason: "a tag means nothing in a pipeline file: remove it",
		}
	}
	if err := yaml.NewDecoder(bytes.NewReader(text), options...).Decode(&p); err != nil {
		return nil, nil, yamlError(name, tree, err)
	}
	return &p, tree, nil
}

// A tagFinder finds the last tag of a tree.
type tagFinder struct{ found *ast.TagNode }

// Visit implements ast.Visitor.
func (f *tagFinder) Visit(n ast.Node) ast.Visitor {
	if tag, ok := n.(*ast.TagNode); ok {
		f.found = tag
	}
	return f
}

// UnixLines returns the text with each line end of Windows made one byte. The
// YAML parser counts a line too many for every comment before such an end.
func UnixLines(text []byte) []byte {
	return bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
}

// yamlError turns the library's error into one line with a place.
func yamlError(name string, tree *ast.File, err error) error {
	out := &FileError{File: name, Reason: "cannot be read as YAML"}
	if located, ok := errors.AsType[yaml.Error](err); ok {
		out.Reason = located.GetMessage()
		if t := located.GetToken(); t != nil {
			out.Line = t.Position.Line
			out.Field, out.Value = fieldAt(tree, t)
		}
	} else {
		out.Reason = firstLine(err.Error())
	}
	return out
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// fieldAt finds the path of the node that a token belongs to, and its value.
func fieldAt(tree *ast.File, t *token.Token) (field, value string) {
	if tree == nil {
		return "", ""
	}
	finder := &tokenFinder{want: t}
	for _, doc := range tree.Docs {
		if doc.Body != nil {
			ast.Walk(finder, doc.Body)
		}
	}
	if finder.found == nil {
		return "", ""
	}
	if scalar, ok := finder.found.(ast.ScalarNode); ok {
		value = fmt.Sprint(scalar.GetValue())
	}
	return strings.TrimPrefix(finder.found.GetPath(), "$."), value
}

type tokenFinder struct {
	want  *token.Token
	found ast.Node
}

// Visit implements ast.Visitor. The last node at the token's place is the
// innermost one.
func (f *tokenFinder) Visit(n ast.Node) ast.Visitor {
	if t := n.GetToken(); t != nil && t.Position != nil && f.want.Position != nil &&
		t.Position.Line == f.want.Position.Line && t.Position.Column == f.want.Position.Column {
		f.found = n
	}
	return f
}

// lineOf returns the line of the node at a path such as "tables[2].key"; of
// the nearest node above it when there is none.
func lineOf(tree *ast.File, field string) int {
	for field != "" {
		if path, err := yaml.PathString("$." + field); err == nil {
			if n, err := path.FilterFile(tree); err == nil && n != nil && n.GetToken() != nil {
				return n.GetToken().Position.Line
			}
		}
		cut := strings.LastIndexAny(field, ".[")
		if cut < 0 {
			break
		}
		field = field[:cut]
	}
	return 1
}

// digitText is text whatever YAML takes its digits for: 32 digits without a
// letter are not a number.
type digitText string

// UnmarshalYAML implements yaml.NodeUnmarshaler.
func (d *digitText) UnmarshalYAML(n ast.Node) error {
	return (*Literal)(d).UnmarshalYAML(n)
}
