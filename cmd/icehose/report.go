package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"icehose/catalog"
	"icehose/reconcile"
	"icehose/reconcile/emf"
	"icehose/reconcile/job"
	"icehose/sink/iceberg"
)

// reportFlags say where the outcome of reconcile goes, besides the standard output.
type reportFlags struct {
	HTML    string `name:"html" help:"Write the report as one HTML page too, which needs no network." placeholder:"FILE"`
	EMF     string `name:"emf" help:"Append metrics to this file as lines of CloudWatch's Embedded Metric Format; /dev/stderr, say, for a container whose log becomes metrics." placeholder:"FILE"`
	Space   string `name:"metrics-namespace" default:"icehose" help:"CloudWatch namespace of the metrics." placeholder:"NAME"`
	History bool   `help:"Append the outcome to the table icehose_reconcile_runs of the lake."`
}

// A comparison is what reconcile has done, and what it did it with.
type comparison struct {
	pipeline   *catalog.Pipeline
	source     reconcile.Reader
	store      *iceberg.Store // for reading
	closeStore func() error
	report     *reconcile.Report
}

// finish prints the report, keeps it, and repairs what it found.
func (cmd *reconcileCmd) finish(ctx context.Context, env *environment, global *cli, c *comparison) error {
	if cmd.Repair != "" {
		return cmd.repair(ctx, env, global, c)
	}
	if err := writeReport(env.stdout, global.JSON, c.report); err != nil {
		return err
	}
	if err := cmd.publish(ctx, c); err != nil {
		return err
	}
	return statusOf(c.report.ExitStatus())
}

// statusOf is the error that carries an exit status.
func statusOf(status int) error {
	if status == exitSame {
		return nil
	}
	return exitError(status)
}

func writeReport(w io.Writer, asJSON bool, r *reconcile.Report) error {
	if !asJSON {
		return r.WriteText(w)
	}
	return writeIndented(w, r)
}

func writeIndented(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// checkOutputs refuses files that could not be written once the comparison, which
// may take hours, is done.
func (cmd *reconcileCmd) checkOutputs() error {
	for _, f := range []struct {
		flag, path string
		check      func(string) error
	}{
		{"--checkpoint", cmd.Checkpoint, checkReplaced},
		{"--html", cmd.HTML, checkReplaced},
		{"--emf", cmd.EMF, checkAppended},
		{"--plan", cmd.Plan, checkReplaced},
		{"--sql", cmd.SQL, checkReplaced},
	} {
		if f.path == "" {
			continue
		}
		if err := f.check(f.path); err != nil {
			if cause, ok := errors.AsType[*fs.PathError](err); ok {
				err = cause.Err
			}
			return fmt.Errorf("%s: %s cannot be written: %w: make its folder or give another file; nothing was compared", f.flag, f.path, err)
		}
	}
	return nil
}

// checkReplaced reports why a file could not be written in one step. It makes
// another one beside it for that, and removes it.
func checkReplaced(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return errors.New("it is a folder")
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// checkAppended reports why nothing could be appended to a file, or to a device.
func checkAppended(path string) error {
	info, err := os.Stat(path)
	if err != nil || info.IsDir() {
		return checkReplaced(path)
	}
	if !info.Mode().IsRegular() {
		return nil // opening a pipe waits for its reader
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// measure appends the metrics.
func (cmd *reconcileCmd) measure(c *comparison) error {
	f, err := os.OpenFile(cmd.EMF, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("write metrics: %w", err)
	}
	return errors.Join(emf.Write(f, cmd.Space, job.Database(c.pipeline), c.report.Ended, c.report), f.Close())
}

// publish appends to the history, and writes the metrics and the page. What
// fails keeps nothing else from being told.
func (cmd *reconcileCmd) publish(ctx context.Context, c *comparison) error {
	var errs []error
	remembered := false
	if cmd.History {
		var err error
		remembered, err = job.Remember(ctx, &cmd.Flags, job.Database(c.pipeline), c.report)
		errs = append(errs, err)
	}
	if cmd.EMF != "" {
		errs = append(errs, cmd.measure(c))
	}
	if cmd.HTML != "" {
		errs = append(errs, cmd.writePage(ctx, c, remembered))
	}
	return errors.Join(errs...)
}

func (cmd *reconcileCmd) writePage(ctx context.Context, c *comparison, remembered bool) error {
	page, err := job.Page(ctx, c.store.Tables(), job.Database(c.pipeline), filepath.Base(cmd.Pipeline), c.report, remembered)
	if err != nil {
		return err
	}
	write := replaceFile
	if c.report.ShowKeys {
		write = writePrivate
	}
	if err := write(cmd.HTML, page); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	return nil
}

// writePrivate writes a file with values of the source, in one step, for its
// owner alone.
func writePrivate(path string, text []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
