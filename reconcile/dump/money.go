package dump

import (
	"bytes"
	"fmt"
	"iter"

	"icehose/catalog"
)

// amounts makes numbers of the texts that PostgreSQL writes for money, by column
// of the lake; nil for a column that has none of them. A live source is asked for
// the number itself, a file has what lc_monetary made of it.
type amounts []*amount

// An amount is a column that may have such texts.
type amount struct {
	name     string
	declared bool // source_type says money; else the column is a decimal of whatever type
}

func newAmounts(columns []*catalog.Column) amounts {
	var all amounts
	for i, c := range columns {
		typ, err := catalog.ParseSourceType(c.SourceType)
		declared := err == nil && typ.Name == "money" && !typ.Array
		if c.Mask == catalog.MaskNull || !declared && c.Type.Kind != catalog.Decimal {
			continue
		}
		if all == nil {
			all = make(amounts, len(columns))
		}
		all[i] = &amount{name: c.Name, declared: declared}
	}
	return all
}

// append appends the number that a text of column i stands for. Where that is not
// certain it is an error: the same digits are another amount in another language.
func (a amounts) append(dst []byte, i int, text []byte) ([]byte, error) {
	column := a[i]
	digits, plain := scanNumber(text)
	switch {
	case digits && plain, !digits && !column.declared: // NaN is for others to judge
		return append(dst, text...), nil
	case digits:
		if out, ok := appendDollars(dst, text); ok {
			return out, nil
		}
	}
	return dst, fmt.Errorf("column %q: money as lc_monetary writes it, of which the number is not certain: dump it as %s::numeric", column.name, column.name)
}

// scanNumber says whether a text has digits, and nothing but what a number has that
// no language formed.
func scanNumber(text []byte) (digits, plain bool) {
	plain = true
	for _, c := range text {
		switch {
		case '0' <= c && c <= '9':
			digits = true
		case c != '.' && c != '-' && c != '+' && c != 'e' && c != 'E':
			plain = false
		}
	}
	return digits, plain
}

// appendDollars appends the number of -$1,234.50: the form of en_US and of C, which
// no locale writes for another amount, since two digits follow the point.
func appendDollars(dst, text []byte) ([]byte, bool) {
	out := dst
	text, negative := bytes.CutPrefix(text, []byte("-"))
	text, dollars := bytes.CutPrefix(text, []byte("$"))
	whole, cents, _ := bytes.Cut(text, []byte("."))
	if !dollars || len(cents) != 2 || !allDigits(cents) {
		return dst, false
	}
	if negative {
		out = append(out, '-')
	}
	for n, group := range bytes.Split(whole, []byte(",")) {
		if !allDigits(group) || len(group) > 3 || n > 0 && len(group) != 3 {
			return dst, false
		}
		out = append(out, group...)
	}
	return append(append(out, '.'), cents...), true
}

func allDigits(text []byte) bool {
	for _, c := range text {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(text) > 0
}

// Amounts yields the rows of a file of PostgreSQL's, as ReadFile gives them for
// the columns of t, with numbers where the file has money. An amount whose number
// is not certain is an error.
func Amounts(t *catalog.Table, rows iter.Seq2[[][]byte, error]) iter.Seq2[[][]byte, error] {
	var columns []*catalog.Column
	for _, c := range t.Columns {
		if !c.Exclude {
			columns = append(columns, c)
		}
	}
	all := newAmounts(columns)
	if all == nil {
		return rows
	}
	return func(yield func([][]byte, error) bool) {
		var numbers []byte
		for row, err := range rows {
			numbers = numbers[:0]
			for i := range row {
				if err != nil || i >= len(all) || all[i] == nil || row[i] == nil {
					continue
				}
				from := len(numbers)
				if numbers, err = all.append(numbers, i, row[i]); err != nil {
					err = fmt.Errorf("read dump: %w", err)
					continue
				}
				row[i] = numbers[from:len(numbers):len(numbers)]
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}
