package mysql

// OwnedIDs is ownedIDs.
var OwnedIDs = ownedIDs

// Unplaced makes a Reader take its server for one that does not tell the place
// of a snapshot, as MySQL does not.
func (r *Reader) Unplaced() { r.places = false }
