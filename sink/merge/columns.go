package merge

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/iceberg-go"

	"icehose/catalog"
	"icehose/catalog/artifact"
	lake "icehose/catalog/iceberg"
	"icehose/sink"
)

// PropertyFields notes which columns of the changelog those of the current table
// are: the changelog's table UUID, a colon, and for each a field id, a blank and
// the name that the column has in the current table, with commas. Field ids tell a
// column that was renamed from one that is new, which names cannot.
const PropertyFields = sink.PropertyPrefix + "merged-fields"

// A place is where a data column of the current table belongs.
type place struct {
	name string // that it has
	id   int    // field id in the changelog, 0 if it is not known
	to   string // name that it gets; "" for a column that goes
}

// settledPlan is newPlan of a current table whose columns are where those of the
// changelog have gone: it renames and drops what catalog apply has renamed and
// dropped there. Each step is a commit with its own note, so that a run that was
// killed is taken up by the next one; after any step every key is folded anew.
func settledPlan(ctx context.Context, tables lake.Tables, t *catalog.Table, o Options) (*plan, error) {
	for {
		p, err := newPlan(ctx, tables, t, o)
		if err != nil || len(p.moves) == 0 {
			return p, err
		}
		if err := p.move(ctx); err != nil {
			return nil, err
		}
	}
}

// readColumns finds out what is to be done with the columns of the current table
// first, and which it has not yet.
func (p *plan) readColumns(o Options) error {
	columns, _ := p.t.Current().LakeColumns()
	for _, c := range columns {
		if _, ok := p.current.Schema().FindFieldByName(c.Name); !ok {
			p.missing = append(p.missing, c)
		}
	}
	places, err := p.places(o)
	if err != nil {
		return err
	}
	noted, hasKey := p.current.Properties()[PropertyKey]
	key := moveNames(noted, places)
	if hasKey && key != keyNote(p.t) {
		return fmt.Errorf("%w: the current table was merged by the key (%s), the pipeline file says (%s): drop %s, and the next icehose merge makes it anew",
			ErrRefused, key, keyNote(p.t), p.result().Current)
	}
	return p.step(places, strings.Split(noted, ","))
}

// places says where each data column of the current table belongs. Where no note
// tells which column of the changelog it is, the newest schema does that had one of
// its name, and then the pipeline file.
func (p *plan) places(o Options) ([]place, error) {
	columns, data := p.t.LakeColumns()
	wanted := columns[:data]
	noted := readFields(p.current.Properties()[PropertyFields], p.log.Metadata().TableUUID().String())
	var places []place
	for _, f := range p.current.Schema().Fields() {
		if strings.HasPrefix(f.Name, "cdc_") { // metadata columns keep their names
			continue
		}
		at := place{name: f.Name, id: noted[f.Name]}
		if at.id == 0 {
			at.id = p.idOf(f)
		}
		now, there := p.log.Schema().FindFieldByID(at.id)
		switch renamed := slices.IndexFunc(wanted, func(c catalog.Column) bool { return c.RenamedFrom == f.Name }); {
		case there && slices.ContainsFunc(wanted, func(c catalog.Column) bool { return c.Name == now.Name }):
			at.to = now.Name
		case there && o.whole:
			return nil, fmt.Errorf("%w: column %s: the changelog has it and the pipeline file does not: icehose catalog apply --allow-drop drops it there, "+
				"and the next icehose merge here; or put it back into the file", ErrRefused, now.Name)
		case there: // the statements leave it alone
			continue
		case at.id != 0: // the changelog has dropped it
		case renamed >= 0:
			at.to = wanted[renamed].Name
		case o.whole && !o.Rebuild:
			return nil, fmt.Errorf("%w: column %s of %s is none of the changelog's: drop it there, or icehose merge --rebuild drops it and its values",
				ErrRefused, f.Name, p.result().Current)
		case !o.whole:
			continue
		}
		places = append(places, at)
	}
	return places, nil
}

// idOf finds the field id of a column in the newest schema of the changelog that
// had one of its name and type, or at least of its name, since an engine's types
// may be poorer; 0 if there was none.
func (p *plan) idOf(f iceberg.NestedField) int {
	schemas := slices.Clone(p.log.Metadata().Schemas())
	slices.SortFunc(schemas, func(a, b *iceberg.Schema) int { return b.ID - a.ID })
	byName := 0
	for _, schema := range append([]*iceberg.Schema{p.log.Schema()}, schemas...) {
		had, ok := schema.FindFieldByName(f.Name)
		if ok && had.Type.Equals(f.Type) {
			return had.ID
		}
		if ok && byName == 0 {
			byName = had.ID
		}
	}
	return byName
}

// step plans what one commit can do: a column goes, or gets a name that no other
// has. Of names that change places one column must go, to be added anew: its values
// come back with the fold. key are the columns by which was merged.
func (p *plan) step(places []place, key []string) error {
	taken, occupied := make(map[string]bool), make(map[string]bool)
	for _, at := range places {
		taken[at.to] = taken[at.to] || at.to == at.name
	}
	for i, at := range places {
		if at.to != "" && at.to != at.name && taken[at.to] { // left by an engine that has added its successor
			places[i].to = ""
			continue
		}
		taken[at.to] = true
	}
	for _, at := range places {
		occupied[at.name] = at.to != ""
	}
	pending := -1
	var drops, renames []lake.Action
	p.placed = nil
	for i, at := range places {
		switch {
		case at.to == "":
			drops = append(drops, lake.Action{Kind: lake.Drop, Column: at.name})
			continue
		case at.to != at.name && !occupied[at.to]:
			renames = append(renames, lake.Action{Kind: lake.Rename, Column: at.to, From: at.name, To: at.to})
			at.name = at.to
		case at.to != at.name && pending < 0 && !slices.Contains(key, at.name):
			pending = i
		}
		p.placed = append(p.placed, at)
	}
	p.moves = append(drops, renames...)
	if len(p.moves) == 0 && pending >= 0 {
		p.moves = []lake.Action{{Kind: lake.Drop, Column: places[pending].name}}
		p.placed = slices.Delete(p.placed, pending, pending+1)
	}
	moved := slices.ContainsFunc(places, func(at place) bool { return at.to != at.name })
	if moved && len(p.moves) == 0 {
		return fmt.Errorf("%w: columns of the key have changed places: drop %s, and the next icehose merge makes it anew", ErrRefused, p.result().Current)
	}
	return p.checkDrops()
}

// checkDrops refuses to drop what more than rows needs.
func (p *plan) checkDrops() error {
	for _, a := range p.moves {
		if a.Kind != lake.Drop {
			continue
		}
		f, _ := p.current.Schema().FindFieldByName(a.Column)
		if use := lake.UseOf(p.current, f.ID); use != "" {
			return fmt.Errorf("%w: column %s has gone from the changelog, and the current table's %s needs it: drop %s, and the next icehose merge makes it anew",
				ErrRefused, a.Column, use, p.result().Current)
		}
	}
	return nil
}

// move commits the step that is planned. Without its note of columns the table is
// one whose keys are all to be folded anew.
func (p *plan) move(ctx context.Context) error {
	tx := p.current.NewTransaction()
	if err := lake.Stage(tx, p.t.Current(), p.current, p.moves); err != nil {
		return fmt.Errorf("change columns of the current table: %w", err)
	}
	notes := iceberg.Properties{PropertyFields: p.fieldsText(p.placed), PropertyColumns: ""}
	if noted, ok := p.current.Properties()[PropertyKey]; ok {
		var renames []place
		for _, a := range p.moves {
			if a.Kind == lake.Rename {
				renames = append(renames, place{name: a.From, to: a.To})
			}
		}
		notes[PropertyKey] = moveNames(noted, renames)
	}
	if err := tx.SetProperties(notes); err != nil {
		return fmt.Errorf("change columns of the current table: %w", err)
	}
	if _, err := tx.Commit(ctx); err != nil {
		if lake.IsConflict(err) {
			err = fmt.Errorf("%w: %w", sink.ErrConflict, err)
		}
		return fmt.Errorf("change columns of the current table: %w", err)
	}
	return nil
}

// addMissing commits the columns that the current table has not yet.
func (p *plan) addMissing(ctx context.Context) error {
	p.moves = nil
	for _, c := range p.missing {
		p.moves = append(p.moves, lake.Action{Kind: lake.Add, Column: c.Name})
	}
	return p.move(ctx)
}

// moveNames gives names, with commas between, those that the columns get.
func moveNames(names string, places []place) string {
	list := strings.Split(names, ",")
	for i, name := range list {
		if at := slices.IndexFunc(places, func(at place) bool { return at.name == name && at.to != "" }); at >= 0 {
			list[i] = places[at].to
		}
	}
	return strings.Join(list, ",")
}

// fieldsNote is PropertyFields of a current table whose columns have the names of
// the changelog's.
func (p *plan) fieldsNote() string {
	columns, data := p.t.LakeColumns()
	places := make([]place, data)
	for i, c := range columns[:data] {
		f, _ := p.log.Schema().FindFieldByName(c.Name)
		places[i] = place{name: c.Name, id: f.ID}
	}
	return p.fieldsText(places)
}

func (p *plan) fieldsText(places []place) string {
	var texts []string
	for _, at := range places {
		if at.id != 0 {
			texts = append(texts, strconv.Itoa(at.id)+" "+at.name)
		}
	}
	return p.log.Metadata().TableUUID().String() + ":" + strings.Join(texts, ",")
}

// readFields reads PropertyFields: field ids by name. That of another changelog,
// or of none, says nothing.
func readFields(text, uuid string) map[string]int {
	of, list, _ := strings.Cut(text, ":")
	if of != uuid {
		return nil
	}
	fields := make(map[string]int)
	for entry := range strings.SplitSeq(list, ",") {
		id, name, _ := strings.Cut(entry, " ")
		if n, err := strconv.Atoi(id); err == nil {
			fields[name] = n
		}
	}
	return fields
}

// asOf is the changelog as of the newest snapshot, in Athena's dialect. Where columns
// were added or renamed after it, the snapshot has not the columns of the table. Then
// what is new is no list of files: every key is folded anew.
func (p *plan) asOf() string {
	to := strconv.FormatInt(p.to, 10)
	columns, _ := p.t.LakeColumns()
	past := make([]artifact.PastColumn, len(columns))
	same := true
	then := p.schemaAt(p.to)
	for i, c := range columns {
		now, _ := p.log.Schema().FindFieldByName(c.Name)
		if f, ok := then.FindFieldByID(now.ID); ok {
			past[i] = artifact.PastColumn{Name: f.Name, Other: !f.Type.Equals(now.Type)}
		}
		same = same && past[i].Name == c.Name && !past[i].Other
	}
	if same {
		return artifact.AsOfSnapshot(artifact.Athena, p.t, to)
	}
	return artifact.AsOfPresent(artifact.Athena, p.t, to, past)
}

// schemaAt is the schema with which a snapshot of the changelog was made.
func (p *plan) schemaAt(snapshot int64) *iceberg.Schema {
	if s := p.log.Metadata().SnapshotByID(snapshot); s != nil && s.SchemaID != nil {
		for _, schema := range p.log.Metadata().Schemas() {
			if schema.ID == *s.SchemaID {
				return schema
			}
		}
	}
	return p.log.Schema()
}

// checkOwn refuses a table that has the current table's name and was made for
// something else: it would be merged into, and whoever writes it could not open it
// any more.
func (p *plan) checkOwn() error {
	properties := p.current.Properties()
	for _, name := range []string{PropertyMerged, PropertyKey, PropertyColumns} {
		if _, ok := properties[name]; ok {
			return nil
		}
	}
	has := func(name string) bool { _, ok := p.current.Schema().FindFieldByName(name); return ok }
	written := properties[sink.PropertyCommit] != "" // by a sink: a merge has left notes
	if has(catalog.ColumnPosition) && !has(catalog.ColumnOperation) && has(catalog.ColumnUnresolved) == (len(p.t.Key) > 0) && !written && p.idsFit() {
		return nil
	}
	r := p.result()
	return fmt.Errorf("%w: %s is no current table of %s, although it has the name: give one of them another target:, or drop %[2]s", ErrRefused, r.Current, r.Table)
}

// idsFit reports whether the identifier, if there is one, is that of a current table.
func (p *plan) idsFit() bool {
	s := p.current.Schema()
	want := p.t.Current().Key
	return len(s.IdentifierFieldIDs) == 0 || len(s.IdentifierFieldIDs) == len(want) && !slices.ContainsFunc(s.IdentifierFieldIDs, func(id int) bool {
		name, _ := s.FindColumnName(id)
		return !slices.Contains(want, name)
	})
}
