package artifact

import "icehose/catalog"

// A createTable is the input of glue:CreateTable. It is the form with
// CreateIcebergTableInput, because the older one (TableInput with Hive columns)
// cannot say which columns are required and which are the identifier.
type createTable struct {
	Database string `json:"DatabaseName"`
	Name     string `json:"Name"`
	Format   struct {
		Iceberg icebergInput `json:"IcebergInput"`
	} `json:"OpenTableFormatInput"`
}

type icebergInput struct {
	Operation string       `json:"MetadataOperation"`
	Version   string       `json:"Version"`
	Table     icebergTable `json:"CreateIcebergTableInput"`
}

type icebergTable struct {
	Location   string            `json:"Location"`
	Schema     glueSchema        `json:"Schema"`
	Partition  *gluePartition    `json:"PartitionSpec,omitempty"`
	Properties map[string]string `json:"Properties"`
}

type glueSchema struct {
	SchemaID         int         `json:"SchemaId"`
	Type             string      `json:"Type"`
	IdentifierFields []int       `json:"IdentifierFieldIds,omitempty"`
	Fields           []glueField `json:"Fields"`
}

type glueField struct {
	ID       int    `json:"Id"`
	Name     string `json:"Name"`
	Type     string `json:"Type"`
	Required bool   `json:"Required"`
}

type gluePartition struct {
	SpecID int                  `json:"SpecId"`
	Fields []gluePartitionField `json:"Fields"`
}

type gluePartitionField struct {
	SourceID  int    `json:"SourceId"`
	FieldID   int    `json:"FieldId"`
	Name      string `json:"Name"`
	Transform string `json:"Transform"`
}

// gluePartitionOf returns the spec in Glue's words.
func gluePartitionOf(spec *partitionSpec) *gluePartition {
	if spec == nil {
		return nil
	}
	out := &gluePartition{SpecID: spec.SpecID}
	for _, f := range spec.Fields {
		out.Fields = append(out.Fields, gluePartitionField(f))
	}
	return out
}

// createTable returns the request that makes the table.
func (g *generator) createTable(t *catalog.Table) createTable {
	out := createTable{Database: t.Database(), Name: t.Name()}
	s := schemaOf(t)
	fields := make([]glueField, 0, len(s.Fields))
	for _, f := range s.Fields {
		fields = append(fields, glueField{ID: f.ID, Name: f.Name, Type: f.Type, Required: f.Required})
	}
	out.Format.Iceberg = icebergInput{Operation: "CREATE", Version: "2", Table: icebergTable{
		Location:   g.location(tableLocation(t)),
		Schema:     glueSchema{SchemaID: s.SchemaID, Type: s.Type, IdentifierFields: s.IdentifierFields, Fields: fields},
		Partition:  gluePartitionOf(partitionSpecOf(t, s)),
		Properties: t.Properties(),
	}}
	return out
}
