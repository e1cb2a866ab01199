package catalog

import (
	"math"
	"slices"
)

// What PostgreSQL's heap does with rows of a page of 8 kB: a row longer than
// toastThreshold has its longest values moved out until it fits, but never a
// value as small as the pointer that would take its place.
const (
	toastThreshold   = 2032
	toastPointerSize = 24 // MAXALIGN(TOAST_POINTER_SIZE)
	rowHeader        = 23
	varHeader        = 4
	bytesPerRune     = 4 // of UTF-8
)

// A layout is how PostgreSQL stores a type: length in bytes and alignment.
// Length 0 is a type of varying length without a limit.
type layout struct {
	length, align int
	varying       bool
	plain         bool // never out of line, whatever its length
}

var fixedLayouts = map[string]layout{ //nolint:gochecknoglobals // constant table
	"boolean": {length: 1, align: 1}, `"char"`: {length: 1, align: 1}, "smallint": {length: 2, align: 2},
	"integer": {length: 4, align: 4}, "bigint": {length: 8, align: 8}, "real": {length: 4, align: 4}, "double precision": {length: 8, align: 8},
	"money": {length: 8, align: 8}, "date": {length: 4, align: 4}, "time without time zone": {length: 8, align: 8},
	"time with time zone": {length: 12, align: 8}, "timestamp without time zone": {length: 8, align: 8},
	"timestamp with time zone": {length: 8, align: 8}, "interval": {length: 16, align: 8}, "uuid": {length: 16, align: 1},
	"name": {length: 64, align: 1}, "oid": {length: 4, align: 4}, "xid": {length: 4, align: 4}, "cid": {length: 4, align: 4},
	"xid8": {length: 8, align: 8}, "tid": {length: 6, align: 2}, "pg_lsn": {length: 8, align: 8}, "macaddr": {length: 6, align: 4},
	"macaddr8": {length: 8, align: 4}, "point": {length: 16, align: 8}, "line": {length: 24, align: 8}, "lseg": {length: 32, align: 8},
	"box": {length: 32, align: 8}, "circle": {length: 24, align: 8}, "aclitem": {length: 16, align: 8},
	"regclass": {length: 4, align: 4}, "regcollation": {length: 4, align: 4}, "regconfig": {length: 4, align: 4},
	"regdictionary": {length: 4, align: 4}, "regnamespace": {length: 4, align: 4}, "regoper": {length: 4, align: 4},
	"regoperator": {length: 4, align: 4}, "regproc": {length: 4, align: 4}, "regprocedure": {length: 4, align: 4},
	"regrole": {length: 4, align: 4}, "regtype": {length: 4, align: 4},
	"int2vector": {varying: true, align: 4, plain: true}, "oidvector": {varying: true, align: 4, plain: true},
	"tsquery": {varying: true, align: 4, plain: true},
}

func (t *SourceType) layout() layout {
	if t.Array {
		return layout{varying: true, align: 8}
	}
	if l, ok := fixedLayouts[t.Name]; ok {
		return l
	}
	if t.Class == ClassEnum {
		return layout{length: 4, align: 4}
	}
	n, limited := t.Param(0)
	switch t.Name {
	case "character", "character varying":
		if limited {
			return layout{varying: true, align: 4, length: n*bytesPerRune + varHeader}
		}
		if t.Name == "character" {
			return layout{varying: true, align: 4, length: bytesPerRune + varHeader}
		}
	case "numeric":
		if limited {
			const header, digitsPerGroup, groupSize = 8, 4, 2
			return layout{varying: true, align: 4, length: header + (n+2*(digitsPerGroup-1))/digitsPerGroup*groupSize}
		}
	case "bit", "bit varying":
		if !limited && t.Name == "bit" {
			n, limited = 1, true
		}
		if limited {
			return layout{varying: true, align: 4, length: (n+7)/8 + 2*varHeader}
		}
	}
	if len(t.Name) > 8 && t.Name[:8] == "interval" {
		return layout{length: 16, align: 8}
	}
	return layout{varying: true, align: 4}
}

// NeedsToast reports whether PostgreSQL gives the table a place for values out
// of line: when a row of it can be longer than 2032 bytes. plain lists columns
// whose storage was set to PLAIN.
func (t *SourceTable) NeedsToast(plain []string) bool {
	size, unlimited, movable := 0, false, false
	for _, c := range t.Columns {
		l := c.Type.layout()
		size = (size + l.align - 1) / l.align * l.align
		if !l.varying {
			size += l.length
			continue
		}
		if l.length == 0 {
			unlimited = true
		} else {
			size = min(size+l.length, math.MaxInt32)
		}
		movable = movable || !l.plain && !slices.Contains(plain, c.Name)
	}
	aligned := func(n int) int { return (n + 7) / 8 * 8 }
	return movable && (unlimited || aligned(rowHeader+(len(t.Columns)+7)/8)+aligned(size) > toastThreshold)
}

// MarkOutOfLine sets OutOfLine of every column that PostgreSQL can move out of
// its row, in a table that has a place for them. A value moves only if it is
// longer than the pointer to it, so a char(2) never does.
func (t *SourceTable) MarkOutOfLine(plain []string) {
	for _, c := range t.Columns {
		l := c.Type.layout()
		c.OutOfLine = l.varying && !l.plain && !slices.Contains(plain, c.Name) && (l.length == 0 || l.length > toastPointerSize)
	}
}
