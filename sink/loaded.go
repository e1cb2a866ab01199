package sink

import (
	"encoding/json"
	"fmt"
	"time"

	"icehose/cdc"
)

// PropertyLoad tells of the bulk load that a table's rows began with. It is set
// by the commit that brought them and stays.
const PropertyLoad = PropertyPrefix + "load"

// A LoadNote is PropertyLoad.
type LoadNote struct {
	// Position is that of the load: of all of its rows, or below them where each
	// has its own. The rows reflect every change below it.
	Position cdc.Position `json:"position"`
	Since    time.Time    `json:"since"` // when it began
	Rows     int64        `json:"rows"`
}

// Text renders the note as the property has it.
func (n *LoadNote) Text() (string, error) {
	text, err := json.Marshal(n)
	if err != nil {
		return "", fmt.Errorf("write load note: %w", err)
	}
	return string(text), nil
}

// ParseLoadNote reads what Text wrote; ok is false for the empty text.
func ParseLoadNote(text string) (note LoadNote, ok bool, err error) {
	if text == "" {
		return LoadNote{}, false, nil
	}
	if err := json.Unmarshal([]byte(text), &note); err != nil {
		return LoadNote{}, false, fmt.Errorf("read table property %s: %w", PropertyLoad, err)
	}
	if !note.Position.Valid() {
		return LoadNote{}, false, fmt.Errorf("read table property %s: it has no position", PropertyLoad)
	}
	return note, true, nil
}

// Handles reports whether a table's notes say that a sink has handled records
// of its stream: those are not read again.
func Handles(properties map[string]string) bool {
	text := properties[PropertyOffsets]
	return text != "" && text != "{}"
}

// Rewound returns the notes of a mirror that is loaded anew at a floor below
// what it had, so that the changes from there on must be read again: nothing is
// handled, and no deleted key is remembered.
func Rewound(properties map[string]string) (map[string]string, error) {
	before := newGuard(0)
	if err := before.readHorizon(properties[PropertyHorizon]); err != nil {
		return nil, err
	}
	horizon, err := newGuard(before.horizon).horizonText(newClock())
	if err != nil {
		return nil, err
	}
	return map[string]string{PropertyOffsets: "{}", PropertyTombstones: "[]", PropertyHorizon: horizon, PropertyHighest: "", PropertyStarts: "{}"}, nil
}

// isFresh reports whether no record of the stream was ever noted, so that the
// table may begin where others are: rows of commands alone, such as repairs, are
// not of the stream. A table that was rewound is not fresh: its changes from the
// floor on are its own.
func isFresh(properties map[string]string, noted offsets) bool {
	if properties[PropertyStarts] != "" || properties[PropertyOffsets] == "{}" {
		return false
	}
	for shard := range noted {
		if OfStream(shard) {
			return false
		}
	}
	return true
}

// readLoad lets the guard know of a bulk load. A change at or below its
// position that finds no row of its key is superseded: the load has read the
// source after it, and the key was gone by then.
func (g *guard) readLoad(text string) error {
	note, ok, err := ParseLoadNote(text)
	if err == nil && ok {
		g.load, g.hasLoad = pack([]byte(note.Position))
	}
	return err
}

// loaded reports whether a bulk load reflects the change of position p.
func (g *guard) loaded(p *packed) bool { return g.hasLoad && p.compare(&g.load) <= 0 }
