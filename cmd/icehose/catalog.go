package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// catalogCmd is everything that has to do with the pipeline file.
type catalogCmd struct {
	Discover catalogDiscoverCmd `cmd:"" help:"Write or update the pipeline file from a live source, a schema dump or control records."`
	Diff     catalogDiffCmd     `cmd:"" help:"Show how a source schema differs from the pipeline file, and what becomes of records meanwhile."`
	Schema   catalogSchemaCmd   `cmd:"" help:"Print the JSON Schema of the pipeline file."`
	Generate catalogGenerateCmd `cmd:"" help:"Write every definition that follows from the pipeline file: Iceberg, Glue, CloudFormation, Athena, Spark, Firehose, DMS."`
	Plan     catalogPlanCmd     `cmd:"" help:"Show how the real tables differ from the pipeline file."`
	Apply    catalogApplyCmd    `cmd:"" help:"Create and evolve the real tables as the pipeline file says."`
	Drift    catalogDriftCmd    `cmd:"" help:"Show how a deployed delivery stream and Glue differ from the pipeline file."`
}

// printJSON prints a command's result on one line.
func printJSON(w io.Writer, v any) error {
	if err := json.NewEncoder(w).Encode(v); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}

// printPartJSON prints a command's result, an object, on one line, and with it
// what kept the command from doing more; nil for nothing. The error that it returns
// has been told.
func printPartJSON(w io.Writer, v any, failed error) error {
	if failed == nil {
		return printJSON(w, v)
	}
	result, err := json.Marshal(v)
	if err != nil {
		return errors.Join(fmt.Errorf("write result: %w", err), failed)
	}
	reason, err := json.Marshal(map[string]string{"error": told(failed).Error()})
	if err != nil {
		return errors.Join(fmt.Errorf("write result: %w", err), failed)
	}
	line := append(append(bytes.TrimSuffix(result, []byte("}")), ','), append(reason[1:], '\n')...)
	if _, err := w.Write(line); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return exitError(exitTrouble)
}
