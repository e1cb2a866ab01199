package dms

import "time"

// A day remembers the last date and the last second that were read: most times
// of a stream are of the same ones as the time before.
type day struct {
	text   [len("2006-01-02")]byte
	unix   int64 // its midnight
	clock  [len("2006-01-02T15:04:05")]byte
	second int64 // of clock, since 1970
}

// The years that have four digits, in seconds since 1970.
const (
	firstSecond = -62135596800 // 0001-01-01T00:00:00Z
	lastSecond  = 253402300799 // 9999-12-31T23:59:59Z
)

// parse reads YYYY-MM-DDThh:mm:ss with 0 to 9 fraction digits and Z or an
// offset (+hh:mm, +hhmm, +hh), in UTC and cut to microseconds. A space may
// stand for the T. Anything else, a leap second, a day that its month does not
// have and a year that is not 1 to 9999 in UTC included, yields the zero time.
func (d *day) parse(b []byte) time.Time {
	const seconds = len("2006-01-02T15:04:05")
	if len(b) <= seconds || !d.wall(b[:seconds]) {
		return time.Time{}
	}
	micros, rest, ok1 := fraction(b[seconds:])
	offset, ok2 := zone(rest)
	at := d.second - offset
	if !ok1 || !ok2 || at < firstSecond || at > lastSecond {
		return time.Time{}
	}
	return time.Unix(at, int64(micros)*1000).UTC()
}

// wall reads a date and a time of day of whole seconds into d.second, as if
// they were UTC.
func (d *day) wall(b []byte) bool {
	if string(b) == string(d.clock[:]) {
		return true
	}
	if b[10] != 'T' && b[10] != ' ' || b[13] != ':' || b[16] != ':' {
		return false
	}
	hour, ok0 := pair(b[11:])
	minute, ok1 := pair(b[14:])
	second, ok2 := pair(b[17:])
	if !ok0 || !ok1 || !ok2 || hour > 23 || minute > 59 || second > 59 || !d.date(b) {
		return false
	}
	d.second = d.unix + int64(hour*3600+minute*60+second)
	copy(d.clock[:], b)
	return true
}

// date reads the date that b begins with.
func (d *day) date(b []byte) bool {
	if b[4] != '-' || b[7] != '-' {
		return false
	}
	if string(b[:len(d.text)]) == string(d.text[:]) {
		return true
	}
	century, ok0 := pair(b[0:])
	year, ok1 := pair(b[2:])
	month, ok2 := pair(b[5:])
	number, ok3 := pair(b[8:])
	if !ok0 || !ok1 || !ok2 || !ok3 {
		return false
	}
	t := time.Date(100*century+year, time.Month(month), number, 0, 0, 0, 0, time.UTC)
	if t.Day() != number || int(t.Month()) != month {
		return false
	}
	d.unix = t.Unix()
	copy(d.text[:], b)
	return true
}

// pair reads two decimal digits.
func pair(b []byte) (n int, ok bool) {
	return int(b[0]-'0')*10 + int(b[1]-'0'), isDigit(b[0]) && isDigit(b[1])
}

// fraction reads a point and one to nine digits, or nothing.
func fraction(b []byte) (micros int, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != '.' {
		return 0, b, true
	}
	n := 1
	for ; n < len(b) && isDigit(b[n]); n++ {
		if n <= 6 {
			micros = micros*10 + int(b[n]-'0')
		}
	}
	for digits := n - 1; digits < 6; digits++ {
		micros *= 10
	}
	return micros, b[n:], n >= 2 && n <= 10
}

// zone reads Z or an offset, in seconds, to the end.
func zone(b []byte) (offset int64, ok bool) {
	if string(b) == "Z" {
		return 0, true
	}
	if len(b) < 3 || b[0] != '+' && b[0] != '-' {
		return 0, false
	}
	hours, ok := pair(b[1:])
	minutes, okMinutes := 0, len(b) == 3
	switch {
	case len(b) == 5:
		minutes, okMinutes = pair(b[3:])
	case len(b) == 6 && b[3] == ':':
		minutes, okMinutes = pair(b[4:])
	}
	offset = int64(hours*3600 + minutes*60)
	if b[0] == '-' {
		offset = -offset
	}
	return offset, ok && okMinutes && hours <= 23 && minutes <= 59
}
