package stack

import (
	"bytes"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"icehose/catalog/artifact"
)

// CloudFormation's limits of a template: its resources, its bytes when it lies
// in S3, and its bytes when it is sent with the call.
const (
	maxResources = 500
	maxBytes     = 1_000_000
	maxInline    = 51_200
)

// A part takes new tables up to these, so that those it has can still grow.
const (
	fullResources = 400
	fullBytes     = 768 << 10
)

// tableMark begins the comment that says which table the resources after it
// belong to. By it a later run finds the table's part again.
const tableMark = "  # table "

// An entry is what one table adds to a template.
type entry struct {
	table     string // logical id
	text      string
	resources int
}

// A part is one of the nested stacks that a kind of template is split into,
// numbered from 1.
type part struct {
	number    int
	entries   []entry
	resources int
	bytes     int
}

// partFile is the path of a part.
func partFile(kind string, number int) string {
	if number == 1 {
		return kind + ".yaml"
	}
	return kind + "-" + strconv.Itoa(number) + ".yaml"
}

// partID ends the logical id of a part's nested stack.
func partID(number int) string {
	if number == 1 {
		return ""
	}
	return strconv.Itoa(number)
}

// A place is where a table was: its part, and how many tables came before it.
type place struct{ number, index int }

// before returns the place that each table had.
func (g *generator) before(kind string) map[string]place {
	places := make(map[string]place)
	for path, data := range g.options.Before {
		number := 1
		middle, ok := strings.CutPrefix(path, kind)
		if !ok {
			continue
		}
		if middle, ok = strings.CutSuffix(middle, ".yaml"); !ok {
			continue
		}
		if middle != "" {
			n, err := strconv.Atoi(strings.TrimPrefix(middle, "-"))
			if err != nil || partFile(kind, n) != path {
				continue
			}
			number = n
		}
		index := 0
		for line := range strings.Lines(string(data)) {
			if table, ok := strings.CutPrefix(line, tableMark); ok {
				places[strings.TrimSpace(table)] = place{number, index}
				index++
			}
		}
	}
	return places
}

// split lays entries out in parts. A table stays at the place it had; new ones go
// to the end of the last part while it has room.
func (g *generator) split(kind string, entries []entry) []*part {
	before := g.before(kind)
	var parts []*part
	find := func(number int) *part {
		i := slices.IndexFunc(parts, func(p *part) bool { return p.number == number })
		if i >= 0 {
			return parts[i]
		}
		parts = append(parts, &part{number: number})
		return parts[len(parts)-1]
	}
	var known, fresh []entry
	for _, e := range entries {
		if _, ok := before[e.table]; ok {
			known = append(known, e)
		} else {
			fresh = append(fresh, e)
		}
	}
	slices.SortStableFunc(known, func(a, b entry) int { return before[a.table].index - before[b.table].index })
	last := 1
	for _, e := range known {
		number := before[e.table].number
		find(number).add(e)
		last = max(last, number)
	}
	for _, e := range fresh {
		p := find(last)
		if len(p.entries) > 0 && (p.resources+e.resources > fullResources || p.bytes+len(e.text) > fullBytes) {
			last++
			p = find(last)
		}
		p.add(e)
	}
	slices.SortFunc(parts, func(a, b *part) int { return a.number - b.number })
	return parts
}

func (p *part) add(e entry) {
	p.entries = append(p.entries, e)
	p.resources += e.resources
	p.bytes += len(e.text)
}

// text is the part's resources, in the order in which their tables came.
func (p *part) text() string {
	var b strings.Builder
	for _, e := range p.entries {
		b.WriteString(tableMark + e.table + "\n" + e.text)
	}
	return b.String()
}

// lakeBefore puts the parts of an earlier run together into one fragment, as
// artifact.Generate wants it.
func (g *generator) lakeBefore() ([]byte, error) {
	var paths []string
	for path := range g.options.Before {
		if path == lakeKind+".yaml" || strings.HasPrefix(path, lakeKind+"-") {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	var all bytes.Buffer
	for _, path := range paths {
		var plain bytes.Buffer
		for line := range bytes.Lines(g.options.Before[path]) {
			if !bytes.HasPrefix(line, []byte(tableMark)) {
				plain.Write(line)
			}
		}
		head, tables, err := artifact.SplitStack(plain.Bytes())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if all.Len() == 0 {
			all.WriteString(head)
		}
		for _, text := range sortedValues(tables) {
			all.WriteString(text)
		}
	}
	return all.Bytes(), nil
}

// checkLimits refuses templates that CloudFormation would.
func (g *generator) checkLimits() error {
	for _, f := range g.result.Files {
		if n := countResources(f.Data); n > maxResources || len(f.Data) > maxBytes {
			return fmt.Errorf("generate stacks: %s would have %d resources in %d KB, and CloudFormation takes %d in %d: split the pipeline file in two, with a Name each",
				f.Path, n, len(f.Data)>>10, maxResources, maxBytes>>10)
		}
		// The nested ones lie in S3 anyhow.
		if f.Path == parentFile && len(f.Data) > maxInline {
			g.note("%s has %d KB: give it to CloudFormation with --template-url", f.Path, len(f.Data)>>10)
		}
	}
	return nil
}

// countResources counts the resources of a template of this layout: names at an
// indent of two.
func countResources(template []byte) int {
	_, resources, _ := bytes.Cut(template, []byte("\nResources:\n"))
	n := 0
	for line := range bytes.Lines(resources) {
		switch {
		case line[0] != ' ' && line[0] != '#' && line[0] != '\n': // the next section
			return n
		case bytes.HasPrefix(line, []byte("  ")) && line[2] != ' ' && line[2] != '#':
			n++
		}
	}
	return n
}

// template reads a template.
func (g *generator) template(name string) (string, error) {
	data, err := fs.ReadFile(g.options.Templates, name)
	if err != nil {
		return "", fmt.Errorf("read template: %w", err)
	}
	return string(data), nil
}
