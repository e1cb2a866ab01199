package catalog

import (
	"errors"

	"github.com/goccy/go-yaml/ast"
)

// A Literal is a scalar of the pipeline file as it is written there: 5.00 stays
// "5.00", whatever YAML takes it for.
type Literal string

// UnmarshalYAML implements yaml.NodeUnmarshaler.
func (l *Literal) UnmarshalYAML(n ast.Node) error {
	if _, ok := n.(ast.ScalarNode); !ok {
		return errors.New("want one value, not a list or a mapping")
	}
	*l = Literal(n.GetToken().Value)
	return nil
}
