package canonarrow

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"icehose/catalog"
)

const (
	dayMicros = 86_400_000_000
	minDay    = -719_162  // 0001-01-01
	maxDay    = 2_932_896 // 9999-12-31
)

// appendTemporal refuses what has no canonical text: years other than 0001 to
// 9999, and times of day outside a day.
func appendTemporal(dst []byte, col arrow.Array, i int, t catalog.Type) ([]byte, error) {
	switch c := col.(type) {
	case *array.Date32:
		if t.Kind != catalog.Date {
			return dst, mismatch(col, t)
		}
		day := int64(c.Value(i))
		if day < minDay || day > maxDay {
			return dst, fmt.Errorf("read %s: out of range", t)
		}
		return appendDate(dst, day), nil
	case *array.Time64:
		if unit, ok := c.DataType().(*arrow.Time64Type); !ok || unit.Unit != arrow.Microsecond || t.Kind != catalog.Time {
			return dst, mismatch(col, t)
		}
		micros := int64(c.Value(i))
		if micros < 0 || micros >= dayMicros {
			return dst, fmt.Errorf("read %s: out of range", t)
		}
		return appendClock(dst, micros), nil
	case *array.Timestamp:
		unit, ok := c.DataType().(*arrow.TimestampType)
		if !ok || unit.Unit != arrow.Microsecond || t.Kind != catalog.Timestamp && t.Kind != catalog.TimestampTZ {
			return dst, mismatch(col, t)
		}
		micros := int64(c.Value(i))
		day, clock := micros/dayMicros, micros%dayMicros
		if clock < 0 {
			day, clock = day-1, clock+dayMicros
		}
		if day < minDay || day > maxDay {
			return dst, fmt.Errorf("read %s: out of range", t)
		}
		dst = appendClock(append(appendDate(dst, day), 'T'), clock)
		if t.Kind == catalog.TimestampTZ {
			dst = append(dst, 'Z')
		}
		return dst, nil
	}
	return dst, mismatch(col, t)
}

// appendDate renders days since 1970-01-01 in the proleptic Gregorian
// calendar. Years are counted from March on, so that the leap day is the last
// of its year, in eras of 400 years (146,097 days).
func appendDate(dst []byte, day int64) []byte {
	day += 719_468 // since 0000-03-01
	era := day / 146_097
	if day < 0 {
		era = (day - 146_096) / 146_097
	}
	ofEra := day - era*146_097
	yearOfEra := (ofEra - ofEra/1460 + ofEra/36_524 - ofEra/146_096) / 365
	ofYear := ofEra - (365*yearOfEra + yearOfEra/4 - yearOfEra/100)
	shifted := (5*ofYear + 2) / 153 // March is 0
	date := ofYear - (153*shifted+2)/5 + 1
	year, month := yearOfEra+era*400, shifted+3
	if month > 12 {
		year, month = year+1, month-12
	}
	dst = appendPadded(dst, uint64(year), 4)
	dst = appendPadded(append(dst, '-'), uint64(month), 2)
	return appendPadded(append(dst, '-'), uint64(date), 2)
}

// daysOf is the inverse of appendDate.
func daysOf(year, month, date int64) int64 {
	if month <= 2 {
		year, month = year-1, month+12
	}
	era := year / 400
	if year < 0 {
		era = (year - 399) / 400
	}
	yearOfEra := year - era*400
	ofYear := (153*(month-3)+2)/5 + date - 1
	return era*146_097 + yearOfEra*365 + yearOfEra/4 - yearOfEra/100 + ofYear - 719_468
}

func appendClock(dst []byte, micros int64) []byte {
	seconds := micros / 1_000_000
	dst = appendPadded(dst, uint64(seconds/3600), 2)
	dst = appendPadded(append(dst, ':'), uint64(seconds/60%60), 2)
	dst = appendPadded(append(dst, ':'), uint64(seconds%60), 2)
	return appendPadded(append(dst, '.'), uint64(micros%1_000_000), 6)
}

// number reads text as exactly that many decimal digits.
func number(text []byte) (n int64, ok bool) {
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}

func parseDate(text []byte) (days int64, ok bool) {
	if len(text) != 10 || text[4] != '-' || text[7] != '-' {
		return 0, false
	}
	year, ok1 := number(text[:4])
	month, ok2 := number(text[5:7])
	date, ok3 := number(text[8:])
	if !ok1 || !ok2 || !ok3 || year < 1 || month < 1 || month > 12 || date < 1 || date > 31 {
		return 0, false
	}
	days = daysOf(year, month, date)
	if date > 28 {
		// A day that its month does not have comes back as another date.
		var room [10]byte
		if string(appendDate(room[:0], days)) != string(text) {
			return 0, false
		}
	}
	return days, true
}

func parseClock(text []byte) (micros int64, ok bool) {
	if len(text) != 15 || text[2] != ':' || text[5] != ':' || text[8] != '.' {
		return 0, false
	}
	hour, ok1 := number(text[:2])
	minute, ok2 := number(text[3:5])
	second, ok3 := number(text[6:8])
	fraction, ok4 := number(text[9:])
	ok = ok1 && ok2 && ok3 && ok4 && hour < 24 && minute < 60 && second < 60
	return ((hour*60+minute)*60+second)*1_000_000 + fraction, ok
}

func parseTimestamp(text []byte, zone bool) (micros int64, ok bool) {
	if zone {
		if len(text) != 27 || text[26] != 'Z' {
			return 0, false
		}
		text = text[:26]
	}
	if len(text) != 26 || text[10] != 'T' {
		return 0, false
	}
	days, ok1 := parseDate(text[:10])
	clock, ok2 := parseClock(text[11:])
	return days*dayMicros + clock, ok1 && ok2
}
