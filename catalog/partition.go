package catalog

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A PartitionTransform makes a partition's value from a column's.
type PartitionTransform string

// The transforms of the Iceberg specification that a pipeline file may use.
const (
	PartitionIdentity PartitionTransform = "identity"
	PartitionBucket   PartitionTransform = "bucket"
	PartitionTruncate PartitionTransform = "truncate"
	PartitionYear     PartitionTransform = "year"
	PartitionMonth    PartitionTransform = "month"
	PartitionDay      PartitionTransform = "day"
	PartitionHour     PartitionTransform = "hour"
)

// A PartitionField is one field of a table's partition spec.
type PartitionField struct {
	Column    string // lake name
	Transform PartitionTransform
	// Width is the number of buckets of PartitionBucket, and the width in
	// characters, bytes or units of PartitionTruncate; 0 for others.
	Width int
}

// partitionText is the form of an element of partition: "column",
// "bucket(16, column)" or "day(column)".
var partitionText = regexp.MustCompile(`^(?:([a-z]+)\( *(?:([0-9]+) *, *)?([a-z_][a-z0-9_]*) *\)|([a-z_][a-z0-9_]*))$`)

// ParsePartitionField reads the spelling of the pipeline file: "region",
// "bucket(16, id)", "truncate(4, code)", "day(cdc_committed_at)".
func ParsePartitionField(s string) (PartitionField, error) {
	m := partitionText.FindStringSubmatch(s)
	switch {
	case m == nil && strings.Contains(s, "(") != strings.Contains(s, ")"):
		return PartitionField{}, errors.New(`parse partition: a comma in a list of YAML ends the text: write "bucket(N, column)" in quotes`)
	case m == nil:
		return PartitionField{}, errPartitionText()
	}
	if m[4] != "" {
		return PartitionField{Column: m[4], Transform: PartitionIdentity}, nil
	}
	f := PartitionField{Transform: PartitionTransform(m[1]), Column: m[3]}
	switch f.Transform {
	case PartitionBucket, PartitionTruncate:
		width, err := strconv.Atoi(m[2])
		if err != nil || width < 1 || width > math.MaxInt32 {
			return PartitionField{}, fmt.Errorf("parse partition: want %s(N, column) with N from 1 to %d", f.Transform, math.MaxInt32)
		}
		f.Width = width
	case PartitionYear, PartitionMonth, PartitionDay, PartitionHour:
		if m[2] != "" {
			return PartitionField{}, fmt.Errorf("parse partition: want %s(column), without a number", f.Transform)
		}
	case PartitionIdentity:
		return PartitionField{}, fmt.Errorf("parse partition: want the column's name alone for %s", f.Transform)
	default:
		return PartitionField{}, errPartitionText()
	}
	return f, nil
}

func errPartitionText() error {
	return errors.New("parse partition: want a column, bucket(N, column), truncate(N, column), year(column), month(column), day(column) or hour(column)")
}

// String renders the field as ParsePartitionField reads it.
func (f PartitionField) String() string {
	switch {
	case f.Transform == PartitionIdentity:
		return f.Column
	case f.Width > 0:
		return fmt.Sprintf("%s(%d, %s)", f.Transform, f.Width, f.Column)
	}
	return fmt.Sprintf("%s(%s)", f.Transform, f.Column)
}

// IcebergTransform renders the transform as table metadata spell it:
// "identity", "bucket[16]", "day".
func (f PartitionField) IcebergTransform() string {
	if f.Width > 0 {
		return fmt.Sprintf("%s[%d]", f.Transform, f.Width)
	}
	return string(f.Transform)
}

// Name returns the name of the partition field, as Iceberg's own builders make
// it: "region", "id_bucket", "code_trunc", "cdc_committed_at_day".
func (f PartitionField) Name() string {
	switch f.Transform {
	case PartitionIdentity:
		return f.Column
	case PartitionTruncate:
		return f.Column + "_trunc"
	case PartitionBucket, PartitionYear, PartitionMonth, PartitionDay, PartitionHour:
	}
	return f.Column + "_" + string(f.Transform)
}

// Takes reports whether the transform is defined on a type. Identity is refused
// on floating point: engines do not agree on which NaNs and zeros are the same.
func (tr PartitionTransform) Takes(t Type) bool {
	switch tr {
	case PartitionIdentity:
		return t.Kind != Float && t.Kind != Double
	case PartitionBucket:
		return t.Kind != Float && t.Kind != Double && t.Kind != Boolean
	case PartitionTruncate:
		return slices.Contains([]TypeKind{Int, Long, Decimal, String, Binary}, t.Kind)
	case PartitionYear, PartitionMonth, PartitionDay:
		return t.Kind == Date || t.isTimestamp()
	case PartitionHour:
		return t.isTimestamp()
	}
	return false
}

func (t Type) isTimestamp() bool { return t.Kind == Timestamp || t.Kind == TimestampTZ }

// isTime reports whether the transform cuts time into periods.
func (tr PartitionTransform) isTime() bool {
	return tr == PartitionYear || tr == PartitionMonth || tr == PartitionDay || tr == PartitionHour
}

// partition checks the partition spec; columns and key were checked before.
func (c *checker) partition(field string, t *Table) {
	t.Partition = t.Partition[:0]
	columns, _ := t.LakeColumns()
	for i, text := range t.PartitionText {
		place := fmt.Sprintf("%s.partition[%d]", field, i)
		f, err := ParsePartitionField(text)
		if err != nil {
			c.fail(place, text, "%s", strings.TrimPrefix(err.Error(), "parse partition: "))
			continue
		}
		if reason := t.partitionRefusal(columns, f); reason != "" {
			c.fail(place, text, "%s", reason)
			continue
		}
		t.Partition = append(t.Partition, f)
	}
}

// partitionBy sets those of the fields that the table can be partitioned by.
func (t *Table) partitionBy(fields []PartitionField) {
	columns, _ := t.LakeColumns()
	t.Partition = nil
	for _, f := range fields {
		if t.partitionRefusal(columns, f) == "" {
			t.Partition = append(t.Partition, f)
		}
	}
}

// partitionRefusal says why a table cannot be partitioned by a field as well as
// by those before it; empty if it can.
func (t *Table) partitionRefusal(columns []Column, f PartitionField) string {
	column := t.Source + "." + f.Column
	if i := slices.IndexFunc(t.Columns, func(c *Column) bool { return c != nil && c.Name == f.Column }); i >= 0 {
		switch c := t.Columns[i]; {
		case c.Exclude:
			return column + " is excluded, so the lake does not have it: partition by another column"
		case c.Mask != "":
			return column + " is masked: partition by another column, or take the mask away"
		}
	}
	at := slices.IndexFunc(columns, func(c Column) bool { return c.Name == f.Column })
	if at < 0 {
		return "no column of this name in the lake table of " + t.Source
	}
	if !f.Transform.Takes(columns[at].Type) {
		return fmt.Sprintf("%s is a %s, of which %s makes no partitions", column, columns[at].Type, f.Transform)
	}
	if t.Mode == Mirror && len(t.Key) > 0 && !t.IsKey(f.Column) {
		return column + " is no key column: a delete carries what its record has, so it would look for its row in another partition. " +
			"Partition by key columns, such as bucket(16, " + t.Key[0] + "), or make the table a changelog"
	}
	for _, other := range t.Partition {
		switch {
		case other.Name() == f.Name():
			return fmt.Sprintf("the partition field %s is there already", f.Name())
		case other.Column == f.Column && other.Transform.isTime() && f.Transform.isTime():
			return fmt.Sprintf("%s is partitioned by %s already: leave the finer one", column, other.Transform)
		}
	}
	if f.Transform != PartitionIdentity && slices.ContainsFunc(columns, func(c Column) bool { return c.Name == f.Name() }) {
		return fmt.Sprintf("the partition field would be called %s, as a column is: rename that column with source: and name:", f.Name())
	}
	return ""
}
