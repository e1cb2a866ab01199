package iceberg

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/apache/iceberg-go"
	icecatalog "github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"

	"icehose/catalog"
)

// attempts is how often a table is planned anew because another one changed it
// in between. Each time, somebody else made progress.
const attempts = 20

// Apply makes the tables what the pipeline file says and returns what it did.
// If anything is refused it changes nothing, and the error wraps ErrRefused;
// the plan then says what. An error in the middle leaves whole tables done:
// Apply may be run again.
func (l *Lake) Apply(ctx context.Context, p *catalog.Pipeline) (*Plan, error) {
	plan, err := l.Plan(ctx, p)
	if err != nil {
		return nil, err
	}
	if plan.Refused() {
		return plan, fmt.Errorf("apply: %w", ErrRefused)
	}
	done := new(Plan)
	for _, t := range p.Tables {
		tp, err := l.applyTable(ctx, t)
		if tp != nil {
			done.Tables = append(done.Tables, *tp)
		}
		if err != nil {
			return done, fmt.Errorf("apply table %s: %w", fullName(t), err)
		}
	}
	return done, nil
}

// applyTable brings one table up to date, or finds that it is. The plan is nil
// when the table is left out.
func (l *Lake) applyTable(ctx context.Context, t *catalog.Table) (*TablePlan, error) {
	var last error
	for range attempts {
		current, err := l.load(ctx, t)
		if err != nil {
			return nil, err
		}
		if current == nil && l.OnlyExisting {
			return nil, nil //nolint:nilnil // left out
		}
		plan, err := l.planTable(ctx, t, current)
		if err != nil {
			return nil, err
		}
		if len(plan.Refusals) > 0 {
			return plan, ErrRefused
		}
		if len(plan.Actions) == 0 {
			return plan, nil
		}
		if current == nil {
			err = l.create(ctx, t)
		} else {
			err = evolve(ctx, t, current, plan.Actions)
		}
		if err == nil {
			return plan, l.verify(ctx, t)
		}
		if !IsConflict(err) {
			return nil, err
		}
		last = err
	}
	return nil, fmt.Errorf("give up after %d attempts: %w", attempts, last)
}

// IsConflict reports whether an error says that another one came first. The SQL
// and Glue catalogs of iceberg-go report requirements that no longer hold as
// plain errors.
func IsConflict(err error) bool {
	return errors.Is(err, table.ErrCommitFailed) || errors.Is(err, icecatalog.ErrTableAlreadyExists) ||
		strings.Contains(strings.ToLower(err.Error()), "requirement failed")
}

func (l *Lake) create(ctx context.Context, t *catalog.Table) error {
	schema, err := SchemaOf(t)
	if err != nil {
		return err
	}
	namespace := icecatalog.ToIdentifier(t.Database())
	exists, err := l.Tables.CheckNamespaceExists(ctx, namespace)
	if err != nil {
		return fmt.Errorf("look for namespace %s: %w", t.Database(), err)
	}
	if !exists {
		if err := l.Tables.CreateNamespace(ctx, namespace, nil); err != nil && !errors.Is(err, icecatalog.ErrNamespaceAlreadyExists) {
			return fmt.Errorf("create namespace %s: %w", t.Database(), err)
		}
	}
	spec, err := SpecOf(t, schema)
	if err != nil {
		return err
	}
	options := []icecatalog.CreateTableOpt{icecatalog.WithProperties(NewProperties(t)), icecatalog.WithPartitionSpec(spec)}
	if l.Location != "" {
		options = append(options, icecatalog.WithLocation(strings.TrimRight(l.Location, "/")+"/"+t.Database()+"/"+t.Name()))
	}
	if _, err := l.Tables.CreateTable(ctx, identifier(t), schema, options...); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	return nil
}

// NewProperties returns the properties with which the table is created.
func NewProperties(t *catalog.Table) Properties {
	properties := Properties{table.PropertyFormatVersion: "2"}
	maps.Copy(properties, t.Properties())
	maps.Copy(properties, noted(t, nil, true))
	return properties
}

// evolve commits the actions as one change of the table.
func evolve(ctx context.Context, t *catalog.Table, current *table.Table, actions []Action) error {
	tx := current.NewTransaction()
	if err := Stage(tx, t, current, actions); err != nil {
		return err
	}
	if _, err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// Compare says what must be done to a table that exists; current is what its
// catalog has. Columns that the pipeline file does not have are refused.
func Compare(ctx context.Context, t *catalog.Table, current *table.Table) (*TablePlan, error) {
	return new(Lake).planTable(ctx, t, current)
}

// Stage adds the actions of a plan to a transaction of the table it was made
// for, so that they are committed together with whatever else is in it.
func Stage(tx *table.Transaction, t *catalog.Table, current *table.Table, actions []Action) error {
	update := tx.UpdateSchema(true, false)
	properties := make(Properties)
	columns, key, partition := false, false, false
	for _, a := range actions {
		columns = columns || a.Kind != SetProperty && a.Kind != Partition
		switch a.Kind {
		case Add:
			typ, err := wantedType(t, a.Column)
			if err != nil {
				return err
			}
			update.AddColumn([]string{a.Column}, typ, "", false, nil)
		case Widen:
			typ, err := wantedType(t, a.Column)
			if err != nil {
				return err
			}
			update.UpdateColumn([]string{nameBefore(actions, a.Column)}, table.ColumnUpdate{FieldType: iceberg.Optional[iceberg.Type]{Val: typ, Valid: true}})
		case Rename:
			update.RenameColumn([]string{a.From}, a.To)
		case Drop:
			update.DeleteColumn([]string{a.Column})
		case SetKey:
			key = true
		case Partition:
			partition = true
		case SetProperty:
			properties[a.Column] = a.To
		case Create:
			return errors.New("the table exists")
		default:
			return fmt.Errorf("no action %q", a.Kind)
		}
	}
	if key {
		paths := make([][]string, len(t.Key))
		for i, name := range t.Key {
			paths[i] = []string{nameBefore(actions, name)}
		}
		update.SetIdentifierField(paths)
	}
	if columns {
		if err := update.Commit(); err != nil {
			return fmt.Errorf("change columns: %w", err)
		}
	}
	if partition {
		if err := repartition(tx, t, current.Spec()); err != nil {
			return err
		}
	}
	if len(properties) > 0 {
		if err := tx.SetProperties(properties); err != nil {
			return fmt.Errorf("set properties: %w", err)
		}
	}
	return nil
}

// nameBefore is a column's name before the renames among the actions.
func nameBefore(actions []Action, name string) string {
	for _, a := range actions {
		if a.Kind == Rename && a.To == name {
			return a.From
		}
	}
	return name
}

func wantedType(t *catalog.Table, name string) (iceberg.Type, error) {
	columns, _ := t.LakeColumns()
	for _, c := range columns {
		if c.Name == name {
			return TypeOf(c.Type)
		}
	}
	return nil, fmt.Errorf("column %s is not in the pipeline file", name)
}

// verify reads the table back: what a catalog made of it counts, not what it
// was asked for.
func (l *Lake) verify(ctx context.Context, t *catalog.Table) error {
	current, err := l.load(ctx, t)
	if err != nil {
		return err
	}
	if current == nil {
		return errors.New("the catalog does not have the table that it created")
	}
	want, err := SchemaOf(t)
	if err != nil {
		return err
	}
	if err := CheckSchema(current.Schema(), want); err != nil {
		return fmt.Errorf("the catalog made something else: %w", err)
	}
	return nil
}
