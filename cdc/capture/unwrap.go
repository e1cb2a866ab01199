package capture

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"icehose/cdc"
	"icehose/cdc/kinesis"
)

// detect tells the format of an object; Auto when it is damaged.
func detect(object []byte) (Format, error) {
	var top map[string]json.RawMessage
	if err := json.Unmarshal(object, &top); err != nil {
		return Auto, nil //nolint:nilerr // taken for a damaged record, which fails when it is read
	}
	is := func(name string, first byte) bool { return len(top[name]) > 0 && top[name][0] == first }
	switch {
	case is("metadata", '{'):
		return DMS, nil
	case is("records", '['):
		return Firehose, nil
	case is("Records", '['):
		return GetRecords, nil
	case is("sequenceNumber", '"'), is("dataBase64", '"'), is("shardId", '"'):
		return Stream, nil
	}
	return Auto, ErrFormat
}

// unwrap returns the records that stand in one whole object.
func unwrap(o Object) []Record {
	switch o.Format {
	case DMS, Auto:
		return []Record{{Data: o.Text}}
	case Stream:
		if r, err := kinesis.Parse(o.Text); err == nil {
			return []Record{{
				ID: r.SequenceNumber, Data: r.Data, Origin: cdc.Origin{Shard: r.ShardID, Sequence: r.SequenceNumber},
				PartitionKey: r.PartitionKey, ArrivedAt: r.ArrivedAt,
			}}
		}
	case GetRecords:
		return unwrapList(o, "Records")
	case Firehose:
		return unwrapList(o, "records")
	}
	return []Record{{Data: o.Text, Fault: BadJSON}}
}

// A wrapped is a record of get-records, of a Lambda's stream event or of a
// Firehose event. Names compare without regard to case: AWS spells them both ways.
type wrapped struct {
	RecordID       Text    `json:"recordId"`
	EventID        Text    `json:"eventID"`
	Data           *Base64 `json:"data"`
	KafkaValue     *Base64 `json:"kafkaRecordValue"`
	SequenceNumber Text    `json:"sequenceNumber"`
	PartitionKey   Text    `json:"partitionKey"`
	ShardID        Text    `json:"shardId"`
	PartitionID    Text    `json:"partitionId"`
	Offset         Text    `json:"offset"`
	Arrived        Text    `json:"approximateArrivalTimestamp"`

	Kinesis *wrapped `json:"kinesis"`               // of a Lambda's event
	Stream  *wrapped `json:"kinesisRecordMetadata"` // of a Firehose event
	MSK     *wrapped `json:"mskRecordMetadata"`
	Kafka   *wrapped `json:"kafkaRecordMetadata"` // the name that the Java classes have for it
}

// Base64 is what a string holds in base64; nil for JSON of any other kind.
type Base64 []byte

// UnmarshalJSON implements json.Unmarshaler.
func (b *Base64) UnmarshalJSON(raw []byte) error {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		if data, err := base64.StdEncoding.DecodeString(s); err == nil {
			*b = data
		}
	}
	return nil
}

// Text is a string, or the digits of a number: AWS has sent both. It is empty
// for JSON of any other kind.
type Text string

// UnmarshalJSON implements json.Unmarshaler.
func (t *Text) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '"' {
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return err
		}
		*t = Text(s)
		return nil
	}
	if len(raw) > 0 && (raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9') {
		*t = Text(raw)
	}
	return nil
}

// unwrapList returns the records of a list under the given name.
func unwrapList(p Object, name string) []Record {
	var top map[string]json.RawMessage
	var list []json.RawMessage
	if json.Unmarshal(p.Text, &top) != nil || json.Unmarshal(top[name], &list) != nil {
		return []Record{{Data: p.Text, Fault: BadJSON}}
	}
	records := make([]Record, 0, len(list))
	for _, raw := range list {
		var w wrapped
		err := json.Unmarshal(raw, &w)
		// A field of another kind counts as missing, as in the Lambda: the record keeps its id.
		_, mismatch := errors.AsType[*json.UnmarshalTypeError](err)
		if err != nil && (raw[0] != '{' || !mismatch) {
			records = append(records, Record{Data: raw, Fault: BadJSON})
			continue
		}
		records = append(records, w.record())
	}
	return records
}

func (w *wrapped) record() Record {
	r := Record{ID: string(w.RecordID)}
	in := w
	for _, inner := range []*wrapped{w.Kinesis, w.Stream, w.MSK, w.Kafka} {
		if inner != nil {
			in = inner
		}
	}
	r.Origin = cdc.Origin{Shard: string(in.ShardID), Sequence: string(in.SequenceNumber)}
	if in.PartitionID != "" || in.Offset != "" {
		r.Origin = cdc.Origin{Shard: string(in.PartitionID), Sequence: string(in.Offset)}
	}
	if shard, _, ok := strings.Cut(string(w.EventID), ":"); ok && r.Origin.Shard == "" {
		r.Origin.Shard = shard
	}
	r.PartitionKey = string(in.PartitionKey)
	r.ArrivedAt = millis(string(in.Arrived))
	if r.ArrivedAt == 0 {
		r.ArrivedAt = millis(string(w.Arrived))
	}
	if r.ID == "" {
		r.ID = r.Origin.Sequence
	}
	from := w.Data
	switch {
	case w.KafkaValue != nil:
		from = w.KafkaValue
	case w.Kinesis != nil && w.Kinesis.Data != nil:
		from = w.Kinesis.Data
	}
	if from == nil || *from == nil {
		r.Fault = BadBase64
		return r
	}
	r.Data = *from
	return r
}

// millis reads a time as AWS writes it: milliseconds, seconds with a fraction
// (version 1 of the aws command) or ISO 8601 (version 2). Anything else is 0.
func millis(s string) int64 {
	if at, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return at.UnixMilli()
	}
	whole, fraction, _ := strings.Cut(s, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return 0
	}
	const latestSeconds = 1 << 36 // the year 4147
	if n >= latestSeconds {
		return n
	}
	thousandths, err := strconv.ParseInt((fraction + "000")[:3], 10, 64)
	if err != nil {
		return 0
	}
	return n*1000 + thousandths
}
