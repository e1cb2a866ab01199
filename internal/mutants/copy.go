package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A moduleCopy is a copy of the module in which files are changed.
type moduleCopy struct {
	folder  string
	timeout time.Duration
	passed  map[string]bool // package and -run of tests that pass without a fault
}

// newCopy copies the files of the module at root that are tracked, or new and
// not ignored.
func newCopy(ctx context.Context, root string, timeout time.Duration) (*moduleCopy, error) {
	list := exec.CommandContext(ctx, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = root
	names, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("copy module: list files: %w", err)
	}
	folder, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return nil, fmt.Errorf("copy module: %w", err)
	}
	c := &moduleCopy{folder: folder, timeout: timeout, passed: make(map[string]bool)}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		if err := copyFile(filepath.Join(root, name), filepath.Join(folder, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, errors.Join(fmt.Errorf("copy module: %w", err), c.remove())
		}
	}
	return c, nil
}

// copyFile fails with fs.ErrNotExist for a tracked file that was removed.
func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	if err := os.MkdirAll(filepath.Dir(to), 0o750); err != nil {
		return err
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

func (c *moduleCopy) remove() error {
	if err := os.RemoveAll(c.folder); err != nil {
		return fmt.Errorf("remove copy: %w", err)
	}
	return nil
}

// A Verdict is what the tests said of a mutant.
type Verdict struct {
	Tests   []string // that failed, the innermost subtests only
	Endless bool     // they did not end
	Dead    bool     // they died without saying which
	Fault   string   // of the list: why the mutant says nothing of the tests
}

// Caught reports whether the tests noticed.
func (v *Verdict) Caught() bool { return len(v.Tests) > 0 || v.Endless || v.Dead }

func (v *Verdict) word() string {
	switch {
	case v.Fault != "":
		return "FAULT"
	case v.Caught():
		return "caught"
	}
	return "SURVIVED"
}

// summary names the first test, which is the same in every run.
func (v *Verdict) summary() string {
	switch {
	case v.Fault != "":
		return v.Fault
	case v.Endless:
		return "tests that did not end"
	case len(v.Tests) == 0 && v.Dead:
		return "a crash"
	case len(v.Tests) == 0:
		return "no test"
	case len(v.Tests) == 1:
		return v.Tests[0]
	}
	return fmt.Sprintf("%s and %d more", v.Tests[0], len(v.Tests)-1)
}

// test puts the fault in, runs the tests and takes it out again.
func (c *moduleCopy) test(ctx context.Context, m *Mutant) (v Verdict, err error) {
	if tests := strings.Join(append([]string{m.Package, m.Run}, m.Args...), " "); !c.passed[tests] {
		v, err := c.run(ctx, m)
		if err != nil || v.Fault != "" {
			return v, err
		}
		if v.Caught() {
			return Verdict{Fault: "tests fail without it: " + v.summary()}, nil
		}
		c.passed[tests] = true
	}
	file := filepath.Join(c.folder, m.File)
	text, err := os.ReadFile(file)
	if err != nil {
		return v, err
	}
	mutated, err := m.apply(text)
	if err != nil {
		return v, err
	}
	if err := os.WriteFile(file, mutated, 0o600); err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, os.WriteFile(file, text, 0o600)) }()
	return c.run(ctx, m)
}

var failed = regexp.MustCompile(`(?m)^ *--- FAIL: (\S+)`)

// run runs the tests of a mutant. An error says that they could not be run.
func (c *moduleCopy) run(ctx context.Context, m *Mutant) (v Verdict, err error) {
	args := []string{"test", "-count=1", "-vet=off", "-ldflags=-s -w", "-timeout=" + c.timeout.String(), "-run", m.Run, m.Package}
	if len(m.Args) > 0 {
		args = append(append(args, "-args"), m.Args...)
	}
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = c.folder
	out, err := command.CombinedOutput()
	// What a property draws depends on chance: the next mutant must not begin
	// with what this one has left.
	if err := os.RemoveAll(filepath.Join(c.folder, m.Package, "testdata", "rapid")); err != nil {
		return v, err
	}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return v, context.Cause(ctx)
	case err == nil && bytes.Contains(out, []byte("no tests to run")):
		v.Fault = "no test of " + m.Package + " matches " + m.Run
		return v, nil
	case err == nil:
		return v, nil
	case !errors.As(err, &exit):
		return v, fmt.Errorf("run tests: %w", err)
	case bytes.Contains(out, []byte("[build failed]")) || bytes.Contains(out, []byte("[setup failed]")):
		v.Fault = "does not compile:\n" + string(out)
		return v, nil
	case bytes.Contains(out, []byte("panic: test timed out")):
		v.Endless = true
		return v, nil
	}
	v.Tests = innermost(failed.FindAllSubmatch(out, -1))
	v.Dead = len(v.Tests) == 0
	return v, nil
}

// innermost leaves out a test that one of its subtests failed.
func innermost(matches [][][]byte) (tests []string) {
	for _, match := range matches {
		name := string(match[1])
		parent := false
		for _, other := range matches {
			parent = parent || strings.HasPrefix(string(other[1]), name+"/")
		}
		if !parent {
			tests = append(tests, name)
		}
	}
	slices.Sort(tests) // parallel tests end in any order
	return tests
}
