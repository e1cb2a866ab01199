package main_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	mutants "icehose/internal/mutants"
)

// Each fault leaves a program that compiles. Whoever changes the code around one
// hears of it here, and not when its turn to be tested comes.
func TestMutantsCompile(t *testing.T) {
	var list []mutants.Mutant
	for _, folder := range []string{"internal/mutants/list", "internal/sinkmutants"} {
		l, err := mutants.LoadFrom(root, folder)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, l...)
	}
	c := newChecker(t, list)
	for _, m := range list {
		if err := c.check(&m); err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
	}
}

// A checker type-checks packages of the module, with one file of them changed.
type checker struct {
	files    *token.FileSet
	importer types.Importer
	packages map[string]*checked // by folder, below the module's root
}

type checked struct {
	path  string
	trees map[string]*ast.File // by name, as they are
}

// newChecker asks the go command for the packages that the mutants are in, and
// for what it has compiled of all that they import.
func newChecker(t *testing.T, list []mutants.Mutant) *checker {
	t.Helper()
	c := &checker{files: token.NewFileSet(), packages: make(map[string]*checked)}
	args := []string{"list", "-export", "-deps", "-json=ImportPath,Export,GoFiles"}
	for _, m := range list {
		folder := filepath.Dir(m.File)
		if c.packages[folder] == nil {
			c.packages[folder] = &checked{path: "icehose/" + filepath.ToSlash(folder), trees: make(map[string]*ast.File)}
			args = append(args, "./"+folder)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	compiled := make(map[string]string)
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath, Export string
			GoFiles            []string
		}
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		compiled[p.ImportPath] = p.Export
		folder, ours := strings.CutPrefix(p.ImportPath, "icehose/")
		if own := c.packages[filepath.FromSlash(folder)]; ours && own != nil {
			for _, name := range p.GoFiles {
				if own.trees[name], err = parser.ParseFile(c.files, filepath.Join(root, folder, name), nil, 0); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	c.importer = importer.ForCompiler(c.files, "gc", func(path string) (io.ReadCloser, error) {
		if compiled[path] == "" {
			return nil, fmt.Errorf("%s is not compiled", path)
		}
		return os.Open(compiled[path])
	})
	return c
}

func (c *checker) check(m *mutants.Mutant) error {
	text, err := os.ReadFile(filepath.Join(root, m.File))
	if err != nil {
		return err
	}
	changed, err := parser.ParseFile(c.files, m.File, strings.Replace(string(text), m.Old, m.New, 1), 0)
	if err != nil {
		return err
	}
	own := c.packages[filepath.Dir(m.File)]
	trees := []*ast.File{changed}
	for name, tree := range own.trees {
		if name != filepath.Base(m.File) {
			trees = append(trees, tree)
		}
	}
	if len(trees) > len(own.trees) {
		return fmt.Errorf("%s is no file of its package", m.File)
	}
	_, err = (&types.Config{Importer: c.importer}).Check(own.path, c.files, trees, nil)
	return err
}
