package stack

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// A Kind is what an update does to a resource.
type Kind string

// The kinds.
const (
	Added    Kind = "added"
	Removed  Kind = "removed"  // CloudFormation deletes it, unless it is retained
	Modified Kind = "modified" // in place
	Replaced Kind = "replaced" // a new one is made, and the old one is deleted unless it is retained
)

// A Change is what differs of a resource between two sets of templates.
type Change struct {
	File     string `json:"file"`
	Resource string `json:"resource"` // logical id
	Type     string `json:"type"`
	Kind     Kind   `json:"kind"`
	Property string `json:"property,omitempty"` // that makes it a replacement
	// Unsafe says what would be lost, empty if nothing would.
	Unsafe string `json:"unsafe,omitempty"`
}

// CreateOnlyFile lists, for every type of resource that holds data or a place in
// a stream of it, the properties that cannot change.
const CreateOnlyFile = "create-only.json"

// A resource is one of a template.
type resource struct {
	kind       string
	node       ast.Node
	retained   bool
	properties ast.Node
}

// Compare says what an update from one set of templates to another does, as far
// as the templates show it: a value that comes from a parameter may change as
// well. templates holds CreateOnlyFile. Changes come sorted by file and resource.
func Compare(templates fs.FS, before, after map[string][]byte) ([]Change, error) {
	createOnly, err := readCreateOnly(templates)
	if err != nil {
		return nil, err
	}
	var changes []Change
	for _, file := range names(before, after) {
		old, err := resourcesOf(before[file])
		if err != nil {
			return nil, fmt.Errorf("compare %s as it was: %w", file, err)
		}
		fresh, err := resourcesOf(after[file])
		if err != nil {
			return nil, fmt.Errorf("compare %s: %w", file, err)
		}
		changes = append(changes, compareFile(file, old, fresh, createOnly)...)
	}
	return changes, nil
}

func readCreateOnly(templates fs.FS) (map[string][]string, error) {
	text, err := fs.ReadFile(templates, CreateOnlyFile)
	if err != nil {
		return nil, fmt.Errorf("read create-only properties: %w", err)
	}
	var properties map[string][]string
	if err := json.Unmarshal(text, &properties); err != nil {
		return nil, fmt.Errorf("read create-only properties: %w", err)
	}
	return properties, nil
}

// names returns the keys of both, sorted.
func names[V any](a, b map[string]V) []string {
	all := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(all)
	return slices.Compact(all)
}

func compareFile(file string, old, fresh map[string]resource, createOnly map[string][]string) []Change {
	var changes []Change
	for _, id := range names(old, fresh) {
		was, had := old[id]
		is, has := fresh[id]
		c := Change{File: file, Resource: id, Type: cmp.Or(is.kind, was.kind)}
		fixed, holds := createOnly[was.kind]
		switch {
		case !had:
			c.Kind = Added
		case !has:
			c.Kind = Removed
			if holds && !was.retained {
				c.Unsafe = "it is deleted, with its place in the stream of changes"
			}
		case was.kind != is.kind:
			c.Kind, c.Property, c.Type = Replaced, "Type", was.kind
			if holds {
				c.Unsafe = "another type takes its place"
			}
		case text(was.node) == text(is.node):
			continue
		default:
			c.Kind = Modified
			for _, property := range fixed {
				if text(at(was.properties, property)) != text(at(is.properties, property)) {
					c.Kind, c.Property, c.Unsafe = Replaced, property, "a new one takes its place, without what it holds"
				}
			}
			switch {
			case c.Kind != Modified:
			case was.kind == "AWS::Glue::Table":
				c.Unsafe = "an update of an Iceberg table through CloudFormation strips its metadata: catalog apply evolves tables"
			case holds && was.retained && !is.retained:
				c.Unsafe = "it would be deleted with its stack"
			}
		}
		changes = append(changes, c)
	}
	return changes
}

// resourcesOf reads a template's resources; none of a file that is no template.
func resourcesOf(template []byte) (map[string]resource, error) {
	resources := make(map[string]resource)
	if len(template) == 0 || strings.HasPrefix(strings.TrimSpace(string(template)), "{") {
		return resources, nil
	}
	file, err := parser.ParseBytes(template, 0)
	if err != nil {
		return nil, fmt.Errorf("parse template: %w", err)
	}
	if len(file.Docs) == 0 {
		return resources, nil
	}
	for id, node := range fields(at(file.Docs[0].Body, "Resources")) {
		resources[id] = resource{
			kind: text(at(node, "Type")), node: node, properties: at(node, "Properties"),
			retained: strings.HasPrefix(text(at(node, "DeletionPolicy")), "Retain"),
		}
	}
	return resources, nil
}

// at returns a field of a mapping, by a path with slashes; nil if there is none.
func at(node ast.Node, path string) ast.Node {
	for name := range strings.SplitSeq(path, "/") {
		node = fields(node)[name]
	}
	return node
}

// fields returns the values of a mapping by name.
func fields(node ast.Node) map[string]ast.Node {
	out := make(map[string]ast.Node)
	switch n := node.(type) {
	case *ast.MappingNode:
		for _, value := range n.Values {
			out[value.Key.String()] = value.Value
		}
	case *ast.MappingValueNode:
		out[n.Key.String()] = n.Value
	}
	return out
}

// text is a node as it would be written; comments and layout do not count.
func text(node ast.Node) string {
	if node == nil {
		return ""
	}
	return strings.Join(strings.Fields(node.String()), " ")
}
