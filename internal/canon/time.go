package canon

import (
	"bytes"
	"time"
)

// A clock is the part of a time text after the date.
type clock struct {
	hour, minute, second int
	nanos                int
	hasZone              bool
	offset               int // seconds east of UTC
}

// number2 reads exactly two digits.
func number2(s []byte) (n int, ok bool) {
	if len(s) < 2 || s[0] < '0' || s[0] > '9' || s[1] < '0' || s[1] > '9' {
		return 0, false
	}
	return int(s[0]-'0')*10 + int(s[1]-'0'), true
}

// cutDate reads a leading YYYY-MM-DD. Years of other than four digits, and
// zero dates, are OutOfRange: Iceberg's own dates reach further, but neither
// Firehose nor the engines agree on them.
func cutDate(s []byte) (year, month, day int, rest []byte, p Problem) {
	if len(s) > 0 && s[len(s)-1] > '9' && s[len(s)-1] != 'Z' {
		switch {
		case string(s) == "infinity", string(s) == "-infinity", bytes.HasSuffix(s, []byte(" BC")):
			return 0, 0, 0, nil, OutOfRange
		}
	}
	n := digits(s)
	if n > 4 && n < 8 && len(s) > n && s[n] == '-' {
		return 0, 0, 0, nil, OutOfRange
	}
	if n != 4 || len(s) < 10 || s[4] != '-' || s[7] != '-' {
		return 0, 0, 0, nil, NotValid
	}
	high, _ := number2(s)
	low, _ := number2(s[2:])
	year = high*100 + low
	month, ok1 := number2(s[5:])
	day, ok2 := number2(s[8:])
	if !ok1 || !ok2 {
		return 0, 0, 0, nil, NotValid
	}
	if year == 0 || month == 0 || day == 0 {
		return 0, 0, 0, nil, OutOfRange
	}
	if month > 12 || day > 28 && day > time.Date(year, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day() {
		return 0, 0, 0, nil, NotValid
	}
	return year, month, day, s[10:], ""
}

// kindOfDate says why the date at the beginning of a text is out of range;
// empty where something else is.
func kindOfDate(s []byte) string {
	n := digits(s)
	switch {
	case string(s) == "infinity" || string(s) == "-infinity":
		return InfiniteDate
	case bytes.HasSuffix(s, []byte(" BC")):
		return EarlyDate
	case n > 4:
		return LateDate
	case n == 4 && len(s) >= 10 && (hasOnlyZeros(s[:4]) || hasOnlyZeros(s[5:7]) || hasOnlyZeros(s[8:10])):
		return ZeroDate
	}
	return ""
}

func hasOnlyZeros(s []byte) bool { return len(bytes.TrimLeft(s, "0")) == 0 }

// cutClock reads HH:MM:SS[.fraction][zone] to the end of s.
func cutClock(s []byte, round bool) (c clock, p Problem) {
	if len(s) < 8 || s[2] != ':' || s[5] != ':' {
		return c, NotValid
	}
	var ok [3]bool
	c.hour, ok[0] = number2(s)
	c.minute, ok[1] = number2(s[3:])
	c.second, ok[2] = number2(s[6:])
	if !ok[0] || !ok[1] || !ok[2] || c.minute > 59 || c.second > 60 || c.hour > 24 {
		return c, NotValid
	}
	if c.hour == 24 || c.second == 60 {
		return c, OutOfRange
	}
	s = s[8:]
	if len(s) > 0 && s[0] == '.' {
		n := digits(s[1:])
		if n == 0 {
			return c, NotValid
		}
		if p := c.setFraction(s[1:1+n], round); p != "" {
			return c, p
		}
		s = s[1+n:]
	}
	return c, c.setZone(s)
}

// setFraction keeps nine digits, of which only six may differ from zero
// unless rounding is allowed.
func (c *clock) setFraction(fraction []byte, round bool) Problem {
	scale := 100_000_000
	for i, d := range fraction {
		if i >= 6 && d != '0' && !round {
			return Inexact
		}
		c.nanos += int(d-'0') * scale
		scale /= 10
	}
	return ""
}

// setZone reads "", Z, or an offset +HH, +HHMM, +HH:MM or +HH:MM:SS.
func (c *clock) setZone(s []byte) Problem {
	if len(s) == 0 {
		return ""
	}
	c.hasZone = true
	if string(s) == "Z" || string(s) == "z" {
		return ""
	}
	sign := 1
	switch s[0] {
	case '+':
	case '-':
		sign = -1
	default:
		return NotValid
	}
	units := [3]int{3600, 60, 1}
	s = s[1:]
	for i := 0; len(s) > 0; i++ {
		if i > 0 && s[0] == ':' {
			s = s[1:]
		}
		n, ok := number2(s)
		if !ok || i == len(units) || i == 0 && n > 23 || i > 0 && n > 59 {
			return NotValid
		}
		c.offset += sign * n * units[i]
		s = s[2:]
		if len(s) == 0 {
			return ""
		}
	}
	return NotValid
}

func appendDate(dst, text []byte) ([]byte, Problem) {
	_, _, _, rest, p := cutDate(text)
	if p != "" {
		return dst, p
	}
	// Oracle's DATE comes with a time of day; only midnight is a date.
	if len(rest) > 0 {
		if rest[0] != 'T' && rest[0] != ' ' {
			return dst, NotValid
		}
		c, p := cutClock(rest[1:], false)
		if p != "" {
			return dst, p
		}
		if c.hour|c.minute|c.second|c.nanos != 0 || c.offset != 0 {
			return dst, Inexact
		}
	}
	return append(dst, text[:10]...), ""
}

func appendTime(dst, text []byte, round bool) ([]byte, Problem) {
	c, p := cutClock(text, round)
	if p == NotValid && isBeyondDay(text) {
		return dst, OutOfRange
	}
	if p != "" {
		return dst, p
	}
	if c.offset != 0 {
		return dst, NotValid
	}
	t := time.Date(2000, 1, 1, c.hour, c.minute, c.second, c.nanos, time.UTC).Round(time.Microsecond)
	if t.Day() != 1 {
		return dst, OutOfRange
	}
	return t.AppendFormat(dst, "15:04:05.000000"), ""
}

// isBeyondDay reports whether text is [-]H+:MM:SS[.f+] of less than zero hours
// or of 24 and more: a span of time, as MySQL's TIME is (-838:59:59 to
// 838:59:59), and no time of day.
func isBeyondDay(text []byte) bool {
	s, negative := bytes.CutPrefix(text, []byte{'-'})
	n := digits(s)
	hours := bytes.TrimLeft(s[:n], "0")
	s = s[n:]
	if n == 0 || len(s) < len(":00:00") || s[0] != ':' || s[3] != ':' {
		return false
	}
	minute, ok1 := number2(s[1:])
	second, ok2 := number2(s[4:])
	if !ok1 || !ok2 || minute > 59 || second > 59 {
		return false
	}
	if rest := s[6:]; len(rest) > 0 && (rest[0] != '.' || len(rest) == 1 || digits(rest[1:]) != len(rest)-1) {
		return false
	}
	if negative {
		return bytes.ContainsAny(text, "123456789")
	}
	return len(hours) > 2 || len(hours) == 2 && string(hours) >= "24"
}

// appendTimestamp reads a date and a time of day. Without a zone a
// timestamptz is in UTC, as DMS and Firehose take it; a timestamp drops the Z
// that DMS puts on every one, and refuses any real offset.
func appendTimestamp(dst, text []byte, zoned, round bool) ([]byte, Problem) {
	year, month, day, rest, p := cutDate(text)
	if p != "" {
		return dst, p
	}
	var c clock
	if len(rest) > 0 {
		if rest[0] != 'T' && rest[0] != ' ' {
			return dst, NotValid
		}
		if c, p = cutClock(rest[1:], round); p != "" {
			return dst, p
		}
	}
	if !zoned && c.offset != 0 {
		return dst, NotValid
	}
	if rest = bytes.TrimSuffix(rest, []byte("Z")); len(rest) == len("T15:04:05.000000") && rest[0] == 'T' && digits(rest[10:]) == 6 {
		if dst = append(append(dst, text[:10]...), rest...); zoned {
			dst = append(dst, 'Z')
		}
		return dst, ""
	}
	if c.offset == 0 && c.nanos%1000 == 0 {
		return appendStamp(dst, year, month, day, c, zoned), ""
	}
	t := time.Date(year, time.Month(month), day, c.hour, c.minute, c.second, c.nanos, time.UTC)
	t = t.Add(-time.Duration(c.offset) * time.Second).Round(time.Microsecond)
	if t.Year() < 1 || t.Year() > 9999 {
		return dst, OutOfRange
	}
	year, m, day := t.Date()
	c.hour, c.minute, c.second = t.Clock()
	c.nanos = t.Nanosecond()
	return appendStamp(dst, year, int(m), day, c, zoned), ""
}

func appendStamp(dst []byte, year, month, day int, c clock, zoned bool) []byte {
	dst = append2(dst, year/100)
	dst = append2(dst, year%100)
	dst = append2(append(dst, '-'), month)
	dst = append2(append(dst, '-'), day)
	dst = append2(append(dst, 'T'), c.hour)
	dst = append2(append(dst, ':'), c.minute)
	dst = append2(append(dst, ':'), c.second)
	micros := c.nanos / 1000
	dst = append2(append(dst, '.'), micros/10000)
	dst = append2(dst, micros/100%100)
	dst = append2(dst, micros%100)
	if zoned {
		dst = append(dst, 'Z')
	}
	return dst
}

func append2(dst []byte, n int) []byte {
	return append(dst, byte('0'+n/10), byte('0'+n%10))
}
