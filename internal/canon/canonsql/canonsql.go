// Package canonsql generates SQL that renders rows as package canon does, byte
// for byte, so that a source engine can digest its own rows.
//
// In come the columns of a table: what the pipeline file says of each, and the
// type that the server has for it. Out go, per column, the expression whose
// text output package canon reads, and, if the engine can render it exactly,
// the expression of its canonical field; and statements made of them. Pairs of
// types that are not in the tables below have no field: their rows must pass
// through this process. A value that has no canonical text renders as a text
// that no lake row can have, unless the pipeline file lets it become NULL.
//
// The statements count on a session as the readers set it up: UTC, ISO dates,
// hexadecimal bytea, pg_catalog alone in the search path.
package canonsql

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"icehose/catalog"
	"icehose/internal/canon"
)

// A Column is a column of a table at its source.
type Column struct {
	*catalog.Column
	Spelled string             // its name at the source
	Type    catalog.SourceType // as the server declares it
	Domain  bool               // the type is a domain, whatever Type says
}

// Rows are expressions over a row of the table, which the statement calls t.
type Rows struct {
	// Texts give, per column, the text that package canon reads, in the form of
	// the engine.
	Texts []string
	// Canonical gives the canonical text, NULL for NULL; empty when the engine
	// cannot render it exactly.
	Canonical []string
}

// Exact reports whether the engine renders all of the columns with the given
// indexes; nil stands for every column.
func (r *Rows) Exact(columns []int) bool {
	if columns == nil {
		return !slices.Contains(r.Canonical, "")
	}
	return !slices.ContainsFunc(columns, func(i int) bool { return r.Canonical[i] == "" })
}

// A Digest says which rows a statement digests.
type Digest struct {
	From  string // the table, quoted
	Where string // a condition over t; empty for none
	Key   []int  // indexes of the key columns, in key order; empty: rows are their own keys
	// Buckets is a power of two, and First to Last-1 are those that are meant.
	Buckets, First, Last int
}

func (d *Digest) where() string {
	if d.Where == "" {
		return ""
	}
	return " WHERE " + d.Where
}

func (d *Digest) whole() bool { return d.First == 0 && d.Last == d.Buckets }

// keyOf joins the fields of the key, f0, f1, ...
func (d *Digest) keyOf(columns int) []string {
	var fields []string
	if len(d.Key) == 0 {
		return fieldNames(columns)
	}
	for _, i := range d.Key {
		fields = append(fields, fmt.Sprint("f", i))
	}
	return fields
}

func fieldNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint("f", i)
	}
	return names
}

// list joins expressions, each named after its place.
func list(prefix string, expressions []string) string {
	named := make([]string, len(expressions))
	for i, e := range expressions {
		named[i] = fmt.Sprintf("%s AS %s%d", e, prefix, i)
	}
	return strings.Join(named, ", ")
}

// Result makes a digest of the numbers that a statement gives for a bucket:
// how many rows, and the sums of the upper and the lower 64 bits of their hashes.
func Result(count uint64, upper, lower *big.Int) (canon.Digest, error) {
	sum := new(big.Int).Lsh(upper, 64)
	sum.Add(sum, lower)
	d := canon.Digest{Count: count}
	if sum.Sign() < 0 || sum.BitLen() > 192 {
		return d, errors.New("read digest: the sum is no sum of hashes")
	}
	mask := new(big.Int).SetUint64(^uint64(0))
	for i := range d.Sum {
		d.Sum[i] = new(big.Int).And(sum, mask).Uint64()
		sum.Rsh(sum, 64)
	}
	return d, nil
}

func allows(c *catalog.Column, loss catalog.Loss) bool { return slices.Contains(c.AllowLossy, loss) }

// param returns a parameter of the server's type, or another number.
func (c *Column) param(i, other int) int {
	if n, ok := c.Type.Param(i); ok {
		return n
	}
	return other
}

// plain reports whether the server's type is one of the engine's own, of the
// given name.
func (c *Column) plain(names ...string) bool {
	return !c.Domain && !c.Type.Array && c.Type.Class == "" && slices.Contains(names, c.Type.Name)
}

// span returns the first and the last of numbers that follow each other.
func span(numbers []int) (first, last int, ok bool) {
	n := len(numbers)
	if n == 0 || numbers[n-1]-numbers[0] != n-1 {
		return 0, 0, false
	}
	return numbers[0], numbers[n-1], true
}

// join writes numbers with commas between them.
func join(numbers []int) string {
	var text []byte
	for i, n := range numbers {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, int64(n), 10)
	}
	return string(text)
}
