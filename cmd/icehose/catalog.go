package main

import (
	"encoding/json"
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
