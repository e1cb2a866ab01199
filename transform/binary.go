package transform

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"

	"icehose/catalog"
)

// appendEncoded replaces the canonical text of bytes, out[from:], by base64, and
// ends the string.
func (w *worker) appendEncoded(out []byte, from int) []byte {
	w.plain = append(w.plain[:0], out[from:]...)
	n, err := hex.Decode(w.plain, w.plain)
	if err != nil {
		panic("canonical text of bytes is not hexadecimal") // package canon has just made it
	}
	return append(base64.StdEncoding.AppendEncode(out[:from], w.plain[:n]), '"')
}

// CanonicalText returns the canonical text of a value as the stream's rows have
// it: that of bytes depends on Options.Binary.
func (t *Transformer) CanonicalText(c *catalog.Column, text string) (string, error) {
	if formOf(c, t.binary) != encoded {
		return text, nil
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return "", fmt.Errorf("read bytes of column %s: not base64", c.Name) // the library's error tells of the value
	}
	return hex.EncodeToString(data), nil
}
