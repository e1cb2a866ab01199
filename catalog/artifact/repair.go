package artifact

import (
	"fmt"
	"strings"

	"icehose/catalog"
	"icehose/cdc"
)

// A RepairRow is what the source has of one key.
type RepairRow struct {
	// Values are canonical texts of the source's columns in the lake, nil for
	// null; of a row that is gone only those of the key count.
	Values [][]byte
	Gone   bool // the source has no row of the key
	Again  bool // the lake has the key more than once
}

// maxRepairBytes bounds the values in one statement: Athena takes 262,144 bytes
// for a whole one.
const maxRepairBytes = 100 << 10

// Repair returns statements that put rows of a keyed table right, in the order
// in which they must run. position is what the rows reflect: of a mirror, rows
// at it or above it are left as they are; a changelog gets the rows appended at
// it. The statements may be run again. They hold values of the source.
//
// A row that is deleted at a position above, between the reading of the source
// and the statement, comes back by it: a mirror that Firehose writes keeps no
// trace of what it deleted. Compare the keys again afterwards.
func Repair(d Dialect, t *catalog.Table, position string, rows []RepairRow) ([]string, error) {
	r := &repair{d: d, t: t, position: position}
	r.columns, r.data = t.LakeColumns()
	if len(t.Key) == 0 {
		return nil, fmt.Errorf("repair %s.%s: the table has no key", t.Database(), t.Name())
	}
	for _, c := range r.columns {
		if d == Spark && c.Type.Kind == catalog.Time {
			return nil, fmt.Errorf("repair %s.%s: column %s: Spark cannot write the type time", t.Database(), t.Name(), c.Name)
		}
	}
	for len(rows) > 0 {
		n, size := 0, 0
		for n < len(rows) && (n == 0 || size < maxRepairBytes) {
			for _, v := range rows[n].Values {
				size += len(v) + len("CAST('' AS timestamp(6) with time zone), ")
			}
			n++
		}
		r.chunk(rows[:n])
		rows = rows[n:]
	}
	return r.statements, nil
}

// A repair is a table's statements under construction.
type repair struct {
	d          Dialect
	t          *catalog.Table
	columns    []catalog.Column // of the lake
	data       int              // of them, the source's
	position   string
	statements []string
}

func (r *repair) chunk(rows []RepairRow) {
	if r.t.Mode == catalog.Changelog {
		r.statements = append(r.statements, r.insert(rows))
		return
	}
	var gone, kept []RepairRow
	for _, row := range rows {
		if row.Gone || row.Again {
			gone = append(gone, row)
		}
		if !row.Gone {
			kept = append(kept, row)
		}
	}
	if len(gone) > 0 {
		r.statements = append(r.statements, r.delete(gone))
	}
	if len(kept) > 0 {
		r.statements = append(r.statements, r.merge(kept))
	}
}

// literal renders a value of a lake column; nil for null.
func (r *repair) literal(i int, value []byte) string {
	if value == nil {
		return "CAST(NULL AS " + r.d.typeName(r.columns[i].Type) + ")"
	}
	return r.d.parse(r.d.text(string(value)), r.columns[i].Type)
}

func (r *repair) names() []string {
	names := make([]string, len(r.columns))
	for i, c := range r.columns {
		names[i] = c.Name
	}
	return names
}

// tuple renders a row of all lake columns.
func (r *repair) tuple(row *RepairRow) string {
	cells := make([]string, 0, len(r.columns))
	for i := range r.data {
		value := row.Values[i]
		if row.Gone && !r.t.IsKey(r.columns[i].Name) {
			value = nil
		}
		cells = append(cells, r.literal(i, value))
	}
	for i := r.data; i < len(r.columns); i++ {
		var value []byte
		switch name := r.columns[i].Name; {
		case name == catalog.ColumnPosition:
			value = []byte(r.position)
		case name == catalog.ColumnOperation && row.Gone:
			value = []byte(cdc.Delete.String())
		case name == catalog.ColumnOperation:
			value = []byte(cdc.Load.String())
		}
		cells = append(cells, r.literal(i, value))
	}
	return "  (" + strings.Join(cells, ", ") + ")"
}

func (r *repair) tuples(rows []RepairRow) string {
	lines := make([]string, len(rows))
	for i := range rows {
		lines[i] = r.tuple(&rows[i])
	}
	return strings.Join(lines, ",\n")
}

func (r *repair) insert(rows []RepairRow) string {
	return fmt.Sprintf("INSERT INTO %s (%s)\nVALUES\n%s", r.d.table(r.t, ""), r.d.list(r.names(), ""), r.tuples(rows))
}

// older renders whether a row is below the position.
func (r *repair) older(qualifier string) string {
	column := qualifier + r.d.quote(catalog.ColumnPosition)
	return fmt.Sprintf("(%s IS NULL OR %s < %s)", column, column, r.d.text(r.position))
}

func (r *repair) delete(rows []RepairRow) string {
	keys := make([]string, len(rows))
	for n := range rows {
		var parts []string
		for i := range r.data {
			if name := r.columns[i].Name; r.t.IsKey(name) {
				parts = append(parts, r.d.quote(name)+" = "+r.literal(i, rows[n].Values[i]))
			}
		}
		keys[n] = "  (" + strings.Join(parts, " AND ") + ")"
	}
	return fmt.Sprintf("DELETE FROM %s\nWHERE %s AND (\n%s\n)", r.d.table(r.t, ""), r.older(""), strings.Join(keys, " OR\n"))
}

func (r *repair) merge(rows []RepairRow) string {
	var set []string
	for _, name := range r.names() {
		if !r.t.IsKey(name) {
			set = append(set, r.d.quote(name)+" = s."+r.d.quote(name))
		}
	}
	list := r.d.list(r.names(), "")
	return fmt.Sprintf(`MERGE INTO %s AS t
USING (
  SELECT * FROM (VALUES
%s
  ) AS v (%s)
) AS s
ON %s
WHEN MATCHED AND %s THEN UPDATE SET %s
WHEN NOT MATCHED THEN INSERT (%s) VALUES (%s)`,
		r.d.table(r.t, ""), r.tuples(rows), list, r.d.equal(r.t.Key, "t.", "s."), r.older("t."), strings.Join(set, ", "), list, r.d.list(r.names(), "s."))
}
