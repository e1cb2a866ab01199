package transform

// An Outcome is what becomes of a record, in Firehose's words.
type Outcome string

// The outcomes.
const (
	Ok               Outcome = "Ok"               // the row is delivered
	Dropped          Outcome = "Dropped"          // nothing is delivered and nothing is kept
	ProcessingFailed Outcome = "ProcessingFailed" // the record goes to the error bucket
)

// A Reason is why a record is not delivered. The list is closed: Reasons.
type Reason string

// Reasons of Dropped.
const (
	Control       Reason = "control"        // a control record: DDL or a marker of the task
	Excluded      Reason = "excluded"       // its table is named by exclude:, or is another stream's
	InternalTable Reason = "internal_table" // a row of one of the task's own awsdms_* tables
	Superseded    Reason = "superseded"     // a newer change of the same key is delivered in this batch
)

// UnknownTable is the reason of a change of a table that the pipeline file
// does not have: ProcessingFailed, or Dropped with on_unknown_table: drop.
const UnknownTable Reason = "unknown_table"

// Reasons of ProcessingFailed.
const (
	InvalidBase64    Reason = "invalid_base64"     // the event holds no data for the record, or not in base64
	InvalidJSON      Reason = "invalid_json"       // not a record as DMS writes it: broken or truncated JSON, no metadata, no data
	NoPosition       Reason = "no_position"        // no position of the table's declared kind
	NoKey            Reason = "no_key"             // an update or delete for a mirror of a table without a key
	MissingKey       Reason = "missing_key"        // a key column is missing or null
	PartialRow       Reason = "partial_row"        // a column that the update did not carry, for a mirror
	MissingColumn    Reason = "missing_column"     // a column is missing although the endpoint writes nulls, or it has none
	AmbiguousColumn  Reason = "ambiguous_column"   // two spellings of one column in one record
	UnsupportedForm  Reason = "unsupported_form"   // a JSON object or array where a scalar belongs, a number where bytes do
	InvalidValue     Reason = "invalid_value"      // not a text of the column's type
	OutOfRange       Reason = "out_of_range"       // a value that the column's type, or Firehose, cannot hold
	Inexact          Reason = "inexact"            // digits would be lost
	InvalidUTF8      Reason = "invalid_utf8"       // half of a surrogate pair: not text
	DamagedNumber    Reason = "damaged_number"     // the endpoint wrote an integer in exponent form: digits are lost
	ResponseTooLarge Reason = "response_too_large" // the row does not fit in what the response may hold
)

// Reasons returns the closed list.
func Reasons() []Reason {
	return []Reason{
		Control, Excluded, InternalTable, Superseded, UnknownTable, InvalidBase64, InvalidJSON, NoPosition, NoKey, MissingKey, PartialRow,
		MissingColumn, AmbiguousColumn, UnsupportedForm, InvalidValue, OutOfRange, Inexact, InvalidUTF8, DamagedNumber, ResponseTooLarge,
	}
}
