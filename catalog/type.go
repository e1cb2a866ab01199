package catalog

import (
	"fmt"
	"strconv"
	"strings"
)

// A TypeKind is an Iceberg v2 primitive type without its parameters.
type TypeKind uint8

// The kinds, in the order of the Iceberg specification.
const (
	Boolean TypeKind = iota + 1
	Int
	Long
	Float
	Double
	Decimal
	Date
	Time
	Timestamp
	TimestampTZ
	String
	UUID
	Fixed
	Binary
)

var kindNames = [...]string{ //nolint:gochecknoglobals // constant table
	Boolean: "boolean", Int: "int", Long: "long", Float: "float", Double: "double", Decimal: "decimal", Date: "date",
	Time: "time", Timestamp: "timestamp", TimestampTZ: "timestamptz", String: "string", UUID: "uuid", Fixed: "fixed", Binary: "binary",
}

// String returns the Iceberg name of the kind.
func (k TypeKind) String() string {
	if int(k) < len(kindNames) && k > 0 {
		return kindNames[k]
	}
	return "invalid"
}

// A Type is an Iceberg type. Precision and Scale belong to Decimal, Length
// (bytes) to Fixed.
type Type struct {
	Kind             TypeKind
	Precision, Scale int
	Length           int
}

// ParseType reads the spelling of the Iceberg specification: "long",
// "decimal(12,2)", "fixed[16]".
func ParseType(s string) (Type, error) {
	name, args, hasArgs := strings.Cut(s, "(")
	if hasArgs && strings.TrimSpace(name) == "decimal" {
		body, ok := strings.CutSuffix(strings.TrimSpace(args), ")")
		p, sc, two := strings.Cut(body, ",")
		precision, err1 := strconv.Atoi(strings.TrimSpace(p))
		scale, err2 := strconv.Atoi(strings.TrimSpace(sc))
		if !ok || !two || err1 != nil || err2 != nil {
			return Type{}, fmt.Errorf("parse type: want decimal(precision,scale)")
		}
		if precision < 1 || precision > 38 || scale < 0 || scale > precision {
			return Type{}, fmt.Errorf("parse type: decimal wants precision 1 to 38 and scale 0 to precision")
		}
		return Type{Kind: Decimal, Precision: precision, Scale: scale}, nil
	}
	if rest, ok := strings.CutPrefix(s, "fixed["); ok {
		n, err := strconv.Atoi(strings.TrimSuffix(rest, "]"))
		if err != nil || n < 1 || !strings.HasSuffix(rest, "]") {
			return Type{}, fmt.Errorf("parse type: want fixed[length]")
		}
		return Type{Kind: Fixed, Length: n}, nil
	}
	for k := Boolean; k <= Binary; k++ {
		if k.String() == s && k != Decimal && k != Fixed {
			return Type{Kind: k}, nil
		}
	}
	switch base, _, _ := strings.Cut(s, "<"); strings.ToLower(strings.TrimSpace(base)) {
	case "list", "array", "map", "struct", "row", "variant":
		return Type{}, fmt.Errorf("parse type: no nested types: use string, which takes a list, map or struct as its JSON text")
	}
	return Type{}, fmt.Errorf("parse type: want boolean, int, long, float, double, decimal(p,s), date, time, timestamp, timestamptz, string, uuid, fixed[n] or binary")
}

// String renders the type as ParseType reads it.
func (t Type) String() string {
	switch t.Kind {
	case Decimal:
		return fmt.Sprintf("decimal(%d,%d)", t.Precision, t.Scale)
	case Fixed:
		return fmt.Sprintf("fixed[%d]", t.Length)
	case Boolean, Int, Long, Float, Double, Date, Time, Timestamp, TimestampTZ, String, UUID, Binary:
		return t.Kind.String()
	}
	return "invalid"
}
