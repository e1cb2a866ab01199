// Command mutants proves that tests notice when a rule is broken: it applies
// each mutant of list/*.yaml to a copy of the module, one at a time, and runs
// the tests that have to fail.
//
//	mutants [-list FOLDER] [-only REGEXP] [-part K/N] [-jobs N] [-timeout D] [-write FILE]
//
// It runs in the module's root folder. Out goes one line for each mutant:
// caught, with the tests that failed, or survived. The exit status is 0 when
// every mutant was caught, 1 when one survived, and 2 when the list or the
// tests themselves are at fault: a text to replace that does not stand exactly
// once in its file, a mutant that does not compile, tests that fail without
// one. A test that does not end counts as a catch, and is reported as such.
//
// It does not promise that the list is complete. It says what the list covers,
// and the package's tests check that this is every reason and every cell of
// the outcome table.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) //nolint:forbidigo // a program of its own
}

// errSurvived is why the exit status is 1.
var errSurvived = errors.New("mutants survived")

func run(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := mutate(ctx, args, stdout, stderr)
	if err == nil {
		return 0
	}
	_, _ = fmt.Fprintf(stderr, "mutants: %v\n", err) // where else could this error be told?
	if errors.Is(err, errSurvived) {
		return 1
	}
	return 2
}

func mutate(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.SetOutput(stderr)
	from := flags.String("list", folder, "take the mutants of `folder`")
	only := flags.String("only", "", "apply the mutants whose name or rule matches `regexp`")
	some := flags.String("part", "", "apply every Nth mutant only, from the Kth on: `K/N`, such as 1/4")
	jobs := flags.Int("jobs", 2, "mutants tested at a time, each in its own copy of the module")
	timeout := flags.Duration("timeout", 2*time.Minute, "how long the tests of one mutant may take")
	write := flags.String("write", "", "write the table to `file`")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("parse flags: %w", err)
	}
	if flags.NArg() > 0 || *jobs < 1 || *write != "" && *only+*some != "" {
		return errors.New("parse flags: want no arguments, a job at least, and the whole list for -write")
	}
	pattern, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("parse flags: %w", err)
	}
	of, err := parsePart(*some)
	if err != nil {
		return fmt.Errorf("parse flags: %w", err)
	}
	all, err := LoadFrom(".", *from)
	if err != nil {
		return err
	}
	var list []Mutant
	for i, m := range all {
		if m.matches(pattern) && i%of.every == of.from {
			list = append(list, m)
		}
	}
	verdicts, err := testAll(ctx, list, *jobs, *timeout, stdout)
	if err != nil {
		return err
	}
	survived, faults := tally(verdicts)
	if _, err := fmt.Fprintf(stdout, "%d mutants, %d survived, %d at fault\n", len(list), survived, faults); err != nil {
		return fmt.Errorf("write verdicts: %w", err)
	}
	if faults > 0 {
		return fmt.Errorf("test mutants: %d of %d at fault", faults, len(list))
	}
	if survived > 0 {
		return fmt.Errorf("%w: %d of %d", errSurvived, survived, len(list))
	}
	if *write == "" {
		return nil
	}
	if err := os.WriteFile(*write, Table(*from, target(*write), list, verdicts), 0o644); err != nil { //nolint:gosec // a document
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

// tally counts the mutants that survived and those that are at fault.
func tally(verdicts []Verdict) (survived, faults int) {
	for _, v := range verdicts {
		switch {
		case v.Fault != "":
			faults++
		case !v.Caught():
			survived++
		}
	}
	return survived, faults
}

// A part is every so manieth mutant of the list.
type part struct{ from, every int }

// parsePart reads K/N; nothing is the whole list.
func parsePart(text string) (part, error) {
	if text == "" {
		return part{0, 1}, nil
	}
	first, every, ok := strings.Cut(text, "/")
	k, err := strconv.Atoi(first)
	n, err2 := strconv.Atoi(every)
	if !ok || err != nil || err2 != nil || k < 1 || k > n {
		return part{}, fmt.Errorf("-part: want K/N with K from 1 to N, such as 1/4")
	}
	return part{k - 1, n}, nil
}

// target is the make target that writes a file.
func target(file string) string { return strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)) }

// testAll tests the list, several mutants at a time.
func testAll(ctx context.Context, list []Mutant, jobs int, timeout time.Duration, stdout io.Writer) ([]Verdict, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	verdicts := make([]Verdict, len(list))
	queue := make(chan int)
	var mu sync.Mutex
	var group sync.WaitGroup
	for range jobs {
		group.Go(func() {
			err := testSome(ctx, list, queue, timeout, func(i int, v Verdict) error {
				mu.Lock()
				defer mu.Unlock()
				verdicts[i] = v
				_, err := fmt.Fprintf(stdout, "%-9s %s: %s\n", v.word(), list[i].Name, v.summary())
				return err
			})
			if err != nil {
				cancel(err)
			}
		})
	}
	for i := range list {
		select {
		case queue <- i:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(queue)
	group.Wait()
	return verdicts, context.Cause(ctx)
}

// testSome tests the mutants of the queue in a copy of its own.
func testSome(ctx context.Context, list []Mutant, queue <-chan int, timeout time.Duration, report func(int, Verdict) error) (err error) {
	c, err := newCopy(ctx, ".", timeout)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.remove()) }()
	for i := range queue {
		v, err := c.test(ctx, &list[i])
		if err != nil {
			return fmt.Errorf("test mutant %q: %w", list[i].Name, err)
		}
		if err := report(i, v); err != nil {
			return fmt.Errorf("write verdict: %w", err)
		}
	}
	return nil
}
