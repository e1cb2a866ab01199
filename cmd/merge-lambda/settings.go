package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"

	"icehose/catalog/iceberg/remote"
	"icehose/internal/lakeplace"
	"icehose/internal/pipelinefile"
)

// settings are what the environment says.
type settings struct {
	pipeline  pipelinefile.Place
	lake      lakeplace.Flags
	workgroup string
	output    string // empty when the workgroup has one
	level     slog.Level
	namespace string // of the metrics; empty for none
	lambda    bool   // Lambda runs the program
}

const (
	variablePrefix    = "ICEHOSE_"
	variablePipeline  = variablePrefix + "PIPELINE"
	variableWarehouse = variablePrefix + "WAREHOUSE"
	variableProp      = variablePrefix + "PROP"
	variableWorkgroup = variablePrefix + "WORKGROUP"
	variableOutput    = variablePrefix + "OUTPUT"
	variableLevel     = variablePrefix + "LOG_LEVEL"
	variableNamespace = variablePrefix + "METRICS_NAMESPACE"
	// runtimeVariable is set where Lambda runs the program.
	runtimeVariable = "AWS_LAMBDA_RUNTIME_API"
)

// parseSettings reads name=value pairs.
func parseSettings(environ []string) (*settings, error) {
	s := &settings{lake: lakeplace.Flags{Catalog: remote.Glue, Prop: map[string]string{}}, namespace: "icehose"}
	location := "pipeline.yaml"
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		var err error
		switch name {
		case variablePipeline:
			location = value
		case variableWarehouse:
			s.lake.Warehouse = value
		case variableProp:
			err = s.properties(value)
		case variableWorkgroup:
			s.workgroup = value
		case variableOutput:
			s.output = value
		case variableLevel:
			err = s.level.UnmarshalText([]byte(value))
		case variableNamespace:
			s.namespace = value
		case runtimeVariable:
			s.lambda = value != ""
		default:
			if strings.HasPrefix(name, variablePrefix) {
				return nil, fmt.Errorf("read environment: %s: no such setting", name)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("read environment: %s: %w", name, err)
		}
	}
	var err error
	if s.pipeline, err = pipelinefile.Locate(location, ""); err != nil {
		return nil, fmt.Errorf("read environment: %s: %w", variablePipeline, err)
	}
	if !strings.Contains(s.lake.Warehouse, "://") {
		return nil, fmt.Errorf("read environment: %s: want a URI such as s3://my-lake/warehouse, got %q", variableWarehouse, s.lake.Warehouse)
	}
	return s, nil
}

// properties reads name=value;name=value, which may be secrets: no error quotes it.
func (s *settings) properties(value string) error {
	for pair := range strings.SplitSeq(value, ";") {
		name, value, ok := strings.Cut(pair, "=")
		switch {
		case pair == "":
		case !ok || name == "":
			return fmt.Errorf("want name=value;name=value")
		default:
			s.lake.Prop[name] = value
		}
	}
	return nil
}

// An event says what one invocation merges.
type event struct {
	Tables []string `json:"tables"` // of the source, as schema.table; none: every changelog
}

func parseEvent(text []byte) (e event, err error) {
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&e); err != nil {
		return e, fmt.Errorf(`read event: want {"tables":["schema.table"]}: %w`, err)
	}
	return e, nil
}
