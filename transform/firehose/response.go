package firehose

import (
	"encoding/base64"
	"fmt"

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
	return len(headID) + len(record.rawID) + len(headResult) + len(transform.ProcessingFailed) + len(headField) + len(record.field()) +
		len(headPayload) + len(r.payload(record)) + len(tailEcho) + 1
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

// response renders the answers, for which the transform has kept to the room.
func (r *room) response(results []transform.Result) []byte {
	e, size := r.event, len(responseHead)+len(responseTail)
	for i := range results {
		if results[i].Outcome == transform.Ok {
			size += r.Row(i, &results[i].Row)
		} else {
			size += r.Echo(i)
		}
	}
	out := make([]byte, 0, size)
	out = append(out, responseHead...)
	for i := range results {
		if i > 0 {
			out = append(out, ',')
		}
		record := &e.records[i]
		out = append(append(out, headID...), record.rawID...)
		out = append(append(out, headResult...), results[i].Outcome...)
		out = append(append(append(out, headField...), record.field()...), headPayload...)
		if results[i].Outcome != transform.Ok {
			out = append(append(out, r.payload(record)...), tailEcho...)
			continue
		}
		row := &results[i].Row
		out = base64.StdEncoding.AppendEncode(out, row.Data)
		out = append(append(out, headDatabase...), row.Table.Database()...)
		out = append(append(out, headTable...), row.Table.Name()...)
		out = append(append(out, headOp...), row.Operation.String()...)
		out = append(out, tailOk...)
	}
	return append(out, responseTail...)
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
			raw, escaped, err := s.payload()
			if err != nil {
				return err
			}
			record := eventRecord{payload: raw, escaped: escaped}
			var ok bool
			if r.Data, ok = record.decode(nil); !ok {
				return s.fail("data that is not base64")
			}
			return nil
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
