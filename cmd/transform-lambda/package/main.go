// Command package writes the zip that a Lambda function is deployed from:
// the program as bootstrap, and files beside it, such as pipeline.yaml.
//
//	package -out dist/transform-lambda-arm64.zip -bootstrap BINARY [FILE...]
//
// The same input gives the same bytes: order, times and modes are fixed.
package main

import (
	"archive/zip"
	"cmp"
	"compress/flate"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// bootstrap is the name that the provided.al2023 runtime starts.
const bootstrap = "bootstrap"

func main() {
	os.Exit(run(os.Args[1:], os.Stderr))
}

func run(args []string, stderr io.Writer) int {
	flags := flag.NewFlagSet("package", flag.ContinueOnError)
	flags.SetOutput(stderr)
	out := flags.String("out", "", "the zip to write")
	program := flags.String("bootstrap", "", "the program")
	if flags.Parse(args) != nil {
		return 2
	}
	if err := write(*out, *program, flags.Args()); err != nil {
		// Where else could this error be told?
		_, _ = fmt.Fprintf(stderr, "package: %v\n", err)
		return 2
	}
	return 0
}

// write puts the zip beside its place first, so that none is ever half there.
func write(out, program string, files []string) error {
	if out == "" || program == "" {
		return errors.New("want -out and -bootstrap")
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return fmt.Errorf("write zip: %w", err)
	}
	f, err := os.Create(out + ".tmp")
	if err != nil {
		return fmt.Errorf("write zip: %w", err)
	}
	z := zip.NewWriter(f)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestCompression) })
	err = add(z, bootstrap, program, 0o755)
	slices.SortFunc(files, func(a, b string) int { return cmp.Compare(filepath.Base(a), filepath.Base(b)) })
	for _, file := range files {
		if err == nil {
			err = add(z, filepath.Base(file), file, 0o644)
		}
	}
	if err = errors.Join(err, z.Close(), f.Close()); err != nil {
		return fmt.Errorf("write zip: %w", err)
	}
	if err := os.Rename(f.Name(), out); err != nil {
		return fmt.Errorf("write zip: %w", err)
	}
	return nil
}

func add(z *zip.Writer, name, file string, mode fs.FileMode) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	header := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: time.Date(1980, time.January, 1, 0, 0, 0, 0, time.UTC)}
	header.SetMode(mode)
	w, err := z.CreateHeader(header)
	if err == nil {
		_, err = io.Copy(w, in)
	}
	return errors.Join(err, in.Close())
}
