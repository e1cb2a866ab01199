package transform

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/internal/canon"
)

// text returns the text that a value stands for. It aliases the record or the
// worker's scratch, until the next call.
func (w *worker) textOf(c *column, v *cdc.Value) ([]byte, Reason) {
	switch v.Kind {
	case cdc.String:
		if !v.Escaped {
			return v.Raw[1 : len(v.Raw)-1], ""
		}
		text, whole := v.AppendText(w.text[:0])
		w.text = text
		if !whole && !c.replace {
			return nil, InvalidUTF8
		}
		return text, ""
	case cdc.Number, cdc.Bool:
		return v.Raw, ""
	case cdc.Object, cdc.Array:
		return nil, UnsupportedForm
	case cdc.Null, cdc.Missing:
		return nil, InvalidValue // the caller has handled them
	}
	return nil, InvalidValue
}

// appendValue appends the JSON of a value that is neither null nor missing. Of a
// key column the canonical text goes into w.key.
func (w *worker) appendValue(dst []byte, c *column, v *cdc.Value) ([]byte, Reason) {
	text, reason := w.textOf(c, v)
	if reason != "" {
		return dst, reason
	}
	start := len(dst)
	if c.form == quoted {
		dst = append(dst, '"')
	}
	from := len(dst)
	out, null, err := canon.AppendValue(dst, c.source, canon.Record, text)
	if err != nil {
		return dst, problemOf(err)
	}
	if null {
		return append(out[:start], "null"...), ""
	}
	if c.source.Mask == catalog.MaskSHA256 {
		sum := sha256.Sum256(out[from:])
		return append(hex.AppendEncode(out[:from], sum[:]), '"'), ""
	}
	if c.key >= 0 {
		w.noteKey(c.key, out[from:])
	}
	switch c.form {
	case bare:
		return out, ""
	case floating:
		return w.appendFloat(out, from, v.Kind, text)
	case quoted:
		if v.Escaped && c.source.Type.Kind == catalog.String {
			// Only here can the canonical text hold what JSON escapes.
			w.plain = append(w.plain[:0], out[from:]...)
			out = appendEscaped(out[:from], w.plain)
		}
		return append(out, '"'), ""
	}
	return out, ""
}

// appendFloat replaces a float's canonical text by the source's own, where
// that is a JSON number: a destination reads the digits that were sent.
func (w *worker) appendFloat(out []byte, from int, kind cdc.Kind, text []byte) ([]byte, Reason) {
	switch last := out[len(out)-1]; {
	case last == 'N' || last == 'y': // NaN, Infinity: no form of them is documented
		return out[:from], OutOfRange
	case kind == cdc.Number || isNumber(text):
		return append(out[:from], text...), ""
	}
	return out, ""
}

// problemOf returns the reason of an error of package canon.
func problemOf(err error) Reason {
	if value, ok := errors.AsType[*canon.ValueError](err); ok {
		return reasonOf(value.Problem)
	}
	return InvalidValue
}

// isNumber reports whether s is a number by the grammar of RFC 8259.
func isNumber(s []byte) bool {
	digits := func() bool {
		n := 0
		for n < len(s) && s[n] >= '0' && s[n] <= '9' {
			n++
		}
		s = s[n:]
		return n > 0
	}
	if len(s) > 0 && s[0] == '-' {
		s = s[1:]
	}
	if len(s) > 1 && s[0] == '0' && s[1] >= '0' && s[1] <= '9' || !digits() {
		return false
	}
	if len(s) > 0 && s[0] == '.' {
		if s = s[1:]; !digits() {
			return false
		}
	}
	if len(s) > 0 && (s[0] == 'e' || s[0] == 'E') {
		s = s[1:]
		if len(s) > 0 && (s[0] == '-' || s[0] == '+') {
			s = s[1:]
		}
		if !digits() {
			return false
		}
	}
	return len(s) == 0
}

const hexDigits = "0123456789abcdef"

// appendEscaped appends text as the inside of a JSON string, the one way that
// this package writes it.
func appendEscaped(dst, text []byte) []byte {
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return dst
}
