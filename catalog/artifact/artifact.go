// Package artifact turns a pipeline file into every definition that the
// pipeline needs elsewhere: Iceberg schemas, Glue and CloudFormation tables,
// Athena and Spark SQL, Firehose's table list, DMS mappings and settings.
//
// In comes a checked catalog.Pipeline; out go files, as relative paths and
// bytes. It is pure and byte-stable: the same pipeline and options give the
// same bytes. The only thing that it takes over from an earlier run is the text
// of CloudFormation tables that exist already, because CloudFormation must
// never update an Iceberg table.
//
// It promises nothing about real tables: an Iceberg schema here is that of a
// table created now, and the field ids of a table that was evolved are its own.
// catalog/iceberg creates and evolves tables.
package artifact

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"icehose/catalog"
)

// DefaultWarehouse stands in the artifacts when no warehouse is named. No
// bucket can have this name, so nothing is created in a wrong place.
const DefaultWarehouse = "s3://WAREHOUSE"

// warehouse is a URI that can stand in SQL, JSON and YAML as it is.
var warehouse = regexp.MustCompile(`^[a-z][a-z0-9+.-]*://[A-Za-z0-9._~/@:+=-]+$`)

// Options are the settings of Generate.
type Options struct {
	// Warehouse is the URI below which tables lie, as database/table; default
	// DefaultWarehouse.
	Warehouse string
	// Stack is the CloudFormation fragment that an earlier run made, if any:
	// the tables in it keep their text.
	Stack []byte
}

// A File is one artifact.
type File struct {
	Path string // relative, with slashes
	Data []byte
}

// A Result is what Generate makes of a pipeline.
type Result struct {
	Files []File // sorted by path
	// Notes say what an engine or service cannot do with a table, one line each.
	Notes []string
}

// A generator collects the files of one run.
type generator struct {
	pipeline *catalog.Pipeline
	options  Options
	result   Result
}

// Generate returns all artifacts of a pipeline. It refuses one whose columns
// lose values in a way that the file does not allow (*LossError), one whose
// mirrors list no readers, and one whose generated names meet the names of its
// tables.
func Generate(p *catalog.Pipeline, o Options) (*Result, error) {
	o.Warehouse = strings.TrimRight(cmp.Or(o.Warehouse, DefaultWarehouse), "/")
	if !warehouse.MatchString(o.Warehouse) {
		return nil, fmt.Errorf("generate: warehouse: want a URI such as s3://my-lake/warehouse, got %q", o.Warehouse)
	}
	if err := checkLosses(p); err != nil {
		return nil, err
	}
	if err := checkReaders(p); err != nil {
		return nil, err
	}
	if err := checkNames(p); err != nil {
		return nil, err
	}
	g := &generator{pipeline: p, options: o}
	for _, t := range p.Tables {
		if err := g.table(t); err != nil {
			return nil, fmt.Errorf("generate %s.%s: %w", t.Database(), t.Name(), err)
		}
	}
	if err := g.cloudFormation(); err != nil {
		return nil, err
	}
	if err := g.firehose(); err != nil {
		return nil, err
	}
	if err := g.dms(); err != nil {
		return nil, err
	}
	slices.SortFunc(g.result.Files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	return &g.result, nil
}

// table makes the files that belong to one table.
func (g *generator) table(t *catalog.Table) error {
	s := schemaOf(t)
	if err := g.json("iceberg/"+fileName(t)+".schema.json", s); err != nil {
		return err
	}
	if spec := partitionSpecOf(t, s); spec != nil {
		if err := g.json("iceberg/"+fileName(t)+".partition-spec.json", spec); err != nil {
			return err
		}
	}
	if err := g.json("glue/"+fileName(t)+".json", g.createTable(t)); err != nil {
		return err
	}
	for _, d := range []Dialect{Athena, Spark} {
		if err := g.sql(d, t); err != nil {
			return err
		}
	}
	return nil
}

func fileName(t *catalog.Table) string { return t.Database() + "." + t.Name() }

func (g *generator) add(path string, data []byte) {
	g.result.Files = append(g.result.Files, File{Path: path, Data: data})
}

func (g *generator) note(t *catalog.Table, format string, args ...any) {
	g.result.Notes = append(g.result.Notes, fileName(t)+": "+fmt.Sprintf(format, args...))
}

func (g *generator) json(path string, v any) error {
	data, err := marshal(v)
	if err != nil {
		return err
	}
	g.add(path, data)
	return nil
}

// marshal renders v indented, with < and > as they are.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode artifact: %w", err)
	}
	return b.Bytes(), nil
}

// location is where the table's files go.
func (g *generator) location(name string) string { return g.options.Warehouse + "/" + name }

func tableLocation(t *catalog.Table) string { return t.Database() + "/" + t.Name() }

// checkReaders refuses mirrors that do not say who reads them: how their deletes
// are written is chosen by it.
func checkReaders(p *catalog.Pipeline) error {
	var errs []error
	for _, t := range p.Tables {
		if len(t.UniqueKeys()) > 0 && len(t.Readers) == 0 {
			errs = append(errs, fmt.Errorf("generate %s: a mirror lists the engines that read it, in its readers: or in that of the file; want any of %s",
				t.Source, join(catalog.Readers())))
		}
	}
	return errors.Join(errs...)
}

func join[T ~string](words []T) string {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = string(w)
	}
	return strings.Join(texts, ", ")
}

// checkNames refuses generated names that are already a table's.
func checkNames(p *catalog.Pipeline) error {
	for _, t := range p.Tables {
		for _, suffix := range catalog.GeneratedSuffixes() {
			if name := t.Name() + suffix; p.ByTarget(t.Database(), name) != nil {
				return fmt.Errorf("generate %s: table %s.%s has the name that a view or the folded table of it would have: give it another target",
					fileName(t), t.Database(), name)
			}
		}
	}
	return nil
}
