package artifact

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"icehose/catalog"
)

// A LossError says that values of a source column do not arrive as they are,
// and that the pipeline file does not allow it.
type LossError struct {
	Table, Column string // source table, lake column
	Source        string // type of the source, as declared
	Type          catalog.Type
	Losses        []catalog.Loss // those that are not allowed
}

// Error implements error.
func (e *LossError) Error() string {
	words := make([]string, len(e.Losses))
	for i, l := range e.Losses {
		words[i] = strconv.Quote(string(l)) // a bare null is no text in YAML
	}
	return fmt.Sprintf("generate %s: column %s loses values of %s as %s: allow_lossy: [%s] allows it, or choose another type",
		e.Table, e.Column, e.Source, e.Type, strings.Join(words, ", "))
}

// checkLosses refuses columns that lose values without leave. A column whose
// source type is not given, or unknown here, is taken at its word: its values
// are checked one by one when they are transformed.
func checkLosses(p *catalog.Pipeline) error {
	var errs []error
	for _, t := range p.Tables {
		for _, c := range t.Columns {
			if c.Exclude || c.Mask != "" {
				continue
			}
			losses, err := lossesOf(p.Source.Engine, c)
			if err != nil {
				errs = append(errs, fmt.Errorf("generate %s: column %s: %w", t.Source, c.Name, err))
				continue
			}
			losses = slices.DeleteFunc(losses, func(l catalog.Loss) bool { return slices.Contains(c.AllowLossy, l) })
			if len(losses) > 0 {
				errs = append(errs, &LossError{Table: t.Source, Column: c.Name, Source: c.SourceType, Type: c.Type, Losses: losses})
			}
		}
	}
	return errors.Join(errs...)
}

// lossesOf lists the losses of a column, allowed or not: what the file says of
// the choice of its type, and what follows from the two types.
func lossesOf(engine catalog.Engine, c *catalog.Column) ([]catalog.Loss, error) {
	losses, err := typeLosses(engine, c)
	if err != nil {
		return nil, err
	}
	losses = append(losses, c.Loses...)
	slices.Sort(losses)
	return slices.Compact(losses), nil
}

func typeLosses(engine catalog.Engine, c *catalog.Column) ([]catalog.Loss, error) {
	if c.SourceType == "" {
		return nil, nil
	}
	declared, err := catalog.ParseSourceType(c.SourceType)
	if err != nil {
		return nil, err
	}
	if numeric := declared; numeric.Name == "numeric" && len(numeric.Params) == 0 && !numeric.Array && c.Type.Kind == catalog.Decimal {
		return []catalog.Loss{catalog.LossRound, catalog.LossNull}, nil // any number of digits, and NaN
	}
	m, err := catalog.MapType(engine, &catalog.SourceColumn{Declared: c.SourceType, Type: declared})
	if unmapped := (*catalog.UnmappedError)(nil); errors.As(err, &unmapped) {
		return slices.Clone(c.Loses), nil
	}
	if err != nil {
		return nil, err
	}
	losses := append(slices.Clone(m.Losses), c.Loses...)
	if m.Type != c.Type {
		losses = append(losses, narrowing(m.Type, c.Type)...)
	}
	return losses, nil
}

// narrowing lists what numbers lose on the way from one type to another. Other
// values that a type cannot hold fail when they are transformed.
func narrowing(from, to catalog.Type) []catalog.Loss {
	var losses []catalog.Loss
	whole, fraction := digits(from)
	toWhole, toFraction := digits(to)
	switch {
	case from.Kind == catalog.Double && to.Kind == catalog.Float:
		losses = append(losses, catalog.LossRound)
	case whole == 0 || toWhole == 0:
	default:
		integer := to.Kind != catalog.Decimal // which takes no fraction, not even a rounded one
		if fraction > toFraction && !integer {
			losses = append(losses, catalog.LossRound)
		}
		if whole > toWhole || fraction > toFraction && integer {
			losses = append(losses, catalog.LossNull)
		}
	}
	return losses
}

// digits returns how many digits an exact number of the type may need before
// and after the point; zero for other types.
func digits(t catalog.Type) (whole, fraction int) {
	switch t.Kind {
	case catalog.Int:
		return 10, 0
	case catalog.Long:
		return 19, 0
	case catalog.Decimal:
		return max(1, t.Precision-t.Scale), t.Scale
	case catalog.Boolean, catalog.Float, catalog.Double, catalog.Date, catalog.Time, catalog.Timestamp, catalog.TimestampTZ,
		catalog.String, catalog.UUID, catalog.Fixed, catalog.Binary:
	}
	return 0, 0
}
