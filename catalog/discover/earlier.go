package discover

import (
	"encoding/hex"
	"slices"
	"strings"

	"icehose/catalog"
	"icehose/internal/canon"
)

// later gives a column that was added to a table what its rows so far have in
// it. A source that keeps this says so; of others only the present default is
// known, which may have changed since.
func (u *updater) later(c *proposedColumn, t *catalog.SourceTable) {
	source := c.source
	if c.Exclude || slices.Contains(t.Key, source.Name) {
		return
	}
	n := Note{
		Kind: Attention, Table: t.FullName(), Column: c.Name, Meanwhile: "they are null in the lake",
		Edit: "write default: if they all have the same value, or reload the table",
	}
	switch {
	case source.Earlier != nil && !c.NotNull:
		n.Text = "rows from before it was added have a value in it, and no default: can say so, because it may be null in the source"
		n.Edit = "reload the table"
	case source.Earlier != nil:
		if u.takeDefault(c, *source.Earlier) {
			c.because("default: what rows from before it was added have in it")
			return
		}
		n.Text = "what rows from before it was added have in it is no " + c.Type.String()
	case u.schema.KnowsEarlier && c.NotNull:
		n.Text = "nothing tells what rows from before it was added have in it: " +
			"they were written anew since, or never had one value, and the present default may be another"
	case u.schema.KnowsEarlier && source.Default != nil && source.Default.Expression:
		n.Text = "rows from before it was added may each have got a value of its own"
		n.Edit = "reload the table"
	case u.schema.KnowsEarlier, source.Default == nil && !c.NotNull:
		return
	case source.Default == nil:
		n.Text = "rows from before it was added have a value in it that nothing tells"
	case !c.NotNull:
		n.Text = "rows from before it was added have the default that the source had then, if it had one, and no default: can say so, because it may be null in the source"
		n.Edit = "reload the table"
	case !source.Default.Expression && u.takeDefault(c, source.Default.Text):
		c.because("default: the present one, which rows from before it was added have, unless it was changed since")
		n.Text = "rows from before it was added are taken to have the default that the source has now, and nothing tells whether it was another then"
		n.Meanwhile, n.Edit = "", "correct default: if it was changed since"
	default:
		n.Text = "rows from before it was added have a default that is not a plain value"
	}
	u.note(n)
}

// because adds a reason to the column's comment.
func (c *proposedColumn) because(why string) { c.why = strings.TrimPrefix(c.why+"; "+why, "; ") }

// takeDefault makes the source's text of a value the column's default, unless it
// is none of the column's type.
func (u *updater) takeDefault(c *proposedColumn, value string) bool {
	form, raw := canon.Postgres, []byte(value)
	if u.schema.Engine == catalog.MySQL || u.schema.Engine == catalog.MariaDB {
		form = canon.MySQL
		if c.Type.Kind == catalog.Binary || c.Type.Kind == catalog.Fixed {
			raw = hex.AppendEncode(nil, raw)
		}
	}
	text, err := canon.Append(nil, &c.Column, form, raw)
	if err != nil {
		return false
	}
	literal := catalog.Literal(text)
	c.Default = &literal
	return true
}
