package transform

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"unicode/utf8"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/internal/canon"
)

// text returns the text that a value stands for. It aliases the record or the
// worker's scratch, until the next call.
func (w *worker) textOf(c *column, v *cdc.Value) ([]byte, Reason) {
	if !c.takes(v.Kind) {
		return nil, UnsupportedForm
	}
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
	case cdc.Number, cdc.Bool, cdc.Object, cdc.Array:
		return v.Raw, ""
	case cdc.Null, cdc.Missing:
		return nil, InvalidValue // the caller has handled them
	}
	return nil, InvalidValue
}

// takes reports whether a value of a JSON form can be one of the column: an
// object or array is text only, and the digits of a number are not hexadecimal.
func (c *column) takes(kind cdc.Kind) bool {
	switch kind {
	case cdc.Object, cdc.Array:
		return c.source.Type.Kind == catalog.String
	case cdc.Number:
		return c.source.Type.Kind != catalog.Fixed && c.source.Type.Kind != catalog.Binary
	case cdc.Missing, cdc.Null, cdc.Bool, cdc.String:
		return true
	}
	return false
}

// appendValue appends the JSON of a value that is neither null nor missing. Of a
// key column the canonical text goes into w.key.
func (w *worker) appendValue(dst []byte, c *column, v *cdc.Value) ([]byte, Reason) {
	switch {
	case c.itself && v.Kind == cdc.String && !v.Escaped:
		return append(dst, v.Raw...), "" // the decoder has seen that it is valid
	case c.trimmed && v.Kind == cdc.String && !v.Escaped:
		return appendTrimmed(dst, v.Raw), ""
	case c.integer && v.Digits && len(v.Raw) <= 9: // JSON has no zeros before a number
		if c.key >= 0 {
			w.noteKey(c.key, v.Raw)
		}
		return append(dst, v.Raw...), ""
	case c.float && v.Kind == cdc.Number && len(v.Raw) <= 15 && bytes.IndexByte(v.Raw, 'e') < 0 && bytes.IndexByte(v.Raw, 'E') < 0:
		return append(dst, v.Raw...), "" // far from what is too large or too small
	case c.itself && v.Escaped:
		out, whole := w.appendReescaped(append(dst, '"'), v.Raw)
		if !whole && !c.replace {
			return dst, InvalidUTF8
		}
		return append(out, '"'), ""
	}
	text, reason := w.textOf(c, v)
	if reason != "" {
		return dst, reason
	}
	start := len(dst)
	if c.form == quoted || c.form == encoded {
		dst = append(dst, '"')
	}
	from := len(dst)
	out, null, err := c.canon.AppendValue(dst, canon.Record, text)
	if err != nil {
		return dst, problemOf(err)
	}
	if null {
		return append(out[:start], "null"...), ""
	}
	if c.source.Mask == catalog.MaskSHA256 {
		return appendDigest(out, from), ""
	}
	if c.key >= 0 {
		w.noteKey(c.key, out[from:])
	}
	switch c.form {
	case bare:
		return out, ""
	case floating:
		return w.appendFloat(out, from, v.Kind, text)
	case encoded:
		return w.appendEncoded(out, from), ""
	case quoted:
		if (v.Escaped || v.Kind == cdc.Object || v.Kind == cdc.Array) && c.source.Type.Kind == catalog.String {
			// Only here can the canonical text hold what JSON escapes.
			w.plain = append(w.plain[:0], out[from:]...)
			out = appendEscaped(out[:from], w.plain)
		}
		return append(out, '"'), ""
	}
	return out, ""
}

// appendDigest replaces the canonical text out[from:] by its digest, and ends the
// string.
func appendDigest(out []byte, from int) []byte {
	sum := sha256.Sum256(out[from:])
	return append(hex.AppendEncode(out[:from], sum[:]), '"')
}

// appendTrimmed appends a JSON string without the blanks at its end.
func appendTrimmed(dst, raw []byte) []byte {
	end := len(raw) - 1
	for raw[end-1] == ' ' { // the opening quote is none
		end--
	}
	return append(append(dst, raw[:end]...), '"')
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
	for {
		i := cdc.SkipPlain(text, 0)
		for i < len(text) && text[i] >= utf8.RuneSelf {
			for i < len(text) && text[i] >= utf8.RuneSelf {
				i++
			}
			i = cdc.SkipPlain(text, i)
		}
		dst = append(dst, text[:i]...)
		if i == len(text) {
			return dst
		}
		dst = appendEscape(dst, text[i])
		text = text[i+1:]
	}
}

// appendEscape appends the shortest escape of a quote, backslash or control
// character: no source can have written it shorter.
func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '\b':
		c = 'b'
	case '\f':
		c = 'f'
	case '\n':
		c = 'n'
	case '\r':
		c = 'r'
	case '\t':
		c = 't'
	default:
		if c < ' ' {
			return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return append(dst, '\\', c)
}

// appendReescaped appends the inside of a JSON string as appendEscaped would
// write its text. whole is false when a surrogate stood alone.
func (w *worker) appendReescaped(dst, raw []byte) (out []byte, whole bool) {
	whole = true
	for i, end := 1, len(raw)-1; ; {
		n := bytes.IndexByte(raw[i:end], '\\')
		if n < 0 {
			return append(dst, raw[i:end]...), whole
		}
		dst = append(dst, raw[i:i+n]...)
		i += n + 2
		switch c := raw[i-1]; c {
		case '"', '\\', 'b', 'f', 'n', 'r', 't':
			dst = append(dst, '\\', c)
		case 'u':
			from := i - 2
			for i += 4; i+1 < end && raw[i] == '\\' && raw[i+1] == 'u'; i += 6 { // halves of a pair stand together
			}
			var ok bool
			w.text, ok = cdc.Value{Kind: cdc.String, Escaped: true, Raw: raw[from-1 : i+1]}.AppendText(w.text[:0])
			dst, whole = appendEscaped(dst, w.text), whole && ok
		default: // a slash
			dst = append(dst, c)
		}
	}
}
