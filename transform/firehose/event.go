package firehose

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strconv"

	"icehose/cdc/kinesis"
)

// A span is a part of an event's texts.
type span struct{ from, to int }

// An event is a Firehose event taken apart. Slices alias its bytes.
type event struct {
	records []eventRecord
	stream  span // deliveryStreamArn
	build   []byte
	texts   string // record ids, sequence numbers and the stream, unescaped
	shard   string // the last one seen: most events have few
}

// An eventRecord is what a record's answer and origin are made of.
type eventRecord struct {
	rawID    []byte // as it stands in the event, with quotes: it is echoed so
	id       span
	payload  []byte // base64, as it stands in the event between quotes: it is echoed so
	at       int    // where its first quote stands
	escaped  bool
	missing  bool // no payload, or one that is not a string
	kafka    bool // under kafkaRecordValue
	shard    string
	sequence span
}

// The names under which a payload stands.
const (
	fieldData  = "data"
	fieldKafka = "kafkaRecordValue"
)

func (e *event) text(s span) string { return e.texts[s.from:s.to] }

func (e *event) note(text []byte) span {
	from := len(e.build)
	e.build = append(e.build, text...)
	return span{from, len(e.build)}
}

// parse reads an event. Of a key that occurs twice the last value counts.
func (e *event) parse(b []byte) error {
	*e = event{records: e.records[:0], build: e.build[:0], shard: e.shard}
	s := &scanner{b: b}
	found := false
	err := s.object(func(key []byte) error {
		switch string(key) {
		case "deliveryStreamArn":
			text, err := s.scalar()
			e.stream = e.note(text)
			return err
		case "records":
			found = true
			e.records = e.records[:0]
			return s.array(func() error { return e.record(s) })
		}
		return s.skip(1)
	})
	if err == nil {
		err = s.end()
	}
	if err != nil {
		return fmt.Errorf("parse event: %w", err)
	}
	if !found {
		return fmt.Errorf("parse event: no records at byte %d", len(b))
	}
	e.texts = string(e.build)
	return nil
}

func (e *event) record(s *scanner) error {
	s.peek()
	r, at := eventRecord{missing: true}, s.i
	err := s.object(func(key []byte) error {
		var err error
		switch string(key) {
		case "recordId":
			err = e.recordID(s, &r)
		case fieldData, fieldKafka:
			r.kafka = string(key) == fieldKafka
			if r.missing = s.peek() != '"'; r.missing {
				r.payload, r.escaped = nil, false
				return s.skip(1)
			}
			r.at = s.i
			r.payload, r.escaped, err = s.payload()
		case "kinesisRecordMetadata":
			err = e.origin(s, &r, "shardId", "sequenceNumber")
		case "mskRecordMetadata", "kafkaRecordMetadata":
			err = e.origin(s, &r, "partitionId", "offset")
		default:
			err = s.skip(1)
		}
		return err
	})
	if err == nil && r.rawID == nil {
		return &syntaxError{"record without a recordId", at}
	}
	e.records = append(e.records, r)
	return err
}

func (e *event) recordID(s *scanner, r *eventRecord) error {
	s.peek()
	from := s.i
	raw, escaped, err := s.text()
	if err != nil {
		return err
	}
	r.rawID = s.b[from:s.i]
	if escaped {
		raw = unescape(raw)
	}
	r.id = e.note(raw)
	return nil
}

// origin reads where a record stood: a Kinesis shard and sequence number, or a
// Kafka partition and offset. Metadata of another form has no origin.
func (e *event) origin(s *scanner, r *eventRecord, shard, sequence string) error {
	if s.peek() != '{' {
		return s.skip(1)
	}
	return s.object(func(key []byte) error {
		switch string(key) {
		case shard:
			text, err := s.scalar()
			if e.shard != string(text) {
				e.shard = string(text)
			}
			r.shard = e.shard
			return err
		case sequence:
			text, err := s.scalar()
			r.sequence = e.note(text)
			return err
		}
		return s.skip(1)
	})
}

// check reads a payload that could not be decoded as the JSON string that it
// has to be: payload has not looked at what is in it.
func (r *eventRecord) check(event []byte) error {
	if r.missing {
		return nil
	}
	s := scanner{b: event[:r.at+len(r.payload)+2], i: r.at}
	if _, _, err := s.text(); err != nil {
		return fmt.Errorf("parse event: %w", err)
	}
	return nil
}

// decode appends the record's bytes; ok is false when there are none to get.
func (r *eventRecord) decode(dst []byte) (out []byte, ok bool) {
	if r.missing {
		return dst, false
	}
	payload := r.payload
	if r.escaped {
		payload = unescape(payload)
	}
	out, err := base64.StdEncoding.AppendDecode(dst, payload)
	return out, err == nil
}

// An EventInfo is what an event says besides its records.
type EventInfo struct {
	InvocationID      string
	DeliveryStreamARN string
	SourceStreamARN   string
	Region            string
}

// AppendEvent appends the event with which Firehose would hand over records of
// a Kinesis stream. The record id is the sequence number and six zeros, as in
// published events.
func AppendEvent(dst []byte, info EventInfo, records []kinesis.Record) []byte {
	dst = appendMember(dst, `{"invocationId":`, info.InvocationID)
	dst = appendMember(dst, `,"deliveryStreamArn":`, info.DeliveryStreamARN)
	dst = appendMember(dst, `,"sourceKinesisStreamArn":`, info.SourceStreamARN)
	dst = appendMember(dst, `,"region":`, info.Region)
	dst = append(dst, `,"records":[`...)
	for i := range records {
		r := &records[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendMember(dst, `{"recordId":`, r.SequenceNumber+"000000")
		dst = append(dst, `,"approximateArrivalTimestamp":`...)
		dst = strconv.AppendInt(dst, r.ArrivedAt, 10)
		dst = append(dst, `,"data":"`...)
		dst = base64.StdEncoding.AppendEncode(dst, r.Data)
		dst = appendMember(dst, `","kinesisRecordMetadata":{"sequenceNumber":`, r.SequenceNumber)
		dst = appendMember(dst, `,"subsequenceNumber":0,"partitionKey":`, r.PartitionKey)
		dst = appendMember(dst, `,"shardId":`, r.ShardID)
		dst = append(dst, `,"approximateArrivalTimestamp":`...)
		dst = strconv.AppendInt(dst, r.ArrivedAt, 10)
		dst = append(dst, '}', '}')
	}
	return append(dst, ']', '}')
}

// appendMember appends a label and a string. Bytes that are not UTF-8, which a
// partition key cannot hold, become U+FFFD.
func appendMember(dst []byte, label, text string) []byte {
	dst = append(dst, label...)
	dst = append(dst, '"')
	for _, r := range bytes.Runes([]byte(text)) {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r < ' ':
			dst = append(dst, `\u00`...)
			dst = append(dst, "0123456789abcdef"[r>>4], "0123456789abcdef"[r&15])
		default:
			dst = append(dst, string(r)...)
		}
	}
	return append(dst, '"')
}
