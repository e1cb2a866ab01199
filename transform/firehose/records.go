package firehose

import (
	"encoding/base64"
	"fmt"

	"icehose/transform"
)

// An Event is a batch as Handle transforms it, for who wants the results and
// not the response.
type Event struct {
	// Records are the event's, in order. They own their memory.
	Records []transform.Record
	room    *room
}

// Open takes an event apart. It fails where Handle does.
func Open(event []byte) (*Event, error) {
	var b batch
	err := b.event.parse(event)
	if err == nil {
		b.room, err = newRoom(&b.event, DefaultResponseLimit)
	}
	if err != nil {
		return nil, fmt.Errorf("open event: %w", err)
	}
	out := &Event{Records: make([]transform.Record, len(b.event.records)), room: b.room}
	for i := range out.Records {
		b.data = nil
		out.Records[i] = b.Record(i)
		out.Records[i].ID = b.event.records[i].id()
	}
	if b.fault != nil {
		return nil, fmt.Errorf("open event: parse event: %w", b.fault)
	}
	return out, nil
}

// EventOf returns the event in which Firehose would hand over the records.
func EventOf(records []transform.Record) (*Event, error) {
	e := &event{records: make([]eventRecord, len(records))}
	for i := range records {
		id := appendMember(nil, "", records[i].ID)
		e.records[i] = eventRecord{rawID: id, echo: base64.StdEncoding.EncodedLen(len(records[i].Data))}
	}
	room, err := newRoom(e, DefaultResponseLimit)
	if err != nil {
		return nil, fmt.Errorf("make event: %w", err)
	}
	return &Event{Records: records, room: room}, nil
}

// Results transforms the event: what Handle answers, answer by answer.
func (e *Event) Results(t *transform.Transformer) []transform.Result {
	return t.BatchWithin(e.Records, e.room)
}

// Explain explains a record as the only one of its event.
func Explain(t *transform.Transformer, record transform.Record) (transform.Explanation, error) {
	e, err := EventOf([]transform.Record{record})
	if err != nil {
		return transform.Explanation{}, err
	}
	return t.ExplainWithin(record, e.room), nil
}
