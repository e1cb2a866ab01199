package merge_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"icehose/catalog"
	"icehose/sink"
	"icehose/sink/iceberg"
	"icehose/sink/merge"
	"icehose/sink/merge/mergetest"
)

// queries stands in for Athena: it takes the statements of a merge, and does
// what they say with the local engine.
type queries struct {
	store      *iceberg.Store
	def        *catalog.Table
	statements []string
	conflicts  int    // how many MERGEs are refused
	intrude    bool   // another writer comes between
	stranger   string // a position of another kind that it sees
	killed     bool   // nobody hears of the next MERGE
	silent     bool   // it does not say how many rows a MERGE has changed
	left       bool   // something is left to be merged
}

func (q *queries) Query(ctx context.Context, statement string) (*merge.QueryResult, error) {
	q.statements = append(q.statements, statement)
	switch {
	case strings.HasPrefix(statement, "CREATE TABLE"):
		_, err := q.store.OpenTable(ctx, q.def.Current())
		return &merge.QueryResult{}, err
	case strings.HasPrefix(statement, "ALTER TABLE"): // by a run that had come so far
		if err := mergetest.Append(ctx, q.store, q.def.Current(), q.row()); err != nil {
			return nil, err
		}
		return nil, errors.New("column w exists")
	case strings.HasPrefix(statement, "SELECT count(*)"):
		return &merge.QueryResult{Rows: [][]string{{"3", "1", "0000.00000000000000090000000000000009.1.0000000000000001", "0", q.stranger, "", "", "", "0"}}, Scanned: 10}, nil
	case strings.HasPrefix(statement, "SELECT\n  count("):
		left := "0"
		if q.left {
			left = "1"
		}
		return &merge.QueryResult{Rows: [][]string{{left, "0"}}}, nil
	case strings.HasPrefix(statement, "MERGE INTO"):
		if q.conflicts > 0 {
			q.conflicts--
			return nil, fmt.Errorf("%w: ICEBERG_COMMIT_ERROR", sink.ErrConflict)
		}
		if q.intrude {
			q.intrude, q.left = false, true
			if err := mergetest.Append(ctx, q.store, q.def.Current(), q.row()); err != nil {
				return nil, err
			}
			return &merge.QueryResult{}, nil // the fence has kept it from changing anything
		}
		if err := mergetest.Append(ctx, q.store, q.def.Current(), q.row()); err != nil {
			return nil, err
		}
		if q.killed {
			q.killed = false
			return nil, errors.New("killed")
		}
		q.left = false
		if q.silent {
			return &merge.QueryResult{Scanned: 100}, nil
		}
		return &merge.QueryResult{Updated: 3, Scanned: 100}, nil
	}
	return nil, errors.New("unknown statement " + statement)
}

// row is a row of the current table, with another id each time.
func (q *queries) row() [][]byte {
	row := currentRow(fmt.Sprint(10 + len(q.statements)))
	columns, _ := q.def.Current().LakeColumns()
	return slices.Insert(row, 2, make([][]byte, len(columns)-len(row))...)
}

func currentRow(id string) [][]byte {
	return [][]byte{[]byte(id), []byte("v"), nil, []byte("0000.00000000000000000000000000000001.1.0000000000000001"), []byte("2026-01-01T00:00:00.000000Z")}
}

func TestAthena(t *testing.T) {
	t.Parallel()
	def := pipeline(t, mergetest.Pipeline).ByTarget("d", "plain")
	store := open(t, t.TempDir())
	row := mergetest.Traps()[0].Steps[0].Rows[0]
	appendRows(t, store, def, row.Lake())
	q := &queries{store: store, def: def, conflicts: 1}
	first, err := merge.Athena(t.Context(), q, store.Tables(), def, merge.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if first.Read != 3 || first.Late != 1 || first.Changed != 1 || first.Deleted != 2 || first.Scanned != 110 || first.From != 0 {
		t.Errorf("first run: %+v", first)
	}
	all := strings.Join(q.statements, "\n")
	for _, want := range []string{"'table_type' = 'ICEBERG'", `NOT EXISTS (SELECT 1 FROM "d"."plain_folded$refs" WHERE name = 'main')`, fmt.Sprintf("FOR VERSION AS OF %d", first.To)} {
		if !strings.Contains(all, want) {
			t.Errorf("no statement has %s", want)
		}
	}
	q.statements = nil
	if again, err := merge.Athena(t.Context(), q, store.Tables(), def, merge.Options{}); err != nil || len(q.statements) != 0 || again.From != again.To {
		t.Errorf("a run without anything new: %+v, %v, statements %q", again, err, q.statements)
	}
	appendRows(t, store, def, row.Lake())
	q.intrude = true
	second, err := merge.Athena(t.Context(), q, store.Tables(), def, merge.Options{})
	if err != nil {
		t.Fatal(err)
	}
	all = strings.Join(q.statements, "\n")
	if second.From != first.To || !strings.Contains(all, `"$path" IN ('file://`) || strings.Count(all, "MERGE INTO") != 2 {
		t.Errorf("second run: %+v; want only the new file read, and a second attempt after another writer, in\n%s", second, all)
	}
}

// A first run that is killed after its MERGE leaves rows, which the next run
// knows for its own.
func TestAthenaKilled(t *testing.T) {
	t.Parallel()
	def := pipeline(t, mergetest.Pipeline).ByTarget("d", "plain")
	store := open(t, t.TempDir())
	row := mergetest.Traps()[0].Steps[0].Rows[0]
	appendRows(t, store, def, row.Lake())
	q := &queries{store: store, def: def, killed: true}
	if _, err := merge.Athena(t.Context(), q, store.Tables(), def, merge.Options{}); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("got %v, want it killed", err)
	}
	next, err := merge.Athena(t.Context(), q, store.Tables(), def, merge.Options{})
	if err != nil || next.From != 0 || next.To == 0 {
		t.Errorf("next run: %+v, %v; want everything merged again", next, err)
	}
}

// A rebuild that was killed does not look like one that has ended.
func TestAthenaKilledRebuild(t *testing.T) {
	t.Parallel()
	def := pipeline(t, mergetest.Pipeline).ByTarget("d", "plain")
	store := open(t, t.TempDir())
	appendRows(t, store, def, mergetest.Traps()[0].Steps[0].Rows[0].Lake())
	run(t, store, def)
	merge.RemoveNotes(t, store, def)
	q := &queries{store: store, def: def, killed: true}
	if _, err := merge.Athena(t.Context(), q, store.Tables(), def, merge.Options{Rebuild: true}); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("got %v, want it killed", err)
	}
	if _, err := merge.Athena(t.Context(), q, store.Tables(), def, merge.Options{}); !errors.Is(err, merge.ErrRefused) {
		t.Errorf("got %v, want the next run refused as before", err)
	}
}

// A column that another run has just added is there; and a rebuild adds columns
// too.
func TestAthenaAddsColumn(t *testing.T) {
	t.Parallel()
	def := pipeline(t, mergetest.Pipeline).ByTarget("d", "plain")
	wider := pipeline(t, mergetest.Pipeline+"      - {name: w, type: string}\n").ByTarget("d", "plain")
	for _, rebuild := range []bool{false, true} {
		store := open(t, t.TempDir())
		appendRows(t, store, def, mergetest.Traps()[0].Steps[0].Rows[0].Lake())
		run(t, store, def)
		row := mergetest.Traps()[0].Steps[0].Rows[0].Lake()
		appendRows(t, store, wider, slices.Insert(row, 2, nil))
		q := &queries{store: store, def: wider}
		result, err := merge.Athena(t.Context(), q, store.Tables(), wider, merge.Options{Rebuild: rebuild})
		if err != nil || result.From != 0 || strings.Count(strings.Join(q.statements, "\n"), "ALTER TABLE") != 1 {
			t.Errorf("rebuild %t: %+v, %v; want the column added, once, in %q", rebuild, result, err, q.statements)
		}
	}
}

func TestAthenaTwoKinds(t *testing.T) {
	t.Parallel()
	def := pipeline(t, mergetest.Pipeline).ByTarget("d", "plain")
	store := open(t, t.TempDir())
	row := mergetest.Traps()[0].Steps[0].Rows[0]
	appendRows(t, store, def, row.Lake())
	q := &queries{store: store, def: def, stranger: "0000.00000000000000000000000000000009.1.0000000000000001"}
	_, err := merge.Athena(t.Context(), q, store.Tables(), def, merge.Options{})
	if !errors.Is(err, merge.ErrRefused) || !strings.Contains(err.Error(), q.stranger+" is none of kind postgres") {
		t.Errorf("got error %v, want one that refuses %s", err, q.stranger)
	}
	if n := len(q.statements); strings.HasPrefix(q.statements[n-1], "MERGE") {
		t.Error("it has merged nevertheless")
	}
}

// New files are named as long as the list fits into a statement; else those are
// that are not new. It is one statement always.
func TestAthenaManyFiles(t *testing.T) {
	t.Parallel()
	def := pipeline(t, mergetest.Pipeline).ByTarget("d", "plain")
	store := open(t, t.TempDir())
	row := mergetest.Traps()[0].Steps[0].Rows[0]
	appendRows(t, store, def, row.Lake())
	from := run(t, store, def).To
	for range 3 {
		appendRows(t, store, def, row.Lake())
	}
	for size, want := range map[int]string{1: fmt.Sprintf(`"$path" NOT IN (SELECT "$path" FROM "d"."plain" FOR VERSION AS OF %d))`, from), 1 << 20: `"$path" IN ('file://`} {
		relations, err := merge.AddedRelations(t.Context(), store, def, size, merge.Options{Parts: 4})
		if err != nil {
			t.Fatal(err)
		}
		if len(relations) != 1 || !strings.Contains(relations[0], want) {
			t.Errorf("with %d bytes: %q, want one that has %s", size, relations, want)
		}
	}
}

// A first merge may be done in parts, a rebuild not.
func TestAthenaParts(t *testing.T) {
	t.Parallel()
	for name, column := range map[string]string{"plain": `CAST("id" AS varchar)`, "unkeyed": `"cdc_position"`} {
		def := pipeline(t, mergetest.Pipeline).ByTarget("d", name)
		store := open(t, t.TempDir())
		log := mergetest.UnkeyedLog(1)[:1]
		if name == "plain" {
			log = [][][]byte{mergetest.Traps()[0].Steps[0].Rows[0].Lake()}
		}
		appendRows(t, store, def, log...)
		for rebuild, want := range map[bool]int{false: 3, true: 1} {
			relations, err := merge.AddedRelations(t.Context(), store, def, 1, merge.Options{Parts: 3, Rebuild: rebuild})
			if err != nil {
				t.Fatal(err)
			}
			if len(relations) != want || !rebuild && !strings.Contains(relations[2], "mod(crc32(to_utf8(concat('|', '|', "+column+"))), 3) = 2)") {
				t.Errorf("%s, rebuild %t: %q, want %d", name, rebuild, relations, want)
			}
		}
	}
	def := pipeline(t, mergetest.Pipeline).ByTarget("d", "plain")
	store := open(t, t.TempDir())
	appendRows(t, store, def, mergetest.Traps()[0].Steps[0].Rows[0].Lake())
	q := &queries{store: store, def: def}
	result, err := merge.Athena(t.Context(), q, store.Tables(), def, merge.Options{Parts: 3})
	if err != nil || result.Read != 3 || result.Late != 1 || strings.Count(strings.Join(q.statements, "\n"), "MERGE INTO") != 3 {
		t.Errorf("%+v, %v; want three merges, each upon the one before", result, err)
	}
	// A part by itself may lack the changes of the newest epoch.
	counts := slices.DeleteFunc(q.statements, func(s string) bool { return !strings.HasPrefix(s, "SELECT count(*)") })
	if len(counts) != 1 || strings.Contains(counts[0], "crc32") {
		t.Errorf("%q, want what is new looked at once, before any merge, and whole", counts)
	}
}

// Athena need not say how many rows a MERGE has changed: what is left to do
// tells whether it has done its work.
func TestAthenaSaysNoCount(t *testing.T) {
	t.Parallel()
	def := pipeline(t, mergetest.Pipeline).ByTarget("d", "plain")
	for _, intrude := range []bool{false, true} {
		store := open(t, t.TempDir())
		appendRows(t, store, def, mergetest.Traps()[0].Steps[0].Rows[0].Lake())
		q := &queries{store: store, def: def, silent: true, intrude: intrude}
		result, err := merge.Athena(t.Context(), q, store.Tables(), def, merge.Options{})
		if err != nil || len(result.Warnings) != 1 {
			t.Fatalf("intrude %t: %+v, %v; want it merged, with a warning", intrude, result, err)
		}
		merges := strings.Count(strings.Join(q.statements, "\n"), "MERGE INTO")
		if want := map[bool]int{false: 1, true: 2}[intrude]; merges != want {
			t.Errorf("intrude %t: %d merges, want %d", intrude, merges, want)
		}
		if again, err := merge.Athena(t.Context(), q, store.Tables(), def, merge.Options{}); err != nil || again.From != result.To {
			t.Errorf("intrude %t: the next run: %+v, %v; want it noted", intrude, again, err)
		}
	}
}
