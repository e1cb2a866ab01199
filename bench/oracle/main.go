// Command oracle answers Firehose events for oracle.py, which compares the
// answers with its own decoding of the same records.
//
//	oracle PIPELINE EVENT RESPONSE [EVENT RESPONSE...]
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"icehose/catalog"
	"icehose/transform"
	"icehose/transform/firehose"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stderr)) //nolint:forbidigo // a program of its own
}

func run(ctx context.Context, args []string, stderr io.Writer) int {
	if err := answer(ctx, args); err != nil {
		// Where else could this error be told?
		_, _ = fmt.Fprintf(stderr, "oracle: %v\n", err)
		return 2
	}
	return 0
}

func answer(ctx context.Context, args []string) error {
	if len(args) < 3 || len(args)%2 == 0 {
		return errors.New("want a pipeline file and pairs of an event and where its response goes")
	}
	p, err := catalog.Load(args[0])
	if err != nil {
		return err
	}
	t, err := transform.New(p, transform.Options{})
	if err != nil {
		return err
	}
	h := firehose.New(t, firehose.Options{})
	for files := args[1:]; len(files) > 0; files = files[2:] {
		event, err := os.ReadFile(files[0])
		if err != nil {
			return fmt.Errorf("read event: %w", err)
		}
		response, err := h.Handle(ctx, event)
		if err != nil {
			return err
		}
		if err := os.WriteFile(files[1], response, 0o600); err != nil {
			return fmt.Errorf("write response: %w", err)
		}
	}
	return nil
}
