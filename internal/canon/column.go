package canon

import (
	"slices"
	"strings"

	"icehose/catalog"
)

// A Column is a column made ready: what every value of it asks, looked up once.
type Column struct {
	column      *catalog.Column
	round, null bool // the losses that the pipeline file allows
	padded      bool
	numeric     bool              // a text of the digits of a number that no decimal can hold
	fixed       catalog.FixedText // of a text; zero for none
	width       int               // in bytes, to which binary values are padded; 0 for none
}

// Prepare makes a column ready.
func Prepare(c *catalog.Column) Column {
	ready := Column{
		column: c, round: slices.Contains(c.AllowLossy, catalog.LossRound), null: slices.Contains(c.AllowLossy, catalog.LossNull),
		padded: catalog.PaddedChar(c.SourceType), width: catalog.PaddedBinary(c.SourceType),
		numeric: c.Type.Kind == catalog.String && exactNumber(c.SourceType),
	}
	if c.Type.Kind == catalog.String {
		ready.fixed = catalog.FixedTextOf(c.SourceType)
	}
	return ready
}

// exactNumber reports whether a source_type is one whose values are exact
// decimal numbers, in an engine's words or in those of DMS.
func exactNumber(sourceType string) bool {
	base, _, _ := strings.Cut(strings.TrimPrefix(strings.ToLower(sourceType), "dms:"), "(")
	words := strings.Fields(base) // decimal(65,2) unsigned, numeric unsigned
	return len(words) > 0 && slices.Contains([]string{"numeric", "decimal", "dec", "fixed", "number"}, words[0])
}

// IsItself reports whether the canonical text of every text that is valid
// Unicode is that text.
func (c *Column) IsItself() bool {
	return c.column.Type.Kind == catalog.String && !c.padded && !c.numeric && !c.fixed.Is()
}

// IsTrimmed reports whether the canonical text of every valid text is that
// text without the blanks at its end.
func (c *Column) IsTrimmed() bool { return c.column.Type.Kind == catalog.String && c.padded }
