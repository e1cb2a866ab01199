package catalog_test

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"icehose/catalog"
)

// A generator makes the JSON Schema of a struct, with descriptions from the
// comments of its source and closed lists from its constants.
type generator struct {
	t     *testing.T
	docs  map[string]string   // "Type.Field" -> comment
	words map[string][]string // type -> its string constants, in order
	defs  map[string]any
}

// patterns narrow texts that have a form of their own, by "Type.yaml_name".
var patterns = map[string]string{
	"Pipeline.database": `^[a-z_][a-z0-9_]*$`,
	"Source.position":   `^(postgres|mysql|sqlserver|oracle|none|column:.+)$`,
	"Table.source":      `^[^.]+\..+$`,
	"Table.position":    `^(postgres|mysql|sqlserver|oracle|none|column:.+)$`,
	"Column.name":       `^[a-z_][a-z0-9_]*$`,
	"Table.partition":   `^(([a-z_][a-z0-9_]*)|(year|month|day|hour)\( *[a-z_][a-z0-9_]* *\)|(bucket|truncate)\( *[0-9]+ *, *[a-z_][a-z0-9_]* *\))$`,
	"Column.type":       `^(boolean|int|long|float|double|date|time|timestamp|timestamptz|string|uuid|binary|fixed\[[1-9][0-9]*\]|decimal\( *[1-9][0-9]? *, *[0-9][0-9]? *\))$`,
}

func newGenerator(t *testing.T) *generator {
	t.Helper()
	g := &generator{t: t, docs: make(map[string]string), words: make(map[string][]string), defs: make(map[string]any)}
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	files := token.NewFileSet()
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(files, path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if decl, ok := d.(*ast.GenDecl); ok {
				g.read(decl)
			}
		}
	}
	return g
}

func (g *generator) read(decl *ast.GenDecl) {
	for _, spec := range decl.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			s, ok := spec.Type.(*ast.StructType)
			if !ok {
				continue
			}
			for _, f := range s.Fields.List {
				for _, name := range f.Names {
					text := f.Doc.Text() + " " + f.Comment.Text()
					g.docs[spec.Name.Name+"."+name.Name] = strings.Join(strings.Fields(text), " ")
				}
			}
		case *ast.ValueSpec:
			name, ok := spec.Type.(*ast.Ident)
			if !ok || len(spec.Values) != 1 {
				continue
			}
			if lit, ok := spec.Values[0].(*ast.BasicLit); ok && lit.Kind == token.STRING && spec.Names[0].Name != "DMS" {
				text, err := strconv.Unquote(lit.Value)
				if err != nil {
					g.t.Fatal(err)
				}
				g.words[name.Name] = append(g.words[name.Name], text)
			}
		}
	}
}

func (g *generator) schema(typ reflect.Type) map[string]any {
	switch {
	case typ == reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}
	case typ == reflect.TypeFor[catalog.Literal]():
		return map[string]any{"type": []string{"string", "number", "boolean"}}
	case typ.Name() == "digitText":
		return map[string]any{"type": []string{"string", "integer"}}
	}
	switch typ.Kind() { //nolint:exhaustive // the file has no other kinds; a new one fails the test
	case reflect.Pointer:
		return g.schema(typ.Elem())
	case reflect.Slice:
		return map[string]any{"type": "array", "items": g.schema(typ.Elem())}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int:
		return map[string]any{"type": "integer"}
	case reflect.Uint16:
		return map[string]any{"type": "integer", "minimum": 0, "maximum": 65535}
	case reflect.String:
		if words := g.words[typ.Name()]; len(words) > 0 {
			return map[string]any{"enum": words}
		}
		return map[string]any{"type": "string"}
	case reflect.Struct:
		g.define(typ)
		return map[string]any{"$ref": "#/$defs/" + typ.Name()}
	}
	g.t.Fatalf("no schema for %s", typ)
	return nil
}

func (g *generator) define(typ reflect.Type) {
	if _, ok := g.defs[typ.Name()]; ok {
		return
	}
	properties := make(map[string]any)
	def := map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
	g.defs[typ.Name()] = def
	var required []string
	for field := range typ.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		if !field.IsExported() || name == "-" || name == "" {
			continue
		}
		s := g.schema(field.Type)
		if doc := g.docs[typ.Name()+"."+field.Name]; doc != "" {
			s["description"] = doc
		}
		if p := patterns[typ.Name()+"."+name]; p != "" {
			if items, ok := s["items"].(map[string]any); ok {
				items["pattern"] = p
			} else {
				s["pattern"] = p
			}
		}
		if options != "omitempty" {
			required = append(required, name)
		}
		properties[name] = s
	}
	slices.Sort(required)
	def["required"] = required
}

// schema.json is what the structs of the pipeline file say.
func TestJSONSchemaGolden(t *testing.T) {
	g := newGenerator(t)
	root := g.schema(reflect.TypeFor[catalog.Pipeline]())
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "icehose pipeline file"
	root["$defs"] = g.defs
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(root); err != nil {
		t.Fatal(err)
	}
	golden(t, "schema.json", b.Bytes())
}

func compile(t *testing.T) *jsonschema.Schema {
	t.Helper()
	// The file, not what is compiled in: with -update it has just been written.
	text, err := os.ReadFile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("pipeline.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("pipeline.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func instance(t *testing.T, text string) any {
	t.Helper()
	j, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(j))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// The schema and the loader agree: on every pipeline file of this repository,
// and on files that are wrong in a way that a schema can say.
func TestJSONSchemaAgreesWithTheLoader(t *testing.T) {
	schema := compile(t)
	files := 0
	err := filepath.WalkDir("../testdata", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if _, err := catalog.Parse(path, text); err != nil {
			return nil //nolint:nilerr // not a pipeline file
		}
		files++
		if err := schema.Validate(instance(t, string(text))); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 3 {
		t.Errorf("only %d pipeline files found", files)
	}
	full := minimal + `      - {name: a, source: A, type: "decimal(4,2)", source_type: "numeric(4,2)", may_be_unchanged: true, not_null: true, allow_lossy: [round, "null"], loses: [round], default: 5.00}
    loads: [{floor: 00000000000000000000000000000010, since: 2026-01-01T00:00:00Z}]
epochs: [{epoch: 1, since: 2026-01-01T00:00:00Z}]
exclude: [a.b%]
`
	for name, edit := range map[string]func(string) string{
		"nothing":        func(s string) string { return s },
		"unknown key":    func(s string) string { return s + "more: 1\n" },
		"wrong mode":     func(s string) string { return strings.Replace(s, "mode: mirror", "mode: miror", 1) },
		"no mode":        func(s string) string { return strings.Replace(s, "    mode: mirror\n", "", 1) },
		"wrong engine":   func(s string) string { return strings.Replace(s, "postgresql", "dms", 1) },
		"wrong type":     func(s string) string { return strings.Replace(s, "type: long", "type: bigint", 1) },
		"wrong name":     func(s string) string { return strings.Replace(s, "name: id", "name: Id", 1) },
		"wrong loss":     func(s string) string { return strings.Replace(s, "loses: [round]", "loses: [all]", 1) },
		"wrong position": func(s string) string { return strings.Replace(s, "position: postgres", "position: lsn", 1) },
		"no schema":      func(s string) string { return strings.Replace(s, "public.Orders", "Orders", 1) },
	} {
		text := edit(full)
		if (text == full) != (name == "nothing") {
			t.Fatalf("%s: the edit does nothing", name)
		}
		_, loaded := catalog.Parse("f", []byte(text))
		validated := schema.Validate(instance(t, text))
		if (loaded == nil) != (validated == nil) || (loaded == nil) != (name == "nothing") {
			t.Errorf("%s: loader says %v, schema says %v", name, loaded, validated)
		}
	}
}
