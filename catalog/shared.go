package catalog

import "icehose/cdc"

// SharesPositions reports whether two changes of one row may have the same position:
// it is that of a column, whose values the source may repeat.
func (t *Table) SharesPositions() bool { return t.Position.Source == cdc.SourceColumn }
