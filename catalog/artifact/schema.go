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
