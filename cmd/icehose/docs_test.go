package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// grammar returns a parser of the command line that neither prints nor exits.
func grammar(t *testing.T) *kong.Kong {
	t.Helper()
	parser, err := kong.New(new(cli), kong.Name("icehose"), kong.Exit(func(int) {}), kong.Writers(new(bytes.Buffer), new(bytes.Buffer)))
	if err != nil {
		t.Fatal(err)
	}
	return parser
}

// A mention is a command line of ours in a text.
type mention struct {
	place string
	words []string
	whole bool // to be typed as it is
}

var (
	inlineCode = regexp.MustCompile("`(?:bin/)?icehose ([^`]*)`")
	shellToken = regexp.MustCompile(`"([^"]*)"|'([^']*)'|[^\s'"]+`)
)

// words splits a command line as a shell does, up to a comment or redirection.
func words(line string) []string {
	var out []string
	for _, found := range shellToken.FindAllStringSubmatch(line, -1) {
		switch word := found[0]; {
		case strings.HasPrefix(word, "#") || slices.Contains([]string{">", "|", "&&", ";"}, word) || strings.HasPrefix(word, ">"):
			return out
		case word == "..." || word == "…":
		case word[0] == '"' || word[0] == '\'':
			out = append(out, found[1]+found[2])
		default:
			out = append(out, word)
		}
	}
	return out
}

// mentions finds the command lines of a document: lines of its code blocks, and
// code inside text.
func mentions(path, text string) []mention {
	var found []mention
	block := false
	for i, line := range strings.Split(strings.ReplaceAll(text, "\\\n", " "), "\n") {
		place := fmt.Sprintf("%s, about line %d", path, i+1)
		if strings.HasPrefix(line, "```") {
			block = !block
			continue
		}
		command, ours := strings.CutPrefix(strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(line), "./"), "bin/"), "icehose ")
		switch {
		case block && ours:
			found = append(found, mention{place, words(command), !strings.Contains(command, "...")})
		case !block:
			for _, code := range inlineCode.FindAllStringSubmatch(line, -1) {
				found = append(found, mention{place, words(code[1]), false})
			}
		}
	}
	return found
}

// checkMention says what is wrong with a command line: a command or flag that
// does not exist and, of one that is whole, everything that the parser says.
func checkMention(t *testing.T, m mention) error {
	t.Helper()
	parser := grammar(t)
	if m.whole {
		_, err := parser.Parse(m.words)
		return err
	}
	node := parser.Model.Node
	for _, word := range m.words {
		if word == "COMMAND" {
			continue
		}
		if name, isFlag := strings.CutPrefix(word, "--"); isFlag {
			name, _, _ = strings.Cut(name, "=")
			flags := slices.Concat(node.AllFlags(true)...)
			if !slices.ContainsFunc(flags, func(f *kong.Flag) bool { return f.Name == name || f.Tag.Negatable != "" && "no-"+f.Name == name }) {
				return fmt.Errorf("no flag --%s of %s", name, node.FullPath())
			}
			continue
		}
		at := slices.IndexFunc(node.Children, func(n *kong.Node) bool { return n.Name == word })
		if at >= 0 {
			node = node.Children[at]
		} else if len(node.Children) > 0 {
			return fmt.Errorf("no command %s of %s", word, node.FullPath())
		}
	}
	return nil
}

// advice is a command in prose, such as what an alarm or icehose status says.
var advice = regexp.MustCompile(`^((?:[a-z]+ ?)+(?:--[a-z-]+ ?)*)`)

// TestDocumentedCommands wants every command line in the documents, in the help
// texts, in the alarms and in what status advises to be one that there is.
func TestDocumentedCommands(t *testing.T) {
	t.Parallel()
	var all []mention
	for _, pattern := range []string{"../../README.md", "../../cloudformation/README.md", "../../docs/*.md"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: no such document: %v", pattern, err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, mentions(path, string(text))...)
		}
	}
	if err := kong.Visit(grammar(t).Model, func(node kong.Visitable, next kong.Next) error {
		if n, ok := node.(*kong.Node); ok {
			for line := range strings.Lines(strings.ReplaceAll(n.Detail, "\\\n", " ")) {
				if command, ours := strings.CutPrefix(line, "  icehose "); ours {
					command, _, _ = strings.Cut(command, "   ") // what it does
					all = append(all, mention{"help of " + n.FullPath(), words(command), true})
				}
			}
		}
		return next(nil)
	}); err != nil {
		t.Fatal(err)
	}
	templates, err := filepath.Glob("../../cloudformation/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(templates, "../../catalog/status/status.go", "../../catalog/stack/tables.go") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "//") {
				continue
			}
			for _, rest := range strings.Split(line, "icehose ")[1:] {
				all = append(all, mention{fmt.Sprintf("%s:%d", path, i+1), words(advice.FindString(rest)), false})
			}
		}
	}
	whole := 0
	for _, m := range all {
		if err := checkMention(t, m); err != nil {
			t.Errorf("%s: icehose %s: %v", m.place, strings.Join(m.words, " "), err)
		}
		if m.whole {
			whole++
		}
	}
	if len(all) < 100 || whole < 50 {
		t.Errorf("%d command lines found, %d of them whole: the documents have more", len(all), whole)
	}
}

// TestMakeTargets wants every target that the documents and CI name to exist,
// and everything that a target needs to have a recipe.
func TestMakeTargets(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	var targets, inCI []string
	for _, found := range regexp.MustCompile(`(?m)^([a-z][a-z/ -]*):`).FindAllStringSubmatch(string(makefile), -1) {
		targets = append(targets, strings.Fields(found[1])...)
	}
	documents, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("(?m)(?:`|^\\s*)make ([a-z/-]+)")
	for _, path := range append(documents, "../../README.md", "../../ARCHITECTURE.md", "../../cloudformation/README.md", "../../.ci/run") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range named.FindAllStringSubmatch(string(text), -1) {
			if !slices.Contains(targets, found[1]) {
				t.Errorf("%s names make %s, and the Makefile has no such target", path, found[1])
			}
			if strings.HasSuffix(path, ".ci/run") {
				inCI = append(inCI, found[1])
			}
		}
	}
	checkRecipes(t, targets, inCI)
}

// checkRecipes reads make's own database, in which a target that lost its recipe
// is one that would be believed made.
func checkRecipes(t *testing.T, targets, inCI []string) {
	t.Helper()
	program, err := exec.LookPath("make")
	if err != nil {
		t.Skip("no make here")
	}
	cmd := exec.CommandContext(t.Context(), program, append([]string{"--print-data-base", "--dry-run", "--no-builtin-rules", "--no-builtin-variables", "ENV=dev"}, targets...)...)
	cmd.Dir, cmd.Env = "../..", append(os.Environ(), "LC_ALL=C") // make translates its words
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("make --dry-run: %v\n%s", err, &stderr)
	}
	_, files, _ := strings.Cut(stdout.String(), "\n# Files\n")
	seen := 0
	for block := range strings.SplitSeq(files, "\n\n") {
		if strings.HasPrefix(block, "# Not a target") || strings.HasPrefix(block, "#") {
			continue
		}
		name, prerequisites, ok := strings.Cut(strings.SplitN(block, "\n", 2)[0], ":")
		if !ok || strings.HasPrefix(name, ".") || name == "always" || strings.Contains(block, "recipe to execute") {
			seen++
			continue
		}
		groups := strings.Contains(block, "Phony target") && strings.TrimSpace(prerequisites) != "" && !slices.Contains(inCI, name)
		made := strings.Contains(name, "/.tools/") || strings.HasPrefix(name, "dist/") || strings.HasPrefix(name, "bin/")
		if _, err := os.Stat(filepath.Join("../..", name)); !groups && (err != nil || made) {
			t.Errorf("make believes %s made: it has no recipe", name)
		}
	}
	if seen < len(targets) {
		t.Errorf("make's database has %d targets, the Makefile %d", seen, len(targets))
	}
}
