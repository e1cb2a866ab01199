package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// A Mutant is one hand-made fault.
type Mutant struct {
	// Name says what the program does once the fault is in.
	Name string `yaml:"name"`
	// Breaks are the rules that this breaks: "reason no_key", "cell update,
	// mirror", or a subject and a law of it.
	Breaks []string `yaml:"breaks"`
	File   string   `yaml:"file"` // below the module's root
	Old    string   `yaml:"old"`  // stands in File exactly once
	New    string   `yaml:"new"`
	// Models says which bug of which other tool this is; empty for none.
	Models string `yaml:"models"`
	// Package holds the tests that have to fail; Run chooses among them as
	// go test's -run does, and Args go to the test binary. They are the file's
	// when empty.
	Package string   `yaml:"package"`
	Run     string   `yaml:"run"`
	Args    []string `yaml:"args"`
}

// A subject is a file of the list.
type subject struct {
	Package string   `yaml:"package"`
	Run     string   `yaml:"run"`
	Args    []string `yaml:"args"`
	Mutants []Mutant `yaml:"mutants"`
}

// folder is where the list of the transform is, below the module's root.
const folder = "internal/mutants/list"

// Load reads the list of the transform, see LoadFrom.
func Load(root string) ([]Mutant, error) { return LoadFrom(root, folder) }

// LoadFrom reads the list in a folder of the module at root, and checks that
// each mutant applies. All faults are in the error.
func LoadFrom(root, folder string) ([]Mutant, error) {
	files, err := filepath.Glob(filepath.Join(root, folder, "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("load list: %w", err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("load list: no files in %s", folder)
	}
	var list []Mutant
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("load list: %w", err)
		}
		var s subject
		if err := yaml.UnmarshalWithOptions(text, &s, yaml.Strict()); err != nil {
			return nil, fmt.Errorf("load list: %s: %w", filepath.Base(file), err)
		}
		for _, m := range s.Mutants {
			m.Package, m.Run = cmp.Or(m.Package, s.Package), cmp.Or(m.Run, s.Run)
			if len(m.Args) == 0 {
				m.Args = s.Args
			}
			list = append(list, m)
		}
	}
	var faults []error
	names := make(map[string]bool)
	for i := range list {
		m := &list[i]
		if names[m.Name] {
			faults = append(faults, fmt.Errorf("load list: mutant %q: listed twice", m.Name))
		}
		names[m.Name] = true
		if err := m.check(root); err != nil {
			faults = append(faults, fmt.Errorf("load list: mutant %q: %w", m.Name, err))
		}
	}
	return list, errors.Join(faults...)
}

func (m *Mutant) check(root string) error {
	if m.Name == "" || len(m.Breaks) == 0 || m.File == "" || m.Package == "" || m.Run == "" || m.Old == "" {
		return errors.New("a field is empty")
	}
	if _, err := regexp.Compile(m.Run); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(root, m.File))
	if err != nil {
		return err
	}
	_, err = m.apply(text)
	return err
}

// apply returns the file's text with the fault in it.
func (m *Mutant) apply(text []byte) ([]byte, error) {
	if n := bytes.Count(text, []byte(m.Old)); n != 1 {
		return nil, fmt.Errorf("old text stands %d times in %s, want once", n, m.File)
	}
	if m.New == m.Old {
		return nil, errors.New("new text is the old one")
	}
	return bytes.Replace(text, []byte(m.Old), []byte(m.New), 1), nil
}

func (m *Mutant) matches(pattern *regexp.Regexp) bool {
	return pattern.MatchString(m.Name) || slices.ContainsFunc(m.Breaks, pattern.MatchString)
}

// Table returns the document of a list, kept in a folder and tested by a make
// target, whose mutants were all caught.
func Table(folder, target string, list []Mutant, verdicts []Verdict) []byte {
	var b strings.Builder
	b.WriteString("# Mutants\n\n" +
		"Hand-made faults, each of which some test notices. Written by `make " + target + "`, which puts each into a copy of\n" +
		"the module, runs the tests named here, and fails if they pass. The faults are in `" + folder + "`.\n\n")
	fmt.Fprintf(&b, "%d mutants, all caught.\n", len(list))
	models := slices.ContainsFunc(list, func(m Mutant) bool { return m.Models != "" })
	head := "\n## %s\n\n| with the fault | breaks | caught by |\n|---|---|---|\n%s"
	if models {
		head = "\n## %s\n\n| with the fault | breaks | as did | caught by |\n|---|---|---|---|\n%s"
	}
	cell := strings.NewReplacer("|", `\|`, "\n", " ")
	var files []string
	rows := make(map[string]string)
	for i, m := range list {
		if rows[m.File] == "" {
			files = append(files, m.File)
		}
		cells := []string{m.Name, strings.Join(m.Breaks, "; ")}
		if models {
			cells = append(cells, m.Models)
		}
		for _, text := range append(cells, verdicts[i].summary()) {
			rows[m.File] += "| " + cell.Replace(text) + " "
		}
		rows[m.File] += "|\n"
	}
	for _, file := range files {
		fmt.Fprintf(&b, head, file, rows[file])
	}
	return []byte(b.String())
}
