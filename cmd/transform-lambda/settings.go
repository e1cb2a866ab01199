package main

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"icehose/catalog"
	"icehose/internal/pipelinefile"
	"icehose/transform"
)

// settings are what the environment says.
type settings struct {
	pipeline  pipelinefile.Place
	refresh   time.Duration
	options   transform.Options
	level     slog.Level
	namespace string // empty for no metrics

	// What Lambda itself sets, for S3.
	region, endpoint         string
	accessKey, secret, token string
}

const (
	variablePrefix    = "ICEHOSE_"
	defaultPipeline   = "pipeline.yaml"
	defaultRefresh    = 5 * time.Minute
	defaultNamespace  = "icehose"
	variablePipeline  = variablePrefix + "PIPELINE"
	variableRefresh   = variablePrefix + "PIPELINE_REFRESH"
	variableOnly      = variablePrefix + "ONLY"
	variableMode      = variablePrefix + "MODE"
	variableDatabase  = variablePrefix + "DATABASE"
	variableSuffix    = variablePrefix + "SUFFIX"
	variableBinary    = variablePrefix + "BINARY"
	variableLevel     = variablePrefix + "LOG_LEVEL"
	variableNamespace = variablePrefix + "METRICS_NAMESPACE"
)

// parseSettings reads name=value pairs. program is the path of the binary.
func parseSettings(environ []string, program string) (settings, error) {
	s := settings{refresh: defaultRefresh, namespace: defaultNamespace}
	location := defaultPipeline
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		var err error
		switch name {
		case variablePipeline:
			location = value
		case variableRefresh:
			s.refresh, err = parseRefresh(value)
		case variableOnly:
			s.options.Only, err = parseMode(value)
		case variableMode:
			s.options.Mode, err = parseMode(value)
		case variableDatabase:
			s.options.Database = value
		case variableSuffix:
			s.options.Suffix = value
		case variableBinary:
			s.options.Binary, err = transform.ParseBinaryForm(value)
		case variableLevel:
			err = s.level.UnmarshalText([]byte(value))
		case variableNamespace:
			s.namespace = value
		default:
			if strings.HasPrefix(name, variablePrefix) {
				return settings{}, fmt.Errorf("read environment: %s: no such setting", name)
			}
			s.amazon(name, value)
		}
		if err != nil {
			return settings{}, fmt.Errorf("read environment: %s: %w", name, err)
		}
	}
	var err error
	if s.pipeline, err = pipelinefile.Locate(location, filepath.Dir(program)); err != nil {
		return settings{}, fmt.Errorf("read environment: %s: %w", variablePipeline, err)
	}
	return s, nil
}

// amazon notes the variables that Lambda sets.
func (s *settings) amazon(name, value string) {
	switch name {
	case "AWS_REGION":
		s.region = value
	case "AWS_ENDPOINT_URL_S3":
		s.endpoint = value
	case "AWS_ACCESS_KEY_ID":
		s.accessKey = value
	case "AWS_SECRET_ACCESS_KEY":
		s.secret = value
	case "AWS_SESSION_TOKEN":
		s.token = value
	}
}

func parseRefresh(value string) (time.Duration, error) {
	d, err := time.ParseDuration(value)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("want a time such as 5m, got %q", value)
	}
	return d, nil
}

func parseMode(value string) (catalog.Mode, error) {
	switch mode := catalog.Mode(value); mode {
	case "", catalog.Mirror, catalog.Changelog:
		return mode, nil
	}
	return "", fmt.Errorf("want mirror or changelog, got %q", value)
}
