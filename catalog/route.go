package catalog

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Excluded reports whether include: and exclude: keep a source table,
// "schema.table", from flowing.
func (p *Pipeline) Excluded(source string) bool {
	matches := func(pattern string) bool {
		_, ok := match(p.fold(pattern), p.fold(source))
		return ok
	}
	if slices.ContainsFunc(p.Exclude, matches) {
		return true
	}
	return len(p.Include) > 0 && !slices.ContainsFunc(p.Include, matches)
}

// Route returns the index in Pipeline.Routes of the route that named the lake
// table; ok is false when none did.
func (t *Table) Route() (index int, ok bool) { return t.route - 1, t.route > 0 }

// fold returns a name as it is compared.
func (p *Pipeline) fold(name string) string {
	if p.Names == NamesFold {
		return FoldName(name)
	}
	return name
}

// FoldName returns a name in which ASCII letters are lower-case: names that are
// equal by names: fold have equal ones.
func FoldName(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, name)
}

// CheckPattern reports what is wrong with a pattern of source tables.
func CheckPattern(pattern string) error {
	if !strings.Contains(pattern, ".") {
		return errors.New("want schema.table, with % for any text")
	}
	return nil
}

// match matches s against a pattern in which each % stands for any text, and
// returns what each stood for: the shortest text that fits, from the left; the
// last one takes what is left.
func match(pattern, s string) (texts []string, ok bool) {
	head, rest, wild := strings.Cut(pattern, "%")
	if s, ok = strings.CutPrefix(s, head); !ok {
		return nil, false
	}
	if !wild {
		return nil, s == ""
	}
	for {
		part, next, more := strings.Cut(rest, "%")
		if !more {
			text, ok := strings.CutSuffix(s, part)
			return append(texts, text), ok
		}
		at := strings.Index(s, part)
		if at < 0 {
			return nil, false
		}
		texts = append(texts, s[:at])
		s, rest = s[at+len(part):], next
	}
}

// expand puts the texts in the places of a target's %.
func expand(target string, texts []string) string {
	var b strings.Builder
	for _, text := range texts {
		head, rest, wild := strings.Cut(target, "%")
		if !wild {
			break
		}
		b.WriteString(head)
		b.WriteString(strings.ToLower(text))
		target = rest
	}
	return b.String() + target
}

// checkRoutes checks the routes by themselves.
func (c *checker) checkRoutes(p *Pipeline) {
	for i, r := range p.Routes {
		field := fmt.Sprintf("routes[%d]", i)
		if err := CheckPattern(r.Match); err != nil {
			c.fail(field+".match", r.Match, "%v", err)
		}
		sample := strings.ReplaceAll(r.Target, "%", "x")
		database, table, two := strings.Cut(sample, ".")
		if !two {
			database, table = p.Database, sample
		}
		if !lakeName.MatchString(database) || !lakeName.MatchString(table) {
			c.fail(field+".target", r.Target, "want database.table or table, in lower-case letters, digits and underscores, with %% for what match found")
		}
		if have, want := strings.Count(r.Target, "%"), strings.Count(r.Match, "%"); have > want {
			c.fail(field+".target", r.Target, "it has %d %% and match has %d", have, want)
		}
	}
}

// routed returns the target that the first matching route gives a source
// table, and the route's place counted from 1; 0 when none matches.
func (p *Pipeline) routed(source string) (target string, place int) {
	for i, r := range p.Routes {
		// What % stands for is lower-cased anyway, so the folded texts will do.
		if texts, ok := match(p.fold(r.Match), p.fold(source)); ok {
			return expand(r.Target, texts), i + 1
		}
	}
	return "", 0
}

// checkUse refuses routes that no table uses: each is a mistake in its pattern
// or in the order of routes.
func (c *checker) checkUse(p *Pipeline) {
	used := make(map[int]bool)
	for _, t := range p.Tables {
		if t != nil {
			used[t.route] = true
		}
	}
	for i, r := range p.Routes {
		if !used[i+1] {
			c.fail(fmt.Sprintf("routes[%d].match", i), r.Match, "it names no table: none without a target: matches, or an earlier route takes them")
		}
	}
}
