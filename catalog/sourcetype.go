package catalog

import (
	"fmt"
	"strconv"
	"strings"
)

// A SourceType is a type of a source engine taken apart.
type SourceType struct {
	// Name is the engine's name without parameters, such as "numeric",
	// "timestamp with time zone" or "bigint".
	Name     string
	Params   []int    // in parentheses: length, or precision and scale
	Members  []string // of a MySQL enum or set
	Unsigned bool     // MySQL
	Array    bool     // PostgreSQL; of any number of dimensions
	Class    TypeClass
}

// A TypeClass says how a type came to be, where its name does not tell.
type TypeClass string

// The classes. The zero value is a type that the engine has by itself.
const (
	ClassEnum      TypeClass = "enum"
	ClassComposite TypeClass = "composite"
	ClassRange     TypeClass = "range"  // made with CREATE TYPE AS RANGE
	ClassDomain    TypeClass = "domain" // the element of an array; any other domain is what it is made of
	ClassOther     TypeClass = "other"  // of an extension
)

// ParseSourceType takes the spelling of a type apart, as PostgreSQL's
// format_type, MySQL's COLUMN_TYPE and DMS's control records give it. It does
// not know which types exist.
func ParseSourceType(text string) (SourceType, error) {
	var t SourceType
	rest := strings.TrimSpace(text)
	for strings.HasSuffix(rest, "]") {
		open := strings.LastIndexByte(rest, '[')
		if open < 0 {
			return SourceType{}, fmt.Errorf("parse source type %q: ] without [", text)
		}
		t.Array = true
		rest = strings.TrimSpace(rest[:open])
	}
	name, args, tail, err := splitParams(rest)
	if err != nil {
		return SourceType{}, fmt.Errorf("parse source type %q: %w", text, err)
	}
	lower := strings.ToLower(name)
	switch {
	case lower == "enum" || lower == "set":
		if t.Members, err = parseMembers(args); err != nil {
			return SourceType{}, fmt.Errorf("parse source type %q: %w", text, err)
		}
	case args != "":
		for arg := range strings.SplitSeq(args, ",") {
			n, err := strconv.Atoi(strings.TrimSpace(arg))
			if err != nil {
				// Parameters that are words belong to extensions: geometry(Point,4326).
				t.Params, t.Class = nil, ClassOther
				break
			}
			t.Params = append(t.Params, n)
		}
	}
	var words []string
	for word := range strings.FieldsSeq(name + " " + tail) {
		switch strings.ToLower(word) {
		case "unsigned":
			t.Unsigned = true
		case "zerofill":
			t.Unsigned = true // MySQL makes such a column unsigned
		default:
			words = append(words, word)
		}
	}
	t.Name = strings.Join(words, " ")
	if !strings.Contains(t.Name, `"`) && t.Class == "" {
		t.Name = strings.ToLower(t.Name)
	}
	if t.Name == "" {
		return SourceType{}, fmt.Errorf("parse source type %q: no name", text)
	}
	return t, nil
}

// splitParams cuts name(args)tail; quotes protect parentheses.
func splitParams(s string) (name, args, tail string, err error) {
	open := strings.IndexByte(s, '(')
	if open < 0 || strings.HasPrefix(s, `"`) {
		return s, "", "", nil
	}
	quoted := false
	for i := open + 1; i < len(s); i++ {
		switch {
		case s[i] == '\'':
			quoted = !quoted // a doubled quote closes and opens again
		case s[i] == ')' && !quoted:
			return s[:open], s[open+1 : i], s[i+1:], nil
		}
	}
	return "", "", "", fmt.Errorf("( without )")
}

func parseMembers(args string) ([]string, error) {
	var members []string
	rest := strings.TrimSpace(args)
	for {
		if !strings.HasPrefix(rest, "'") {
			return nil, fmt.Errorf("want quoted members")
		}
		var member strings.Builder
		i := 1
		for ; ; i++ {
			if i >= len(rest) {
				return nil, fmt.Errorf("member without closing quote")
			}
			if rest[i] == '\'' {
				if i+1 >= len(rest) || rest[i+1] != '\'' {
					break
				}
				i++
			}
			member.WriteByte(rest[i])
		}
		members = append(members, member.String())
		rest = strings.TrimSpace(rest[i+1:])
		if rest == "" {
			return members, nil
		}
		if rest[0] != ',' {
			return nil, fmt.Errorf("want a comma between members")
		}
		rest = strings.TrimSpace(rest[1:])
	}
}

// Param returns the i-th parameter; ok is false when the type has none.
func (t *SourceType) Param(i int) (n int, ok bool) {
	if i < len(t.Params) {
		return t.Params[i], true
	}
	return 0, false
}

// String spells the type in the engine's words, as ParseSourceType reads it.
func (t *SourceType) String() string {
	var b strings.Builder
	name, tail := t.Name, ""
	for _, timed := range [...]string{" without time zone", " with time zone"} {
		if head, ok := strings.CutSuffix(name, timed); ok {
			name, tail = head, timed
		}
	}
	b.WriteString(name)
	switch {
	case len(t.Members) > 0:
		for i, m := range t.Members {
			b.WriteString(map[bool]string{true: "(", false: ","}[i == 0] + "'" + strings.ReplaceAll(m, "'", "''") + "'")
		}
		b.WriteByte(')')
	case len(t.Params) > 0:
		for i, p := range t.Params {
			b.WriteString(map[bool]string{true: "(", false: ","}[i == 0] + strconv.Itoa(p))
		}
		b.WriteByte(')')
	}
	b.WriteString(tail)
	if t.Unsigned {
		b.WriteString(" unsigned")
	}
	if t.Array {
		b.WriteString("[]")
	}
	return b.String()
}

// LiteralDefault reads the SQL text of a default: nil when it is NULL, the
// text of a literal, or the expression. A literal is a number, a truth value,
// or a quoted text with or without PostgreSQL's cast behind it.
func LiteralDefault(sql string) *SourceDefault {
	sql = strings.TrimSpace(sql)
	for balanced(sql) {
		sql = strings.TrimSpace(sql[1 : len(sql)-1])
	}
	bare := sql
	if at := strings.LastIndex(sql, "::"); at >= 0 && !strings.ContainsAny(sql[at:], "'") {
		bare = strings.TrimSpace(sql[:at])
		for balanced(bare) {
			bare = strings.TrimSpace(bare[1 : len(bare)-1])
		}
	}
	lower := strings.ToLower(bare)
	switch {
	case lower == "null" || bare == "":
		return nil
	case lower == "true" || lower == "false":
		return &SourceDefault{Text: lower}
	case len(bare) >= 2 && bare[0] == '\'' && bare[len(bare)-1] == '\'' && !strings.Contains(strings.ReplaceAll(bare[1:len(bare)-1], "''", ""), "'"):
		return &SourceDefault{Text: strings.ReplaceAll(bare[1:len(bare)-1], "''", "'")}
	}
	if _, err := strconv.ParseFloat(bare, 64); err == nil && !strings.ContainsAny(lower, "xpin") {
		return &SourceDefault{Text: bare}
	}
	if rest, ok := strings.CutPrefix(lower, "current_timestamp"); ok && (rest == "" || strings.HasPrefix(rest, "(")) {
		sql = "current_timestamp" + map[bool]string{true: "()", false: rest}[rest == ""]
	}
	return &SourceDefault{Text: sql, Expression: true}
}

// balanced reports whether one pair of parentheses encloses all of s.
func balanced(s string) bool {
	if len(s) < 2 || s[0] != '(' || s[len(s)-1] != ')' {
		return false
	}
	depth, quoted := 0, false
	for i := range len(s) {
		switch {
		case s[i] == '\'':
			quoted = !quoted
		case quoted:
		case s[i] == '(':
			depth++
		case s[i] == ')':
			if depth--; depth == 0 && i < len(s)-1 {
				return false
			}
		}
	}
	return depth == 0
}
