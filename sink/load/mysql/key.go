package mysql

import (
	"errors"
	"strings"
	"time"
	"unicode/utf8"
)

// A keyColumn is the first column of the primary key, by whose ranges the parts
// are cut.
type keyColumn struct {
	name string // quoted
	even bool   // an integer: its range is cut into equal pieces, and needs no literals of values
	// read is what is selected of a value to make a literal of.
	read    string
	literal func(text []byte) (string, error)
}

// errNoLiteral says that no literal is known to compare as a value does.
var errNoLiteral = errors.New("the value has no literal")

// newKeyColumn returns nil for types of which it is not certain that a column
// of them is ordered as it is compared with a literal, by the index:
//
//   - ENUM and SET are ordered by number, compared with a text as texts, and with
//     a number without the index;
//   - TEXT, BLOB and spatial types are in a key by their beginning only;
//   - what is not known here.
//
// Literals are of the column's own type, so that no side is converted: a text
// that is compared with a number is a double, which is no DECIMAL, and one that
// is compared with bits is 0.
func newKeyColumn(name, dataType string) *keyColumn {
	k := &keyColumn{name: name, read: name}
	switch dataType {
	case "tinyint", "smallint", "mediumint", "int", "integer", "bigint", "bit":
		k.even = true
	case "year", "decimal":
		// A year is not even: numbers below 100 are years of two digits, and
		// those that are no year are 0.
		k.literal = number
	case "float", "double":
		k.read, k.literal = "("+name+" + 0e0)", double // its own text has six digits
	case "date", "datetime", "timestamp":
		k.literal = moment
	case "time", "uuid", "inet4", "inet6":
		k.literal = quoted
	case "char", "varchar":
		k.literal = characters
	case "binary", "varbinary":
		k.read, k.literal = "HEX("+name+")", hexadecimal
	default:
		return nil
	}
	return k
}

func number(text []byte) (string, error) {
	if len(text) == 0 || strings.Trim(string(text), "-.0123456789") != "" {
		return "", errNoLiteral
	}
	return string(text), nil
}

// double makes a DOUBLE of digits, which without an exponent are a DECIMAL.
func double(text []byte) (string, error) {
	if len(text) == 0 || strings.Trim(string(text), "+-.0123456789e") != "" {
		return "", errNoLiteral
	}
	if strings.ContainsRune(string(text), 'e') {
		return string(text), nil
	}
	return string(text) + "e0", nil
}

// moment takes days that the calendar has, and the zero date: what servers make
// of a comparison with others depends on their version.
func moment(text []byte) (string, error) {
	if strings.Trim(string(text), "0-: .") != "" {
		day, _, _ := strings.Cut(string(text), " ")
		if _, err := time.Parse(time.DateOnly, day); err != nil {
			return "", errNoLiteral
		}
	}
	return quoted(text)
}

// characters takes texts that the session's character set has.
func characters(text []byte) (string, error) {
	if !utf8.Valid(text) {
		return "", errNoLiteral
	}
	return quoted(text)
}

func hexadecimal(text []byte) (string, error) { return "X'" + string(text) + "'", nil }

// quoted quotes a text. Sessions have an empty sql_mode, so a backslash escapes.
func quoted(text []byte) (string, error) {
	var b strings.Builder
	b.WriteByte('\'')
	for _, c := range text {
		if c == 0 {
			b.WriteString(`\0`)
			continue
		}
		if c == '\'' || c == '\\' {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	b.WriteByte('\'')
	return b.String(), nil
}
