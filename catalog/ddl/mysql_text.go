package ddl

import (
	"strings"
)

// A token is a piece of MySQL's SQL: a word, a quoted text or name, a number
// with its sign left out, or one other character.
type token struct {
	start, end int
	kind       byte // w word, ' text, ` name, p punctuation
}

func (t token) of(text string) string { return text[t.start:t.end] }

// unfoldMySQL blanks comments and the marks of comments whose content MySQL
// executes, so that offsets and lines stay.
func unfoldMySQL(text string) string {
	out := []byte(text)
	blank := func(from, to int) {
		for i := from; i < to; i++ {
			if out[i] != '\n' {
				out[i] = ' '
			}
		}
	}
	executed := false
	for i := 0; i < len(text); {
		rest := text[i:]
		switch {
		case text[i] == '\'' || text[i] == '"' || text[i] == '`':
			i = closing(text, i)
		case executed && strings.HasPrefix(rest, "*/"):
			blank(i, i+2)
			executed = false
			i += 2
		case strings.HasPrefix(rest, "/*!") || strings.HasPrefix(rest, "/*M!"):
			open := strings.IndexByte(rest, '!') + 1
			digits := 0
			for open+digits < len(rest) && rest[open+digits] >= '0' && rest[open+digits] <= '9' {
				digits++
			}
			if rest[open:open+digits] == "999999" { // never executed
				end := i + commentEnd(rest)
				blank(i, end)
				i = end
				continue
			}
			blank(i, i+open+digits)
			executed = true
			i += open + digits
		case strings.HasPrefix(rest, "/*"):
			end := i + commentEnd(rest)
			blank(i, end)
			i = end
		case text[i] == '#' || strings.HasPrefix(rest, "--") && (len(rest) == 2 || rest[2] <= ' '):
			end := strings.IndexByte(rest, '\n')
			if end < 0 {
				end = len(rest)
			}
			blank(i, i+end)
			i += end
		default:
			i++
		}
	}
	return string(out)
}

func commentEnd(s string) int {
	if end := strings.Index(s, "*/"); end >= 0 {
		return end + 2
	}
	return len(s)
}

// closing returns the offset behind the quoted text that begins at i.
func closing(text string, i int) int {
	quote := text[i]
	for i++; i < len(text); i++ {
		switch {
		case text[i] == '\\' && quote != '`':
			i++
		case text[i] == quote:
			if i+1 < len(text) && text[i+1] == quote {
				i++
				continue
			}
			return i + 1
		}
	}
	return len(text)
}

// scanMySQL cuts unfolded text into tokens.
func scanMySQL(text string, from, to int) []token {
	var tokens []token
	for i := from; i < to; {
		c := text[i]
		start := i
		switch {
		case c <= ' ':
			i++
			continue
		case c == '\'' || c == '"' || c == '`':
			i = min(closing(text, i), to)
			kind := c
			if c == '"' {
				kind = '\''
			}
			tokens = append(tokens, token{start, i, kind})
			continue
		case isWord(c):
			for i < to && isWord(text[i]) {
				i++
			}
			tokens = append(tokens, token{start, i, 'w'})
			continue
		}
		i++
		tokens = append(tokens, token{start, i, 'p'})
	}
	return tokens
}

func isWord(c byte) bool {
	return c == '_' || c == '$' || c >= 0x80 || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// statements cuts unfolded text at its delimiters, which DELIMITER changes.
func statements(text string) [][2]int {
	var out [][2]int
	delimiter := ";"
	start := 0
	for i := 0; i < len(text); {
		atLine := i == 0 || text[i-1] == '\n'
		switch {
		case atLine && strings.TrimSpace(text[start:i]) == "" && len(text)-i > 10 && strings.EqualFold(text[i:i+10], "delimiter "):
			end := strings.IndexByte(text[i:], '\n')
			if end < 0 {
				end = len(text) - i
			}
			delimiter = strings.TrimSpace(text[i+10 : i+end])
			i += end
			start = i
		case delimiter != "" && strings.HasPrefix(text[i:], delimiter):
			out = append(out, [2]int{start, i})
			i += len(delimiter)
			start = i
		case text[i] == '\'' || text[i] == '"' || text[i] == '`':
			i = closing(text, i)
		default:
			i++
		}
	}
	return append(out, [2]int{start, len(text)})
}

// name reads an identifier, quoted or not.
func (t token) name(text string) string {
	s := t.of(text)
	if t.kind == '`' || t.kind == '\'' && strings.HasPrefix(s, `"`) {
		q := s[:1]
		return strings.ReplaceAll(s[1:len(s)-1], q+q, q)
	}
	return s
}

// literal reads a quoted text.
func (t token) literal(text string) string {
	s := t.of(text)
	if len(s) < 2 {
		return s
	}
	quote, s := s[0], s[1:len(s)-1]
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s):
			i++
			switch s[i] {
			case 'n':
				b.WriteByte('\n')
			case 't':
				b.WriteByte('\t')
			case 'r':
				b.WriteByte('\r')
			case '0':
				b.WriteByte(0)
			default:
				b.WriteByte(s[i])
			}
			continue
		case s[i] == quote:
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// is reports whether the token is the given word, in any case.
func (t token) is(text, word string) bool {
	return t.kind == 'w' && strings.EqualFold(t.of(text), word)
}
