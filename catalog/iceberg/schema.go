package iceberg

import (
	"fmt"
	"slices"

	"github.com/apache/iceberg-go"

	"icehose/catalog"
)

// SchemaOf returns the Iceberg schema of a new lake table. Key columns are
// required and the identifier; everything else is optional, since the delete
// of a row carries nothing else.
func SchemaOf(t *catalog.Table) (*iceberg.Schema, error) {
	columns, _ := t.LakeColumns()
	var fields []iceberg.NestedField
	var identifier []int
	for i, c := range columns {
		typ, err := TypeOf(c.Type)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", c.Name, err)
		}
		fields = append(fields, iceberg.NestedField{ID: i + 1, Name: c.Name, Type: typ, Required: t.IsKey(c.Name)})
	}
	for _, name := range t.Key {
		identifier = append(identifier, 1+slices.IndexFunc(columns, func(c catalog.Column) bool { return c.Name == name }))
	}
	return iceberg.NewSchemaWithIdentifiers(0, identifier, fields...), nil
}

// TypeOf returns the Iceberg type of a column's type.
func TypeOf(t catalog.Type) (iceberg.Type, error) {
	switch t.Kind {
	case catalog.Boolean:
		return iceberg.PrimitiveTypes.Bool, nil
	case catalog.Int:
		return iceberg.PrimitiveTypes.Int32, nil
	case catalog.Long:
		return iceberg.PrimitiveTypes.Int64, nil
	case catalog.Float:
		return iceberg.PrimitiveTypes.Float32, nil
	case catalog.Double:
		return iceberg.PrimitiveTypes.Float64, nil
	case catalog.Decimal:
		return iceberg.DecimalTypeOf(t.Precision, t.Scale), nil
	case catalog.Date:
		return iceberg.PrimitiveTypes.Date, nil
	case catalog.Time:
		return iceberg.PrimitiveTypes.Time, nil
	case catalog.Timestamp:
		return iceberg.PrimitiveTypes.Timestamp, nil
	case catalog.TimestampTZ:
		return iceberg.PrimitiveTypes.TimestampTz, nil
	case catalog.String:
		return iceberg.PrimitiveTypes.String, nil
	case catalog.UUID:
		return iceberg.PrimitiveTypes.UUID, nil
	case catalog.Fixed:
		return iceberg.FixedTypeOf(t.Length), nil
	case catalog.Binary:
		return iceberg.PrimitiveTypes.Binary, nil
	}
	return nil, fmt.Errorf("no Iceberg type for %s", t)
}

// CheckSchema reports how the columns of a table differ from those wanted. The
// order of columns and their field ids are the table's own business.
func CheckSchema(have, want *iceberg.Schema) error {
	for _, w := range want.Fields() {
		h, ok := have.FindFieldByName(w.Name)
		switch {
		case !ok:
			return fmt.Errorf("table has no column %s", w.Name)
		case !h.Type.Equals(w.Type):
			return fmt.Errorf("table column %s is %s, the pipeline file says %s", w.Name, h.Type, w.Type)
		case h.Required != w.Required:
			return fmt.Errorf("table column %s: required is %t, want %t", w.Name, h.Required, w.Required)
		}
	}
	for _, h := range have.Fields() {
		if _, ok := want.FindFieldByName(h.Name); !ok {
			return fmt.Errorf("table column %s is not in the pipeline file", h.Name)
		}
	}
	if !slices.Equal(keyNames(have), keyNames(want)) {
		return fmt.Errorf("table key is %v, the pipeline file says %v", keyNames(have), keyNames(want))
	}
	return nil
}

// keyNames returns the names of the identifier's columns, sorted.
func keyNames(s *iceberg.Schema) []string {
	var names []string
	for _, id := range s.IdentifierFieldIDs {
		name, _ := s.FindColumnName(id)
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
