package sink

import (
	"bytes"
	"cmp"
	"slices"

	"icehose/catalog"
	"icehose/internal/canon"
)

// joined returns one version for two of the same position.
func (f *Folder) joined(v, w *version) version {
	out := version{position: v.position, from: v.from, oldKey: v.oldKey}
	if v.from == nil || w.from != nil && w.oldKey > v.oldKey {
		out.from, out.oldKey = w.from, w.oldKey
	}
	row, other := make([][]byte, len(f.columns)), make([][]byte, len(f.columns))
	readRow(v.row, row)
	readRow(w.row, other)
	for i := range row {
		switch left, right := v.lacks(i), w.lacks(i); {
		case left && right:
			out.absent = append(out.absent, i)
		case left, !right && f.greater(i, other[i], row[i]):
			row[i] = other[i]
		}
	}
	out.row = appendRow(nil, row)
	return out
}

// greater reports whether a value of a column is greater than another.
func (f *Folder) greater(column int, value, than []byte) bool {
	c := &f.columns[column]
	if c.Default != nil {
		if value == nil {
			return than != nil && canon.Compare(c.Type.Kind, []byte(*c.Default), than) > 0
		}
		if than == nil { // of two that mean the same the one that says it
			return canon.Compare(c.Type.Kind, value, []byte(*c.Default)) >= 0
		}
	}
	return value != nil && (than == nil || canon.Compare(c.Type.Kind, value, than) > 0)
}

// Distinct makes rows of one key and one position that differ changes of their own,
// one after the other, and not one change that was made several rows of: for tables
// whose positions may repeat, see catalog.Table.SharesPositions. Call it before Add.
//
// The later of them is the one that was committed later, if a column is called
// cdc_committed_at, and else the one whose values are greater, column by column; one
// that a change did not carry is the least, then null, or what the column's default
// says of it. Of the rows of a table without a key the last one is kept.
func (f *Folder) Distinct() {
	f.distinct = true
	f.committed = slices.IndexFunc(f.columns, func(c catalog.Column) bool { return c.Name == catalog.ColumnCommittedAt })
}

// order compares two versions of one position: 0 if they are equal.
func (f *Folder) order(v, w *version) int {
	left, right := make([][]byte, len(f.columns)), make([][]byte, len(f.columns))
	readRow(v.row, left)
	readRow(w.row, right)
	if at := f.committed; at >= 0 {
		if c := f.compare(at, left[at], right[at]); c != 0 {
			return c
		}
	}
	for i := range f.columns {
		var c int
		switch lacks, other := v.lacks(i), w.lacks(i); {
		case lacks && other:
		case lacks:
			c = -1
		case other:
			c = 1
		default:
			c = f.compare(i, left[i], right[i])
		}
		if c != 0 {
			return c
		}
	}
	return cmp.Or(cmp.Compare(v.oldKey, w.oldKey), bytes.Compare(v.row, w.row), slices.Compare(v.absent, w.absent))
}

// compare compares two values of a column, null as what it means.
func (f *Folder) compare(column int, left, right []byte) int {
	c := &f.columns[column]
	if c.Default != nil {
		if left == nil {
			left = []byte(*c.Default)
		}
		if right == nil {
			right = []byte(*c.Default)
		}
	}
	switch {
	case left == nil && right == nil:
		return 0
	case left == nil:
		return -1
	case right == nil:
		return 1
	}
	return canon.Compare(c.Type.Kind, left, right)
}

// among returns where a version belongs among those of its position, of which the
// first is at an index, and whether it is there already.
func (f *Folder) among(versions []version, first int, v *version) (at int, there bool) {
	for at = first; at < len(versions) && versions[at].position == v.position; at++ {
		switch c := f.order(v, &versions[at]); {
		case c == 0:
			return at, true
		case c > 0:
			return at, false
		}
	}
	return at, false
}
