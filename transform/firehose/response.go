package firehose

import (
	"encoding/base64"
	"fmt"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/transform"
)

// The fixed parts of a response.
const (
	responseHead = `{"records":[`
	responseTail = `]}`
	headID       = `{"recordId":`
	headResult   = `,"result":"`
	headField    = `","`
	headPayload  = `":"`
	headDatabase = `","metadata":{"otfMetadata":{"destinationDatabaseName":"`
	headTable    = `","destinationTableName":"`
	headOp       = `","operation":"`
	tailOk       = `"}}}`
	tailEcho     = `"}`
)

// A room tells the transform how large the answers to an event are.
type room struct {
	event *event
	limit int
	// quiet leaves the payload out of every answer that would give it back.
	quiet bool
}

var _ transform.Room = (*room)(nil)

// newRoom returns the room that a response of at most limit bytes has. Only an
// event larger than Lambda accepts can hold more than there is room to give
// back. Then nothing is given back: Firehose keeps the originals itself.
func newRoom(e *event, limit int) (*room, error) {
	r := &room{event: e, limit: limit - len(responseHead) - len(responseTail)}
	for _, r.quiet = range []bool{false, true} {
		size := 0
		for i := range e.records {
			size += r.Echo(i)
		}
		if size <= r.limit {
			return r, nil
		}
	}
	return nil, fmt.Errorf("form response: %d record ids do not fit in %d bytes", len(e.records), limit)
}

// Limit implements transform.Room.
func (r *room) Limit() int { return r.limit }

// Echo implements transform.Room. A comma is counted with every answer, the
// first too.
func (r *room) Echo(i int) int {
	record := &r.event.records[i]
	size := len(headID) + len(record.rawID) + len(headResult) + len(transform.ProcessingFailed) + len(headField) + len(record.field()) +
		len(headPayload) + len(tailEcho) + 1
	if !r.quiet {
		size += record.echo
	}
	return size
}

// payload is what of a record is given back.
func (r *room) payload(record *eventRecord) []byte {
	if r.quiet {
		return nil
	}
	return record.payload
}

// Row implements transform.Room.
func (r *room) Row(i int, row *transform.Row) int {
	record := &r.event.records[i]
	return len(headID) + len(record.rawID) + len(headResult) + len(transform.Ok) + len(headField) + len(record.field()) +
		len(headPayload) + base64.StdEncoding.EncodedLen(len(row.Data)) + len(headDatabase) + len(row.Table.Database()) +
		len(headTable) + len(row.Table.Name()) + len(headOp) + len(row.Operation.String()) + len(tailOk) + 1
}

func (r *eventRecord) field() string {
	if r.kafka {
		return fieldKafka
	}
	return fieldData
}

// answers are the answers of a response in the making.
type answers struct {
	text   []byte // all of them, each with a comma before it but the first
	places []answer
	spare  []byte // memory for a second version
	event  int
	// ratio is the size of the last response to that of its event, and a bit
	// more: a guess at the memory that the next one needs.
	ratio float64
	// The metadata of the last answer: most are the same as the one before.
	routing   []byte
	routed    *catalog.Table
	operation cdc.Operation
}

// An answer is where one stands, and what it says of the delivery.
type answer struct {
	from, routing int // routing begins the metadata of an Ok answer
	outcome       transform.Outcome
	operation     cdc.Operation
}

// begin begins the response to an event of so many bytes, in memory if there
// is any.
func (a *answers) begin(memory []byte, event int) {
	if cap(memory) == 0 {
		memory = make([]byte, 0, len(responseHead)+int(float64(event)*a.ratio))
	}
	a.text, a.places, a.event = append(memory[:0], responseHead...), a.places[:0], event
}

// add appends the answer to record i as far as it is known.
func (a *answers) add(room *room, i int, r *transform.Result) {
	out := a.text
	if i > 0 {
		out = append(out, ',')
	}
	place := answer{from: len(out), outcome: r.Outcome, operation: r.Row.Operation}
	record := &room.event.records[i]
	if out = appendHead(out, record, r.Outcome); r.Outcome == transform.Ok {
		out = appendEncode(out, r.Row.Data)
		place.routing = len(out)
		if r.Row.Table != a.routed || r.Row.Operation != a.operation {
			a.routing, a.routed, a.operation = appendRouting(a.routing[:0], &r.Row), r.Row.Table, r.Row.Operation
		}
		out = append(out, a.routing...)
	} else {
		out = append(append(out, room.payload(record)...), tailEcho...)
	}
	a.text, a.places = out, append(a.places, place)
}

// appendHead appends an answer up to its payload.
func appendHead(out []byte, record *eventRecord, outcome transform.Outcome) []byte {
	out = append(append(out, headID...), record.rawID...)
	if outcome == transform.Ok && !record.kafka {
		return append(out, headResult+string(transform.Ok)+headField+fieldData+headPayload...)
	}
	out = append(append(out, headResult...), outcome...)
	return append(append(append(out, headField...), record.field()...), headPayload...)
}

func appendRouting(out []byte, row *transform.Row) []byte {
	out = append(append(out, headDatabase...), row.Table.Database()...)
	out = append(append(out, headTable...), row.Table.Name()...)
	out = append(append(out, headOp...), row.Operation.String()...)
	return append(out, tailOk...)
}

// response returns the response, with what later records have changed.
func (a *answers) response(room *room, results []transform.Result) []byte {
	text := append(a.text, responseTail...)
	a.text = nil // it is the caller's now
	a.ratio = 1.05 * float64(len(text)) / float64(a.event)
	out, done := a.spare[:0], 0
	for i := range results {
		r, place := &results[i], &a.places[i]
		if r.Outcome == place.outcome && r.Row.Operation == place.operation {
			continue
		}
		out = append(out, text[done:place.from]...)
		if done = len(text) - len(responseTail); i+1 < len(results) {
			done = a.places[i+1].from - 1 // the comma
		}
		if r.Outcome == transform.Ok {
			out = appendRouting(append(out, text[place.from:place.routing]...), &r.Row)
			continue
		}
		record := &room.event.records[i]
		out = append(append(appendHead(out, record, r.Outcome), room.payload(record)...), tailEcho...)
	}
	if done == 0 {
		return text
	}
	a.spare = append(out, text[done:]...)
	return append(text[:0], a.spare...)
}

// A ResponseRecord is one answer of a response. Database, Table and Operation
// are set when Result is Ok.
type ResponseRecord struct {
	RecordID        string
	Result          transform.Outcome
	Data            []byte // decoded
	Database, Table string
	Operation       cdc.Operation // Insert, Update or Delete
}

// ParseResponse reads a response as Firehose does, for a sink that stands in
// its place. What would fail the whole batch there is an error here: broken
// JSON, a result that is none of the three, data that is not base64.
func ParseResponse(response []byte) ([]ResponseRecord, error) {
	s := &scanner{b: response}
	var out []ResponseRecord
	err := s.object(func(key []byte) error {
		if string(key) != "records" {
			return s.skip(1)
		}
		return s.array(func() error {
			r, err := parseAnswer(s)
			out = append(out, r)
			return err
		})
	})
	if err == nil {
		err = s.end()
	}
	if err != nil {
		return nil, fmt.Errorf("parse response: %w", err)
	}
	return out, nil
}

func parseAnswer(s *scanner) (ResponseRecord, error) {
	r := ResponseRecord{Operation: cdc.Insert}
	s.peek()
	at, identified := s.i, false
	err := s.object(func(key []byte) error {
		switch string(key) {
		case "recordId":
			identified = true
			return s.into(&r.RecordID)
		case "result":
			var text string
			err := s.into(&text)
			r.Result = transform.Outcome(text)
			return err
		case fieldData, fieldKafka:
			s.peek()
			record := eventRecord{at: places{payload: s.i}}
			var err error
			if record.payload, _, err = s.payload(); err != nil {
				return err
			}
			var ok bool
			if r.Data, ok, err = record.decode(nil, s.b); err == nil && !ok {
				err = s.fail("data that is not base64")
			}
			return err
		case "metadata":
			return s.object(func(key []byte) error {
				if string(key) != "otfMetadata" {
					return s.skip(1)
				}
				return s.otf(&r)
			})
		}
		return s.skip(1)
	})
	if err != nil {
		return r, err
	}
	switch r.Result {
	case transform.Ok:
	case transform.Dropped, transform.ProcessingFailed:
		r.Database, r.Table, r.Operation = "", "", 0
	default:
		return r, &syntaxError{"record with an invalid result", at}
	}
	if !identified {
		return r, &syntaxError{"record without a recordId", at}
	}
	return r, nil
}

// otf reads the routing of a record.
func (s *scanner) otf(r *ResponseRecord) error {
	return s.object(func(key []byte) error {
		switch string(key) {
		case "destinationDatabaseName":
			return s.into(&r.Database)
		case "destinationTableName":
			return s.into(&r.Table)
		case "operation":
			var text string
			if err := s.into(&text); err != nil {
				return err
			}
			for _, o := range []cdc.Operation{cdc.Insert, cdc.Update, cdc.Delete} {
				if o.String() == text {
					r.Operation = o
					return nil
				}
			}
			return s.fail("operation that is not insert, update or delete")
		}
		return s.skip(1)
	})
}

// into reads a string.
func (s *scanner) into(dst *string) error {
	raw, escaped, err := s.text()
	if err != nil {
		return err
	}
	if escaped {
		raw = unescape(raw)
	}
	*dst = string(raw)
	return nil
}
