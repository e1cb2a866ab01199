package stack

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf16"
)

const (
	markBegin = "# icehose:begin "
	markEnd   = "# icehose:end"
)

// fill replaces the regions of a template. Every region of the template must be
// named, and every name must be a region: else a template and this package have
// parted.
func fill(template string, regions map[string]string) (string, error) {
	var b strings.Builder
	used := make(map[string]bool)
	inside := ""
	for line := range strings.Lines(template) {
		mark := strings.TrimSpace(line)
		name, begins := strings.CutPrefix(mark, markBegin)
		switch {
		case begins && inside != "":
			return "", fmt.Errorf("region %s begins in region %s", name, inside)
		case begins:
			text, ok := regions[name]
			if !ok {
				return "", fmt.Errorf("region %s: nothing to fill it with", name)
			}
			inside, used[name] = name, true
			b.WriteString(text)
		case mark == markEnd && inside == "":
			return "", fmt.Errorf("a region ends that did not begin")
		case mark == markEnd:
			inside = ""
		case inside == "":
			b.WriteString(line)
		}
	}
	if inside != "" {
		return "", fmt.Errorf("region %s does not end", inside)
	}
	for name := range regions {
		if !used[name] {
			return "", fmt.Errorf("no region %s", name)
		}
	}
	return b.String(), nil
}

// region returns the text of a region as the template has it.
func region(template, name string) (string, error) {
	_, rest, ok := strings.Cut(template, markBegin+name+"\n")
	text, _, ends := strings.Cut(rest, markEnd)
	if !ok || !ends {
		return "", fmt.Errorf("no region %s", name)
	}
	return text[:strings.LastIndexByte(text, '\n')+1], nil
}

// quote writes a YAML string in ASCII: what is not, CloudFormation and YAML
// readers do not all take alike.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r >= ' ' && r < 0x7f:
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08X`, r)
		default:
			fmt.Fprintf(&b, `\u%04X`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// oneLine writes JSON on one line and in ASCII.
func oneLine(text []byte) (string, error) {
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		return "", fmt.Errorf("compact JSON: %w", err)
	}
	var b strings.Builder
	for _, r := range compact.String() {
		switch {
		case r < 0x7f:
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String(), nil
}

// ascii reports whether a text may be a CloudWatch dimension.
func ascii(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) < 0
}
