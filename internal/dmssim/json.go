package dmssim

const hexDigits = "0123456789abcdef"

// A jsonWriter writes JSON as DMS does: the style is that of the C library
// cJSON, with a tab after the colon in the formatted form, and text as UTF-8
// with no escapes but those that JSON demands. Numbers are the caller's text.
type jsonWriter struct {
	buf       []byte
	formatted bool
	depth     int
	started   bool // the innermost object or array has an element
}

func (w *jsonWriter) openObject() {
	w.buf = append(w.buf, '{')
	w.depth++
	w.started = false
	if w.formatted {
		w.buf = append(w.buf, '\n')
	}
}

func (w *jsonWriter) closeObject() {
	w.depth--
	if w.formatted {
		if w.started {
			w.buf = append(w.buf, '\n')
		}
		w.indent()
	}
	w.buf = append(w.buf, '}')
	w.started = true
}

func (w *jsonWriter) indent() {
	for range w.depth {
		w.buf = append(w.buf, '\t')
	}
}

func (w *jsonWriter) key(name string) {
	if w.started {
		w.buf = append(w.buf, ',')
		if w.formatted {
			w.buf = append(w.buf, '\n')
		}
	}
	w.started = true
	if w.formatted {
		w.indent()
	}
	w.text(name)
	w.buf = append(w.buf, ':')
	if w.formatted {
		w.buf = append(w.buf, '\t')
	}
}

// strings writes an array of strings, on one line in both forms.
func (w *jsonWriter) strings(texts []string) {
	w.buf = append(w.buf, '[')
	for i, s := range texts {
		if i > 0 {
			w.buf = append(w.buf, ',')
			if w.formatted {
				w.buf = append(w.buf, ' ')
			}
		}
		w.text(s)
	}
	w.buf = append(w.buf, ']')
}

// literal writes a number, true, false or null.
func (w *jsonWriter) literal(s string) { w.buf = append(w.buf, s...) }

func (w *jsonWriter) text(s string) {
	w.buf = append(w.buf, '"')
	for i := range len(s) {
		switch c := s[i]; c {
		case '"', '\\':
			w.buf = append(w.buf, '\\', c)
		case '\b':
			w.buf = append(w.buf, '\\', 'b')
		case '\f':
			w.buf = append(w.buf, '\\', 'f')
		case '\n':
			w.buf = append(w.buf, '\\', 'n')
		case '\r':
			w.buf = append(w.buf, '\\', 'r')
		case '\t':
			w.buf = append(w.buf, '\\', 't')
		default:
			if c < ' ' {
				w.buf = append(w.buf, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
			} else {
				w.buf = append(w.buf, c)
			}
		}
	}
	w.buf = append(w.buf, '"')
}

func (w *jsonWriter) field(name, value string) {
	w.key(name)
	w.text(value)
}

func (w *jsonWriter) number(name, value string) {
	w.key(name)
	w.literal(value)
}
