package iceberg

import "icehose/sink"

// PlainColumns returns the names of columns that get no dictionary, as properties.
func PlainColumns(rows sink.Rows, names []string) map[string]string { return plainColumns(rows, names) }
