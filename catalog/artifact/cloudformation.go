package artifact

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"icehose/catalog"
)

// StackFile is the path of the CloudFormation fragment among the artifacts.
const StackFile = "cloudformation/tables.yaml"

// CloudFormation's limits of a template: its resources, and its bytes when it
// lies in S3.
const (
	maxResources = 500
	maxTemplate  = 1 << 20
)

const stackHead = `# Made by icehose catalog generate. CloudFormation creates the tables named here
# and must never update them: an update of an Iceberg table through
# AWS::Glue::Table strips its table_type and metadata_location, after which
# Athena and Firehose fail on it. Therefore
#   - the text of a table that is already here is kept, whatever the pipeline
#     file says now: icehose catalog apply owns the evolution of tables;
#   - every table is retained when it leaves the stack, and stack-policy.json
#     denies updates of tables (aws cloudformation set-stack-policy).
# The databases must exist. A delivery stream must depend on the tables, since
# Firehose looks for them when it is created.
AWSTemplateFormatVersion: "2010-09-09"
Description: Iceberg tables of an icehose pipeline, create-only
Parameters:
  Warehouse:
    Type: String
    Description: URI below which the tables lie, without a slash at the end
    AllowedPattern: "^s3://[a-z0-9][a-z0-9.-]+(/.+[^/])?$"
Resources:
`

// stackPolicy protects the tables from updates of the stack.
const stackPolicy = `{
  "Statement": [
    {
      "Effect": "Allow",
      "Action": "Update:*",
      "Principal": "*",
      "Resource": "*"
    },
    {
      "Effect": "Deny",
      "Action": ["Update:Modify", "Update:Replace"],
      "Principal": "*",
      "Resource": "*",
      "Condition": {
        "StringEquals": {
          "ResourceType": [
            "AWS::Glue::Table"
          ]
        }
      }
    }
  ]
}
`

// cloudFormation makes the fragment that creates the tables.
func (g *generator) cloudFormation() error {
	kept, err := tablesOf(g.options.Stack)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	b.WriteString(stackHead)
	for _, t := range g.pipeline.Tables {
		id := logicalID(t)
		if text, ok := kept[id]; ok {
			b.WriteString(text)
			continue
		}
		g.stackTable(&b, id, t)
	}
	g.add(StackFile, b.Bytes())
	g.add("cloudformation/stack-policy.json", []byte(stackPolicy))
	if n := len(g.pipeline.Tables); n > maxResources || b.Len() > maxTemplate {
		g.result.Notes = append(g.result.Notes, fmt.Sprintf("%s: %d tables in %d KB, and CloudFormation takes %d in %d: create them with icehose catalog apply",
			StackFile, n, b.Len()>>10, maxResources, maxTemplate>>10))
	}
	return nil
}

func (g *generator) stackTable(b *bytes.Buffer, id string, t *catalog.Table) {
	s := schemaOf(t)
	fmt.Fprintf(b, `  %s:
    Type: AWS::Glue::Table
    DeletionPolicy: Retain
    UpdateReplacePolicy: Retain
    Properties:
      CatalogId: !Ref AWS::AccountId
      DatabaseName: %q
      Name: %q
      OpenTableFormatInput:
        IcebergInput:
          MetadataOperation: CREATE
          Version: "2"
          IcebergTableInput:
            Location: !Sub "${Warehouse}/%s"
            Schema:
              SchemaId: %d
              Type: %s
`, id, t.Database(), t.Name(), tableLocation(t), s.SchemaID, s.Type)
	if len(s.IdentifierFields) > 0 {
		fmt.Fprintf(b, "              IdentifierFieldIds: [%s]\n", strings.Trim(strings.Join(strings.Fields(fmt.Sprint(s.IdentifierFields)), ", "), "[]"))
	}
	b.WriteString("              Fields:\n")
	for _, f := range s.Fields {
		fmt.Fprintf(b, "                - {Id: %d, Name: %q, Type: %q, Required: %t}\n", f.ID, f.Name, f.Type, f.Required)
	}
	if spec := partitionSpecOf(t, s); spec != nil {
		fmt.Fprintf(b, "            PartitionSpec:\n              SpecId: %d\n              Fields:\n", spec.SpecID)
		for _, f := range spec.Fields {
			fmt.Fprintf(b, "                - {SourceId: %d, FieldId: %d, Name: %q, Transform: %q}\n", f.SourceID, f.FieldID, f.Name, f.Transform)
		}
	}
	b.WriteString("            Properties:\n")
	properties := t.Properties()
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		fmt.Fprintf(b, "              %s: %q\n", name, properties[name])
	}
	// The last line, by which a later run knows that the table is whole.
	b.WriteString("    Metadata: {GeneratedBy: icehose}\n")
}

// logicalID names the table's resource. The digest keeps names apart that
// differ in underscores only.
func logicalID(t *catalog.Table) string {
	var b strings.Builder
	for word := range strings.FieldsFuncSeq(t.Database()+"_"+t.Name(), func(r rune) bool { return r == '_' }) {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	digest := sha256.Sum256([]byte(t.Database() + "." + t.Name()))
	return b.String() + hex.EncodeToString(digest[:4])
}

// tablesOf splits an earlier fragment into the texts of its tables, by logical
// id. It refuses a file that it did not make: to overwrite that could make
// CloudFormation update tables.
func tablesOf(stack []byte) (map[string]string, error) {
	tables := make(map[string]string)
	if len(stack) == 0 {
		return tables, nil
	}
	_, resources, ok := strings.Cut(string(stack), "\nResources:\n")
	if !ok {
		return nil, fmt.Errorf("read %s: no Resources: line; it is not what icehose generate writes: move it away", StackFile)
	}
	id := ""
	for line := range strings.Lines(resources) {
		text := strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "   "):
		case strings.HasPrefix(line, "  ") && strings.HasSuffix(text, ":"):
			id = strings.TrimSpace(strings.TrimSuffix(text, ":"))
		default:
			return nil, fmt.Errorf("read %s: a line is not what icehose generate writes: move the file away", StackFile)
		}
		if id == "" {
			return nil, fmt.Errorf("read %s: a line is outside of any table: move the file away", StackFile)
		}
		tables[id] += line
	}
	for id, text := range tables {
		if err := checkTable(id, text); err != nil {
			return nil, fmt.Errorf("read %s: %w: take the file from its last good version", StackFile, err)
		}
	}
	return tables, nil
}

// checkTable refuses the text of a table that was cut off or edited into
// something else.
func checkTable(id, text string) error {
	type resource struct {
		Type     string            `yaml:"Type"`
		Deletion string            `yaml:"DeletionPolicy"`
		Metadata map[string]string `yaml:"Metadata"`
	}
	var read map[string]resource
	err := yaml.Unmarshal([]byte(text), &read)
	r, ok := read[id]
	switch {
	case err != nil || !ok || len(read) != 1 || !strings.HasSuffix(text, "\n"):
		return fmt.Errorf("table %s is damaged", id)
	case r.Type != "AWS::Glue::Table" || r.Deletion != "Retain":
		return fmt.Errorf("table %s is no AWS::Glue::Table that is retained", id)
	case r.Metadata["GeneratedBy"] != "icehose":
		return fmt.Errorf("table %s is cut off, or not icehose's", id)
	}
	return nil
}
