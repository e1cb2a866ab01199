package cdc

// A Kind is the JSON form of a value. Missing is the zero Kind: a value that
// is not in the record at all.
type Kind uint8

// The kinds. Null, missing, empty and unchanged are four different states;
// whether a Missing or Null stands for unchanged is the pipeline file's word.
const (
	Missing Kind = iota
	Null
	Bool
	Number
	String
	Object
	Array
)

// String returns the JSON name of the kind.
func (k Kind) String() string {
	switch k {
	case Missing:
		return "missing"
	case Null:
		return "null"
	case Bool:
		return "boolean"
	case Number:
		return "number"
	case String:
		return "string"
	case Object:
		return "object"
	case Array:
		return "array"
	}
	return "invalid"
}

// A Value is one value of a record, undecoded. Raw is its JSON text without
// surrounding space: quotes and escapes included for strings, digits as they
// were written for numbers. A number is never turned into a float on its way.
type Value struct {
	Kind Kind
	// Escaped says that a String holds at least one backslash, so that Raw
	// between the quotes is not its text.
	Escaped bool
	// Digits says that a Number is known to be digits alone: no sign, no
	// fraction, no exponent.
	Digits bool
	Raw    []byte
}

// AppendText appends the text that the value stands for: the unescaped
// content of a string, the raw JSON of anything else. Lone surrogates become
// U+FFFD and are reported by the second result, since they have no text.
func (v Value) AppendText(dst []byte) (text []byte, ok bool) {
	if v.Kind != String {
		return append(dst, v.Raw...), true
	}
	body := v.Raw[1 : len(v.Raw)-1]
	if !v.Escaped {
		return append(dst, body...), true
	}
	return appendUnescaped(dst, body)
}
