package catalog

import (
	_ "embed"
	"slices"
)

//go:embed schema.json
var jsonSchema []byte

// JSONSchema returns the JSON Schema (draft 2020-12) of the pipeline file.
func JSONSchema() []byte { return slices.Clone(jsonSchema) }
