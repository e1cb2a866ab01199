package main

import "icehose/transform"

// hint says what a person can do about a reason.
func hint(r transform.Reason) string {
	switch r {
	case "":
		return ""
	case transform.Control:
		return "nothing: control records are no rows; a drift says whether the pipeline file needs an edit"
	case transform.Excluded:
		return "nothing, unless the table should flow: then edit exclude: or include: of the pipeline file"
	case transform.InternalTable:
		return "nothing; the task's ControlTablesSettings turn most of these rows off"
	case transform.Superseded:
		return "nothing: a newer change of the same key is delivered"
	case transform.UnknownTable:
		return "add the table to tables:, or name it under exclude:; on_unknown_table: drop loses such records without a copy"
	case transform.InvalidBase64:
		return "the event has no data for the record, or not in base64: look at what invoked the transform"
	case transform.InvalidJSON:
		return "the record is not one that DMS writes, or was cut: look at where it stands; other producers belong on another stream"
	case transform.NoPosition:
		return "set IncludeTransactionDetails=true on the endpoint, or declare the position the records do have (position: of the table)"
	case transform.NoKey:
		return "give the table a key:, or make it a changelog"
	case transform.MissingKey:
		return "a key column is null or missing: check key: against the source's primary key and the mapping's removed columns"
	case transform.PartialRow:
		return "the update left out a large column it did not change: make the table a changelog, or set REPLICA IDENTITY FULL at the source"
	case transform.MissingColumn:
		return "the column is missing although nulls: included says that nulls are written, or not_null that it has none (an empty text, left out?): " +
			"check IncludeNullAndEmpty, the mapping, and may_be_unchanged"
	case transform.AmbiguousColumn:
		return "two fields of the record differ in case only: say which is the column's with source:"
	case transform.UnsupportedForm:
		return "the column takes no value of this JSON form: objects and arrays are taken as text by type: string only, " +
			"and numbers are not taken by fixed and binary, which want text of hexadecimal digits: change type:, " +
			"map the column to text at the endpoint (MapJsonbAsClob) or leave it out"
	case transform.InvalidValue:
		return "the value is not a text of the column's type: check type: against the source's column"
	case transform.OutOfRange:
		return "the column's type cannot hold the value: widen type:, or, where it is no key column, allow the loss with allow_lossy: [\"null\"]; " +
			"Firehose takes no NaN and no infinity in a float or double, whatever is allowed"
	case transform.Inexact:
		return "digits would be lost: change type: to one that holds them (a decimal more scale), or allow the loss: " +
			"allow_lossy: [round] for decimals and times, [\"null\"] for other columns that are no key"
	case transform.InvalidUTF8:
		return "the text has half a surrogate pair: repair the source, or allow the loss with allow_lossy: [replace]"
	case transform.DamagedNumber:
		return "the endpoint wrote an integer as a double, its digits are gone: set UseLargeIntegerValue (engine 3.5.4) and read the row again from the source"
	case transform.ResponseTooLarge:
		return "the answers to one batch exceed Lambda's 6 MB: lower BufferSizeInMBs of the Firehose processor; " +
			"if the row exceeds it alone, leave its large columns out (exclude: true)"
	}
	return ""
}
