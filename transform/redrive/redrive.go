// Package redrive makes something of the records that Firehose could not
// deliver: the error objects that it leaves in S3, from its processor Lambda
// (error-output-type processing-failed) and from Iceberg (iceberg-failed).
//
// In come error objects; out comes for each what can be done about it, and why:
// send the original record to the source stream again, reconcile the row's key,
// write the row, repair something first, or nothing. What may be sent is sent
// through a Stream, at a rate, and noted in a progress file, so that a run that
// was cut off goes on where it was.
//
// Only records of changelogs are ever sent. A mirror that Firehose writes has
// no version check: a late record would overwrite a newer row. Its keys are
// listed instead. A record can arrive twice when a run is cut off between
// sending and noting; the fold of a changelog does not mind.
package redrive

import (
	"bytes"
	"encoding/json"
	"io"
	"iter"
	"strings"

	"icehose/cdc"
	"icehose/cdc/capture"
	"icehose/cdc/dms"
)

// A Kind is which part of Firehose gave up.
type Kind string

// The kinds: Firehose's error output types, and what is neither.
const (
	ProcessingFailed Kind = "processing-failed" // the transform; the raw data is the source record
	IcebergFailed    Kind = "iceberg-failed"    // the delivery; the raw data is the row that the transform made
	Unrecognized     Kind = "unrecognized"      // not an error object that holds a record
)

// A Failure is one error object.
type Failure struct {
	Kind    Kind
	Code    string // errorCode, such as Lambda.FunctionError; errorMessage can hold values and is not kept
	Tries   int    // attemptsMade
	Arrived int64  // Unix milliseconds; 0 when not told
	Raw     []byte // what could not be delivered; nil when the object holds none
	Table   string // the lake table (database.table) that it was for, as far as the object or its name tells
	Line    int    // where the object begins
}

// errorObject is an error object as Firehose writes it. Names compare without
// regard to case: lambdaArn and lambdaARN have both been seen.
type errorObject struct {
	AttemptsMade     number          `json:"attemptsMade"`
	ArrivalTimestamp number          `json:"arrivalTimestamp"`
	ErrorCode        capture.Text    `json:"errorCode"`
	RawData          *capture.Base64 `json:"rawData"`
	LambdaARN        *capture.Text   `json:"lambdaArn"`
	Arrived          number          `json:"ApproximateArrivalTimestamp"`
	// No sample has these; they are the names that the response has for them.
	Database capture.Text `json:"destinationDatabaseName"`
	Table    capture.Text `json:"destinationTableName"`
}

// A number is written as a number or a string.
type number int64

// UnmarshalJSON implements json.Unmarshaler. What is no number is 0: nothing
// depends on it.
func (n *number) UnmarshalJSON(raw []byte) error {
	var v int64
	if json.Unmarshal(bytes.Trim(raw, `"`), &v) == nil {
		*n = number(v)
	}
	return nil
}

// Read yields the failures of one file of error objects, which stand one a line
// or one after another, compressed or not. The name of the file tells the kind
// of an object whose error code does not tell it; where neither does, its ARN
// and its raw data do. It also tells the table, under the prefix
// tables/DATABASE.TABLE/ that icehose stack generate gives each table for what
// Iceberg refuses. An error is of reading, and ends it.
func Read(r io.Reader, name string) iter.Seq2[Failure, error] {
	return func(yield func(Failure, error) bool) {
		content, err := capture.Decompress(r)
		if err != nil {
			yield(Failure{}, err)
			return
		}
		defer content.Close() //nolint:errcheck // what was read is checked as it is read
		for o, err := range capture.Split(content) {
			if err != nil {
				yield(Failure{}, err)
				return
			}
			if !yield(parse(o, name), nil) {
				return
			}
		}
	}
}

func parse(o capture.Object, name string) Failure {
	f := Failure{Kind: Unrecognized, Line: o.Line}
	var in errorObject
	if o.Broken || json.Unmarshal(o.Text, &in) != nil {
		return f
	}
	f.Code, f.Tries, f.Arrived = string(in.ErrorCode), int(in.AttemptsMade), int64(max(in.ArrivalTimestamp, in.Arrived))
	if in.RawData == nil || *in.RawData == nil {
		return f
	}
	f.Raw = *in.RawData
	f.Kind = kindOf(&in, name, f.Raw)
	if f.Table = tableOf(name); in.Table != "" {
		f.Table = string(in.Database + "." + in.Table)
	}
	return f
}

// tableOf returns what stands for the table in the name of a file.
func tableOf(name string) string {
	folders := strings.Split(name, "/")
	for i := len(folders) - 2; i > 0; i-- { // the last is the file's own
		if folders[i-1] == "tables" && strings.Count(folders[i], ".") == 1 {
			return folders[i]
		}
	}
	return ""
}

// kindOf tells who gave up, by what is most certain first. An ARN is weaker
// than a path: an object of the delivery may name the stream's Lambda too.
func kindOf(in *errorObject, name string, raw []byte) Kind {
	processing, iceberg := strings.LastIndex(name, string(ProcessingFailed)), strings.LastIndex(name, string(IcebergFailed))
	switch {
	case strings.HasPrefix(string(in.ErrorCode), "Lambda."):
		return ProcessingFailed
	case strings.HasPrefix(string(in.ErrorCode), "Iceberg."):
		return IcebergFailed
	case processing > iceberg:
		return ProcessingFailed
	case iceberg > processing, tableOf(name) != "":
		return IcebergFailed
	case in.LambdaARN != nil, isRecord(raw):
		return ProcessingFailed
	case in.ErrorCode != "":
		return IcebergFailed // of S3 or Glue, on the way to the table
	}
	return Unrecognized
}

// isRecord reports whether the raw data is a record of the source stream.
func isRecord(raw []byte) bool {
	var c cdc.Change
	return dms.New(dms.Settings{}).Decode(raw, &c) == nil
}
