package mergetest

import (
	"slices"
	"strconv"
	"time"

	"icehose/cdc"
)

// A Trap is a changelog of the table plain that is merged in steps: after each
// the current rows must be those given.
type Trap struct {
	Name  string
	Steps []Step
}

// A Step appends rows and merges.
type Step struct {
	Rows []PlainRow
	Want map[string]string // id -> v
}

// A PlainRow is a row of the table plain.
type PlainRow struct {
	Position  cdc.Position
	Operation cdc.Operation
	ID        int
	OldID     int // 0 when the key did not change
	V         *string
	Committed time.Time // zero for a load
}

// Lake returns the texts of the row's lake columns.
func (r *PlainRow) Lake() [][]byte {
	row := [][]byte{
		strconv.AppendInt(nil, int64(r.ID), 10), text(r.V), []byte(r.Position),
		committed(r.Committed), []byte(r.Operation.String()), nil, nil,
	}
	if r.OldID != 0 {
		row[5] = []byte(`["` + strconv.Itoa(r.OldID) + `"]`)
	}
	return row
}

func at(n int, operation cdc.Operation, id int, v string) PlainRow {
	r := PlainRow{Position: cdc.ChangePosition(0, bodyOf(n), 1), Operation: operation, ID: id, Committed: Start().Add(time.Duration(n) * time.Hour)}
	if operation != cdc.Delete {
		r.V = &v
	}
	return r
}

func load(floor, id int, v string) PlainRow {
	p, err := cdc.LoadPosition(0, bodyOf(floor), Start().Add(time.Duration(floor)*time.Hour), cdc.Origin{Sequence: strconv.Itoa(id)})
	if err != nil {
		panic(err)
	}
	return PlainRow{Position: p, Operation: cdc.Load, ID: id, V: &v}
}

func insert(n, id int, v string) PlainRow { return at(n, cdc.Insert, id, v) }
func update(n, id int, v string) PlainRow { return at(n, cdc.Update, id, v) }
func remove(n int) PlainRow               { return at(n, cdc.Delete, 1, "") }

func move(n, from, to int, v string) PlainRow {
	r := update(n, to, v)
	r.OldID = from
	return r
}

// clock gives a row another commit time: hours after Start.
func clock(r PlainRow, hours int) PlainRow {
	r.Committed = Start().Add(time.Duration(hours) * time.Hour)
	return r
}

func step(want map[string]string, rows ...PlainRow) Step { return Step{Rows: rows, Want: want} }

// rows are current rows: id -> v.
type rows = map[string]string

// Traps are what goes wrong in the wild.
func Traps() []Trap { return slices.Concat(orderTraps(), batchTraps(), keyTraps()) }

// orderTraps are about the order of the changes of one key.
func orderTraps() []Trap {
	none := rows{}
	return []Trap{
		{"insert, delete and insert in one batch end with the last insert", []Step{
			step(rows{"1": "second"}, insert(1, 1, "first"), remove(2), insert(3, 1, "second")),
		}},
		{"insert, delete and insert in one batch in any order", []Step{
			step(rows{"1": "second"}, insert(3, 1, "second"), insert(1, 1, "first"), remove(2)),
		}},
		{"a delete carries nothing but the key", []Step{
			step(rows{"1": "a"}, insert(1, 1, "a")),
			step(none, remove(2)),
		}},
		{"a delete of a row that was never there", []Step{
			step(none, remove(2)),
			step(rows{"1": "b"}, insert(3, 1, "b")),
		}},
		{"keys are those of the definition, whatever else is equal", []Step{
			step(rows{"1": "same", "2": "same"}, insert(1, 1, "same"), insert(2, 2, "same")),
			step(rows{"2": "same"}, remove(3)),
		}},
		{"a late delete does not remove a newer row", []Step{
			step(rows{"1": "new"}, insert(1, 1, "old"), update(5, 1, "new")),
			step(rows{"1": "new"}, remove(3)),
		}},
		{"a stale update does not undo a newer one", []Step{
			step(rows{"1": "new"}, insert(1, 1, "old"), update(5, 1, "new")),
			step(rows{"1": "new"}, insert(1, 1, "old"), update(3, 1, "stale")),
		}},
		{"a stale update does not undo a delete", []Step{
			step(rows{"1": "a"}, insert(1, 1, "a")),
			step(none, remove(5)),
			step(none, update(3, 1, "stale"), insert(1, 1, "a")),
			step(none, update(4, 1, "stale again")),
		}},
		{"a delete alone in its window", []Step{
			step(rows{"1": "a", "2": "b"}, insert(1, 1, "a"), insert(2, 2, "b")),
			step(rows{"2": "b"}, remove(3)),
		}},
		{"a delete and an insert in one window", []Step{
			step(rows{"1": "a"}, insert(1, 1, "a")),
			step(rows{"1": "again"}, remove(3), insert(4, 1, "again")),
		}},
	}
}

// batchTraps are about what comes together, and what comes again.
func batchTraps() []Trap {
	none := rows{}
	return []Trap{
		{"equal positions give one result, also when repeated", []Step{
			step(rows{"1": "b"}, insert(1, 1, "a"), insert(1, 1, "b"), insert(1, 1, "a")),
			step(rows{"1": "b"}, insert(1, 1, "a")),
			step(rows{"1": "c"}, insert(1, 1, "c")),
			step(rows{"1": "c"}, insert(1, 1, "b"), insert(1, 1, "a")),
		}},
		{"many rows of one key in one window", []Step{
			step(rows{"1": "v9"}, func() []PlainRow {
				var out []PlainRow
				for n := range 9 {
					out = append(out, update(n+1, 1, "v"+strconv.Itoa(n+1)))
				}
				slices.Reverse(out)
				return out
			}()...),
		}},
		{"first deliveries out of order across keys lose nothing", []Step{
			step(rows{"1": "a"}, insert(1, 1, "a")),
			step(rows{"1": "a", "3": "c"}, insert(3, 3, "c")),
			step(rows{"1": "a", "2": "b", "3": "c"}, insert(2, 2, "b")),
		}},
		{"an insert after a delete lives", []Step{
			step(rows{"1": "a"}, insert(1, 1, "a")),
			step(none, remove(2)),
			step(rows{"1": "b"}, insert(3, 1, "b")),
		}},
		{"an insert that is delivered before its delete lives", []Step{
			step(rows{"1": "a"}, insert(1, 1, "a")),
			step(rows{"1": "b"}, insert(3, 1, "b")),
			step(rows{"1": "b"}, remove(2)),
		}},
		{"time does not order changes", []Step{
			step(rows{"1": "new"}, clock(insert(1, 1, "old"), 50), clock(update(2, 1, "new"), 10)),
			step(rows{"1": "new"}, clock(update(1, 1, "old"), 90)),
		}},
	}
}

// keyTraps are about key changes and reloads.
func keyTraps() []Trap {
	return []Trap{
		{"a key change takes the old key away", []Step{
			step(rows{"1": "a"}, insert(1, 1, "a")),
			step(rows{"2": "b"}, move(2, 1, 2, "b")),
		}},
		{"a late row of an old key does not bring it back", []Step{
			step(rows{"2": "b"}, move(5, 1, 2, "b")),
			step(rows{"2": "b"}, insert(1, 1, "a")),
			step(rows{"2": "b"}, update(3, 1, "a again")),
		}},
		{"an old key may be used again", []Step{
			step(rows{"2": "b"}, insert(1, 1, "a"), move(2, 1, 2, "b")),
			step(rows{"1": "c", "2": "b"}, insert(3, 1, "c")),
		}},
		{"keys that change places", []Step{
			step(rows{"1": "a", "2": "b"}, insert(1, 1, "a"), insert(2, 2, "b")),
			step(rows{"1": "b", "2": "a"}, move(3, 1, 9, "a"), move(4, 2, 1, "b"), move(5, 9, 2, "a")),
		}},
		{"a reload beats what came before and loses to what came after", []Step{
			step(rows{"1": "before", "2": "after"}, update(4, 1, "before"), update(9, 2, "after")),
			step(rows{"1": "loaded", "2": "after"}, load(6, 1, "loaded"), load(6, 2, "loaded")),
		}},
		{"the ghosts of a reload go when it is swept", []Step{
			step(rows{"1": "a", "2": "ghost"}, load(0, 1, "a"), load(0, 2, "ghost")),
			step(rows{"1": "b", "2": "ghost"}, load(6, 1, "b")),
			step(rows{"1": "b"}, sweep(6, 2)), // what icehose resync finish inserts
		}},
	}
}

// sweep is the delete of a row that a load with a floor did not bring again.
func sweep(floor, id int) PlainRow {
	r := load(floor, 0, "")
	r.Operation, r.ID, r.V, r.Committed = cdc.Delete, id, nil, Start().Add(time.Duration(floor)*time.Hour)
	return r
}
