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
	bytes   []byte
	records []eventRecord
	stream  span // deliveryStreamArn
	build   []byte
	texts   string // sequence numbers and the stream, unescaped
	shard   string // the last one seen
	shards  map[string]string
	form    form
}

// An eventRecord is what a record's answer and origin are made of.
type eventRecord struct {
	rawID    []byte // as it stands in the event, with quotes: it is echoed so
	payload  []byte // base64, as it stands in the event between quotes: it is echoed so
	at       places
	escaped  bool // the payload is known to hold an escape
	missing  bool // no payload, or one that is not a string
	echo     int  // bytes of the payload as it came: never fewer than are given back
	size     int  // bytes of the record, when they could be decoded
	kafka    bool // under kafkaRecordValue
	shard    string
	sequence span
}

// places are where the values of a record stand in the event: a string's first
// quote, a number's first digit.
type places struct{ id, payload, shard, sequence int }

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
	*e = event{bytes: b, records: e.records[:0], build: e.build[:0], shard: e.shard, shards: e.shards, form: form{leaves: e.form.leaves[:0]}}
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
	for i := range e.records {
		e.records[i].echo = len(e.records[i].payload)
	}
	return nil
}

// record reads one record: as the one before it, or else key by key.
func (e *event) record(s *scanner) error {
	s.peek()
	if e.like(s) {
		return nil
	}
	r, at := eventRecord{missing: true}, s.i
	err := s.object(func(key []byte) error {
		var err error
		switch string(key) {
		case "recordId":
			err = r.recordID(s)
		case fieldData, fieldKafka:
			r.kafka = string(key) == fieldKafka
			if r.missing = s.peek() != '"'; r.missing {
				r.payload, r.escaped, r.at.payload = nil, false, 0
				return s.skip(1)
			}
			r.at.payload = s.i
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
	if err == nil {
		e.form.learn(s.b, at, s.i, &r)
	}
	return err
}

func (r *eventRecord) recordID(s *scanner) error {
	s.peek()
	from := s.i
	if _, _, err := s.text(); err != nil {
		return err
	}
	r.at.id, r.rawID = from, s.b[from:s.i]
	return nil
}

// id is the record's id as text.
func (r *eventRecord) id() string { return string(unescape(r.rawID[1 : len(r.rawID)-1])) }

// origin reads where a record stood: a Kinesis shard and sequence number, or a
// Kafka partition and offset. Metadata of another form has no origin.
func (e *event) origin(s *scanner, r *eventRecord, shard, sequence string) error {
	if s.peek() != '{' {
		return s.skip(1)
	}
	return s.object(func(key []byte) error {
		switch string(key) {
		case shard:
			s.peek()
			r.at.shard = s.i
			text, err := s.scalar()
			r.shard = e.shardOf(text)
			return err
		case sequence:
			s.peek()
			r.at.sequence = s.i
			text, err := s.scalar()
			r.sequence = e.note(text)
			return err
		}
		return s.skip(1)
	})
}

// maxShards is how many shard names are kept, so that hostile events cannot
// fill memory.
const maxShards = 4096

// shardOf returns a shard's name as a string that its records share.
func (e *event) shardOf(text []byte) string {
	if e.shard == string(text) {
		return e.shard
	}
	name, ok := e.shards[string(text)]
	if !ok {
		if e.shards == nil || len(e.shards) >= maxShards {
			e.shards = make(map[string]string)
		}
		name = string(text)
		e.shards[name] = name
	}
	e.shard = name
	return name
}

// decode appends the record's bytes; ok is false when there are none to get.
// It reads a payload that is not plain base64 as the JSON string that it has
// to be, which nobody has done yet: the error is that of the event.
func (r *eventRecord) decode(dst, event []byte) (out []byte, ok bool, err error) {
	if r.missing {
		return dst, false, nil
	}
	if out, ok = appendDecode(dst, r.payload); ok {
		return out, true, nil
	}
	s := scanner{b: event, i: r.at.payload}
	payload, escaped, err := s.text()
	if err != nil {
		return dst, false, err
	}
	if r.escaped = escaped; escaped {
		payload = unescape(payload)
	}
	out, err = base64.StdEncoding.AppendDecode(dst, payload)
	return out, err == nil, nil
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
