package catalog

import (
	"fmt"
	"slices"
)

// A Reader is an engine that reads a lake table.
type Reader string

// The readers.
const (
	ReaderIcehose    Reader = "icehose" // reconcile, and this program's own reads
	ReaderSpark      Reader = "spark"
	ReaderTrino      Reader = "trino"
	ReaderAthena     Reader = "athena" // engine version 3
	ReaderDuckDB     Reader = "duckdb"
	ReaderPyIceberg  Reader = "pyiceberg"
	ReaderSnowflake  Reader = "snowflake" // as a table of an external catalog
	ReaderDatabricks Reader = "databricks"
)

// Readers returns all readers that a pipeline file may list.
func Readers() []Reader {
	return []Reader{ReaderIcehose, ReaderSpark, ReaderTrino, ReaderAthena, ReaderDuckDB, ReaderPyIceberg, ReaderSnowflake, ReaderDatabricks}
}

// ReadsEqualityDeletes reports whether the engine applies equality deletes, and
// rightly. PyIceberg, Snowflake and Databricks refuse a table that has them;
// DuckDB reads them and has had wrong results with them.
func (r Reader) ReadsEqualityDeletes() bool {
	switch r {
	case ReaderIcehose, ReaderSpark, ReaderTrino, ReaderAthena:
		return true
	case ReaderDuckDB, ReaderPyIceberg, ReaderSnowflake, ReaderDatabricks:
	}
	return false
}

// A DeleteFormat says how the sink takes rows out of a mirror.
type DeleteFormat string

// The delete formats.
const (
	// EqualityDeletes writes files of keys whose older rows are gone. It is fast
	// to write and slower to read until the table is compacted.
	EqualityDeletes DeleteFormat = "equality-deletes"
	// CopyOnWrite writes data files anew without the rows. Every engine reads
	// the result.
	CopyOnWrite DeleteFormat = "copy-on-write"
)

// BlindReaders returns the readers of the table that cannot read what equality
// deletes leave of it; none for a table whose rows never go.
func (t *Table) BlindReaders() []Reader {
	if len(t.UniqueKeys()) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(t.Readers), Reader.ReadsEqualityDeletes)
}

// DeleteFormat returns how rows leave the table: CopyOnWrite as soon as one of
// its readers cannot read equality deletes, else EqualityDeletes: so for a table
// that lists no readers, and for one whose rows never go.
func (t *Table) DeleteFormat() DeleteFormat {
	if len(t.BlindReaders()) > 0 {
		return CopyOnWrite
	}
	return EqualityDeletes
}

// readers checks a list of readers; a table's own replaces that of the file.
func (c *checker) readers(field string, list []Reader) {
	for i := range list {
		place := fmt.Sprintf("%s[%d]", field, i)
		oneOf(c, place, &list[i], "", Readers()...)
		if slices.Contains(list[:i], list[i]) {
			c.fail(place, string(list[i]), "listed twice")
		}
	}
}
