// Package cdc holds the vocabulary of the pipeline: a change decoded from a
// source event, the values in it, and the position that orders it.
//
// In come the bytes of one record (package cdc/dms decodes them); out goes a
// Change whose values are still the raw text of the record, and a Position
// that compares as a string in every engine. The package promises nothing
// about types: whether a text is a valid decimal is for package transform.
package cdc
