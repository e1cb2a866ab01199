package artifact

import (
	"slices"

	"icehose/catalog"
)

// A schema is the JSON form of an Iceberg schema.
type schema struct {
	Type             string  `json:"type"`
	SchemaID         int     `json:"schema-id"`
	IdentifierFields []int   `json:"identifier-field-ids,omitempty"`
	Fields           []field `json:"fields"`
}

// A partitionSpec is the JSON form of an Iceberg partition spec.
type partitionSpec struct {
	SpecID int              `json:"spec-id"`
	Fields []partitionField `json:"fields"`
}

type partitionField struct {
	SourceID  int    `json:"source-id"`
	FieldID   int    `json:"field-id"`
	Name      string `json:"name"`
	Transform string `json:"transform"`
}

// firstPartitionID is the field id of the first partition field of a new table.
const firstPartitionID = 1000

// partitionSpecOf returns the partition spec of a new table; nil for none.
func partitionSpecOf(t *catalog.Table, s schema) *partitionSpec {
	if len(t.Partition) == 0 {
		return nil
	}
	spec := new(partitionSpec)
	for i, f := range t.Partition {
		at := slices.IndexFunc(s.Fields, func(column field) bool { return column.Name == f.Column })
		spec.Fields = append(spec.Fields, partitionField{
			SourceID: s.Fields[at].ID, FieldID: firstPartitionID + i, Name: f.Name(), Transform: f.IcebergTransform(),
		})
	}
	return spec
}

type field struct {
	ID       int    `json:"id"`
	Name     string `json:"name"`
	Required bool   `json:"required"`
	Type     string `json:"type"`
}

// schemaOf returns the schema of a new table: key columns are required and the
// identifier, everything else is optional, since a delete carries nothing else.
func schemaOf(t *catalog.Table) schema {
	columns, _ := t.LakeColumns()
	s := schema{Type: "struct"}
	for i, c := range columns {
		s.Fields = append(s.Fields, field{ID: i + 1, Name: c.Name, Required: t.IsKey(c.Name), Type: c.Type.String()})
	}
	for _, name := range t.Key {
		s.IdentifierFields = append(s.IdentifierFields, 1+slices.IndexFunc(columns, func(c catalog.Column) bool { return c.Name == name }))
	}
	return s
}
