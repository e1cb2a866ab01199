package stack

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
)

// A Parameter is one of a template's, as far as it says which values it takes.
type Parameter struct {
	Type           string
	Description    string
	Default        *string
	AllowedValues  []string
	AllowedPattern string
	Constraint     string
	MaxLength      *int
	MinValue       *float64
	MaxValue       *float64
}

// A Value is a parameter with its value, in the form that the API takes.
type Value struct {
	Key   string `json:"ParameterKey"`
	Value string `json:"ParameterValue"`
}

// An Overlay is a set of values and where they are from.
type Overlay struct {
	Name   string // of the file, for errors
	Values []Value
}

// ParseOverlay reads a YAML or JSON file of names and values.
func ParseOverlay(name string, text []byte) (Overlay, error) {
	var items yaml.MapSlice
	if err := yaml.Unmarshal(text, &items); err != nil {
		return Overlay{}, fmt.Errorf("read parameters: %s: %w", name, err)
	}
	o := Overlay{Name: name}
	for _, item := range items {
		value, err := scalar(item.Value)
		if err != nil {
			return Overlay{}, fmt.Errorf("read parameters: %s: %v: %w", name, item.Key, err)
		}
		o.Values = append(o.Values, Value{Key: fmt.Sprint(item.Key), Value: value})
	}
	return o, nil
}

// scalar writes a value as text; a list with commas.
func scalar(value any) (string, error) {
	switch v := value.(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	case bool, int, int64, uint64:
		return fmt.Sprint(v), nil
	case []any:
		parts := make([]string, len(v))
		for i, e := range v {
			part, err := scalar(e)
			if err != nil {
				return "", err
			}
			parts[i] = part
		}
		return strings.Join(parts, ","), nil
	default:
		return "", fmt.Errorf("want a text, a whole number, true, false or a list of them")
	}
}

// Parameters lays overlays over each other, the later ones winning, and holds
// them against the parameters of a template. The result has the names that
// have a value, in the template's order. The error names every value that the
// template would refuse; rules between parameters are CloudFormation's to check,
// which it does before it changes anything.
func Parameters(template []byte, overlays []Overlay) ([]Value, error) {
	names, known, err := parametersOf(template)
	if err != nil {
		return nil, err
	}
	values, from := make(map[string]string), make(map[string]string)
	var faults []error
	for _, o := range overlays {
		for _, v := range o.Values {
			if _, ok := known[v.Key]; !ok {
				faults = append(faults, fmt.Errorf("%s: %s: no such parameter", o.Name, v.Key))
			}
			values[v.Key], from[v.Key] = v.Value, o.Name
		}
	}
	var out []Value
	for _, name := range names {
		p := known[name]
		value, ok := values[name]
		switch {
		case !ok && p.Default == nil:
			faults = append(faults, fmt.Errorf("%s: not given: %s", name, p.Description))
		case ok:
			if err := p.check(value); err != nil {
				faults = append(faults, fmt.Errorf("%s: %s: %w", from[name], name, err))
			}
			out = append(out, Value{Key: name, Value: value})
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("check parameters:\n%w", err)
	}
	return out, nil
}

// Lookup returns the value of one parameter among those that Parameters returned,
// or its default.
func Lookup(template []byte, values []Value, name string) (string, error) {
	for _, v := range values {
		if v.Key == name {
			return v.Value, nil
		}
	}
	_, known, err := parametersOf(template)
	if err != nil {
		return "", err
	}
	p, ok := known[name]
	if !ok || p.Default == nil {
		return "", fmt.Errorf("read parameters: %s: no such parameter", name)
	}
	return *p.Default, nil
}

// parametersOf returns a template's parameters, and their names in its order.
func parametersOf(template []byte) (names []string, known map[string]Parameter, err error) {
	var read struct {
		Parameters yaml.MapSlice `yaml:"Parameters"`
	}
	if err := yaml.Unmarshal(template, &read); err != nil {
		return nil, nil, fmt.Errorf("read template: %w", err)
	}
	known = make(map[string]Parameter)
	for _, item := range read.Parameters {
		p, err := parameterOf(item.Value)
		if err != nil {
			return nil, nil, fmt.Errorf("read template: parameter %v: %w", item.Key, err)
		}
		names = append(names, fmt.Sprint(item.Key))
		known[names[len(names)-1]] = p
	}
	return names, known, nil
}

// parameterOf reads one parameter by way of JSON, which tells numbers and texts
// apart no better than a template has to.
func parameterOf(value any) (p Parameter, err error) {
	items, ok := value.(map[string]any)
	if !ok {
		return p, fmt.Errorf("want a mapping, got %T", value)
	}
	if v, ok := items["Default"]; ok {
		text, err := scalar(v)
		if err != nil {
			return p, err
		}
		p.Default = &text
	}
	if list, ok := items["AllowedValues"].([]any); ok {
		for _, v := range list {
			text, err := scalar(v)
			if err != nil {
				return p, err
			}
			p.AllowedValues = append(p.AllowedValues, text)
		}
	}
	delete(items, "Default")
	delete(items, "AllowedValues")
	text, err := json.Marshal(items)
	if err != nil {
		return p, fmt.Errorf("encode parameter: %w", err)
	}
	rest := struct {
		Type                                               string
		Description, AllowedPattern, ConstraintDescription string
		MaxLength                                          *int
		MinValue, MaxValue                                 *float64
	}{}
	if err := json.Unmarshal(text, &rest); err != nil {
		return p, fmt.Errorf("decode parameter: %w", err)
	}
	p.Type, p.Description, p.AllowedPattern, p.Constraint = rest.Type, rest.Description, rest.AllowedPattern, rest.ConstraintDescription
	p.MaxLength, p.MinValue, p.MaxValue = rest.MaxLength, rest.MinValue, rest.MaxValue
	return p, nil
}

// check says why the template would refuse a value.
func (p *Parameter) check(value string) error {
	if len(p.AllowedValues) > 0 && !slices.Contains(p.AllowedValues, value) {
		return fmt.Errorf("want one of %s, got %q", strings.Join(p.AllowedValues, ", "), value)
	}
	if p.MaxLength != nil && len(value) > *p.MaxLength {
		return fmt.Errorf("want %d characters at most, got %d", *p.MaxLength, len(value))
	}
	if p.AllowedPattern != "" {
		pattern, err := regexp.Compile("^(?:" + p.AllowedPattern + ")$")
		if err != nil {
			return fmt.Errorf("the template's pattern: %w", err)
		}
		if !pattern.MatchString(value) {
			if p.Constraint != "" {
				return fmt.Errorf("want %s, got %q", p.Constraint, value)
			}
			return fmt.Errorf("want %s, got %q (%s)", p.AllowedPattern, value, p.Description)
		}
	}
	if p.Type != "Number" {
		return nil
	}
	// CloudFormation takes fractions, and no resource of the templates does.
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return fmt.Errorf("want a whole number, got %q", value)
	}
	if p.MinValue != nil && float64(n) < *p.MinValue || p.MaxValue != nil && float64(n) > *p.MaxValue {
		return fmt.Errorf("want a number from %s to %s, got %q", bound(p.MinValue, "any"), bound(p.MaxValue, "any"), value)
	}
	return nil
}

func bound(n *float64, none string) string {
	if n == nil {
		return none
	}
	return strconv.FormatFloat(*n, 'f', -1, 64)
}
