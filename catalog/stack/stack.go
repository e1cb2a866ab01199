// Package stack fills the CloudFormation templates of this project from a
// pipeline file: the tables and unique keys of the delivery streams, the DMS
// mapping and settings, alarms and maintenance of every table, and the parent
// that nests the stacks.
//
// In come a checked catalog.Pipeline, the templates (package cloudformation) and
// what an earlier run wrote; out go templates as files. It is pure and
// byte-stable. Which of several nested stacks a table's resources are in never
// changes once it was decided: CloudFormation would delete them in one stack and
// create them in another at the same time.
//
// Compare says what an update would do to what is deployed, as far as templates
// show it; Parameters checks values for the parent's parameters. Neither
// replaces a look at the change set.
package stack

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"icehose/catalog"
	"icehose/catalog/artifact"
)

// A TableOwner says who creates the tables of the lake.
type TableOwner string

// The owners.
const (
	// Apply leaves tables and databases to icehose catalog apply.
	Apply TableOwner = "apply"
	// Stack creates them in nested stacks, once; apply evolves them.
	Stack TableOwner = "stack"
)

// Options are the settings of Generate.
type Options struct {
	// Templates holds the templates to fill.
	Templates fs.FS
	// Tables is who creates the tables; default Apply.
	Tables TableOwner
	// HistorySuffix, when it is not empty, adds a delivery stream that appends
	// the changes of mirrors to tables with this at the end of their names.
	HistorySuffix string
	// Before is what an earlier run wrote, by path.
	Before map[string][]byte
}

// A Result is what Generate makes of a pipeline.
type Result struct {
	Files []artifact.File // sorted by path
	Notes []string        // what a person should know, one line each
}

// The roles of delivery streams, which are a parameter of delivery.yaml.
const (
	roleMirror    = "mirror"
	roleChangelog = "changelog"
	roleHistory   = "history"
)

// A delivery is one delivery stream of the pipeline.
type delivery struct {
	role   string
	tables []*catalog.Table
	// artifacts of its tables, by path.
	artifacts map[string][]byte
}

// title is the role as a part of logical ids.
func (d *delivery) title() string { return strings.ToUpper(d.role[:1]) + d.role[1:] }

// A generator collects the files of one run.
type generator struct {
	pipeline   *catalog.Pipeline
	options    Options
	deliveries []*delivery
	artifacts  map[string][]byte // of the pipeline as the file has it
	databases  []string          // of all delivered tables
	result     Result
}

var historySuffix = regexp.MustCompile(`^_[a-z0-9_]{1,40}$`)

// Generate returns the templates of a pipeline. It refuses what artifact.Generate
// refuses, and what CloudFormation would: a template beyond its limits.
func Generate(p *catalog.Pipeline, o Options) (*Result, error) {
	o.Tables = cmp.Or(o.Tables, Apply)
	switch {
	case o.Tables != Apply && o.Tables != Stack:
		return nil, fmt.Errorf("generate stacks: tables: want %s or %s, got %q", Apply, Stack, o.Tables)
	case o.HistorySuffix != "" && !historySuffix.MatchString(o.HistorySuffix):
		return nil, fmt.Errorf("generate stacks: history suffix: want _ and up to 40 lower-case letters, digits and underscores, got %q", o.HistorySuffix)
	case len(p.Tables) == 0:
		return nil, errors.New("generate stacks: the pipeline file has no tables")
	}
	g := &generator{pipeline: p, options: o}
	if err := g.plan(); err != nil {
		return nil, err
	}
	for _, step := range []func() error{g.copies, g.lake, g.delivery, g.migration, g.reconcile, g.maintenance, g.merge, g.alarms, g.parent} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(g.result.Files, func(a, b artifact.File) int { return cmp.Compare(a.Path, b.Path) })
	return &g.result, g.checkLimits()
}

// plan decides which delivery streams there are.
func (g *generator) plan() error {
	var err error
	if g.artifacts, err = artifactsOf(g.pipeline, nil); err != nil {
		return err
	}
	streams := []struct {
		role string
		catalog.Delivery
	}{
		{roleMirror, catalog.Delivery{Only: catalog.Mirror}},
		{roleChangelog, catalog.Delivery{Only: catalog.Changelog}},
	}
	if g.options.HistorySuffix != "" {
		streams = append(streams, struct {
			role string
			catalog.Delivery
		}{roleHistory, catalog.Delivery{Only: catalog.Mirror, Mode: catalog.Changelog, Suffix: g.options.HistorySuffix}})
	}
	kept, err := g.lakeBefore()
	if err != nil {
		return err
	}
	for _, s := range streams {
		p, err := g.pipeline.For(s.Delivery)
		if err != nil {
			return fmt.Errorf("generate stacks: %w", err)
		}
		if len(p.Tables) == 0 {
			continue
		}
		for _, t := range p.Tables {
			if s.role == roleHistory && g.pipeline.ByTarget(t.Database(), t.Name()) != nil {
				return fmt.Errorf("generate stacks: the history of %s would be %s.%s, which is a table of the pipeline file: choose another suffix",
					t.Source, t.Database(), t.Name())
			}
			g.databases = append(g.databases, t.Database())
		}
		files, err := artifactsOf(p, kept)
		if err != nil {
			return err
		}
		g.deliveries = append(g.deliveries, &delivery{role: s.role, tables: p.Tables, artifacts: files})
	}
	slices.Sort(g.databases)
	g.databases = slices.Compact(g.databases)
	return nil
}

func artifactsOf(p *catalog.Pipeline, stack []byte) (map[string][]byte, error) {
	made, err := artifact.Generate(p, artifact.Options{Stack: stack})
	if err != nil {
		return nil, err
	}
	files := make(map[string][]byte, len(made.Files))
	for _, f := range made.Files {
		files[f.Path] = f.Data
	}
	return files, nil
}

// copies are the templates that nothing of the pipeline goes into.
func (g *generator) copies() error {
	for _, name := range []string{"stream.yaml", "observability.yaml", "delivery-alarms.yaml", "stack-policy.json"} {
		data, err := fs.ReadFile(g.options.Templates, name)
		if err != nil {
			return fmt.Errorf("read template: %w", err)
		}
		g.add(name, data)
	}
	return nil
}

func (g *generator) add(path string, data []byte) {
	g.result.Files = append(g.result.Files, artifact.File{Path: path, Data: data})
}

func (g *generator) note(format string, args ...any) {
	g.result.Notes = append(g.result.Notes, fmt.Sprintf(format, args...))
}

// fill fills a template and adds it as a file.
func (g *generator) fill(template, path string, regions map[string]string) error {
	data, err := fs.ReadFile(g.options.Templates, template)
	if err != nil {
		return fmt.Errorf("read template: %w", err)
	}
	text, err := fill(string(data), regions)
	if err != nil {
		return fmt.Errorf("fill template %s: %w", template, err)
	}
	g.add(path, []byte(text))
	return nil
}

// delivery makes the stack of each delivery stream.
func (g *generator) delivery() error {
	for _, d := range g.deliveries {
		var list []struct {
			Database   string   `json:"DestinationDatabaseName"`
			Table      string   `json:"DestinationTableName"`
			UniqueKeys []string `json:"UniqueKeys"`
		}
		if err := json.Unmarshal(d.artifacts["firehose/destination-tables.json"], &list); err != nil {
			return fmt.Errorf("read destination tables: %w", err)
		}
		var b bytes.Buffer
		b.WriteString("        DestinationTableConfigurationList:\n")
		var databases []string
		for _, t := range list {
			fmt.Fprintf(&b, "          - DestinationDatabaseName: %s\n            DestinationTableName: %s\n", quote(t.Database), quote(t.Table))
			if len(t.UniqueKeys) > 0 {
				keys := make([]string, len(t.UniqueKeys))
				for i, k := range t.UniqueKeys {
					keys[i] = quote(k)
				}
				fmt.Fprintf(&b, "            UniqueKeys: [%s]\n", strings.Join(keys, ", "))
			}
			fmt.Fprintf(&b, "            S3ErrorOutputPrefix: %s\n", quote("tables/"+t.Database+"."+t.Table+"/"))
			databases = append(databases, t.Database)
		}
		slices.Sort(databases)
		err := g.fill("delivery.yaml", "delivery-"+d.role+".yaml", map[string]string{
			"database": "", "glue-resources": glueResources(14, slices.Compact(databases)), "destination-tables": b.String(),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// glueResources names databases and their tables in a policy.
func glueResources(indent int, databases []string) string {
	var b strings.Builder
	for _, database := range databases {
		for _, resource := range []string{"database/" + database, "table/" + database + "/*"} {
			fmt.Fprintf(&b, "%*s- !Sub \"arn:${AWS::Partition}:glue:${AWS::Region}:${AWS::AccountId}:%s\"\n", indent, "", resource)
		}
	}
	return b.String()
}

func (g *generator) reconcile() error {
	return g.fill("reconcile.yaml", "reconcile.yaml", map[string]string{"database": "", "glue-resources": glueResources(18, g.databases)})
}

// migration puts the DMS artifacts into both kinds of task.
func (g *generator) migration() error {
	var mapping struct {
		Rules []json.RawMessage `json:"rules"`
	}
	if err := json.Unmarshal(g.artifacts["dms/table-mappings.json"], &mapping); err != nil {
		return fmt.Errorf("read table mapping: %w", err)
	}
	var target struct {
		Kinesis struct {
			Nulls bool `json:"IncludeNullAndEmpty"`
		} `json:"KinesisSettings"`
	}
	if err := json.Unmarshal(g.artifacts["dms/target-endpoint.json"], &target); err != nil {
		return fmt.Errorf("read target endpoint: %w", err)
	}
	settings, err := oneLine(g.artifacts["dms/task-settings.json"])
	if err != nil {
		return err
	}
	rules := make([]string, len(mapping.Rules))
	for i, rule := range mapping.Rules {
		if rules[i], err = oneLine(rule); err != nil {
			return err
		}
	}
	const indent = "        "
	tables := "      TableMappings: |\n" + indent + `{"rules":[` + "\n" + indent + strings.Join(rules, ",\n"+indent) + "\n" + indent + "]}\n"
	return g.fill("migration.yaml", "migration.yaml", map[string]string{
		"table":      "",
		"nulls":      fmt.Sprintf("        IncludeNullAndEmpty: %t\n", target.Kinesis.Nulls),
		"task":       tables + "      ReplicationTaskSettings: |\n" + indent + settings + "\n",
		"serverless": tables + "      ReplicationSettings: |\n" + indent + settings + "\n",
	})
}
