package dms

import "time"

// parseTime reads YYYY-MM-DDThh:mm:ss with 0 to 9 fraction digits and Z or an
// offset (+hh:mm, +hhmm, +hh), in UTC and cut to microseconds. A space may
// stand for the T. Anything else, a leap second and a day that its month does
// not have included, yields the zero time.
func parseTime(b []byte) time.Time {
	const seconds = len("2006-01-02T15:04:05")
	if len(b) <= seconds || b[4] != '-' || b[7] != '-' || b[10] != 'T' && b[10] != ' ' || b[13] != ':' || b[16] != ':' {
		return time.Time{}
	}
	century, ok0 := pair(b[0:])
	year, ok1 := pair(b[2:])
	month, ok2 := pair(b[5:])
	day, ok3 := pair(b[8:])
	hour, ok4 := pair(b[11:])
	minute, ok5 := pair(b[14:])
	second, ok6 := pair(b[17:])
	year += 100 * century
	micros, rest, ok7 := fraction(b[seconds:])
	offset, ok8 := zone(rest)
	if !ok0 || !ok1 || !ok2 || !ok3 || !ok4 || !ok5 || !ok6 || !ok7 || !ok8 || hour > 23 || minute > 59 || second > 59 {
		return time.Time{}
	}
	t := time.Date(year, time.Month(month), day, hour, minute, second, micros*1000, time.UTC)
	if t.Day() != day || int(t.Month()) != month {
		return time.Time{}
	}
	return t.Add(-offset)
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

// zone reads Z or an offset, to the end.
func zone(b []byte) (offset time.Duration, ok bool) {
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
	offset = time.Duration(hours)*time.Hour + time.Duration(minutes)*time.Minute
	if b[0] == '-' {
		offset = -offset
	}
	return offset, ok && okMinutes && hours <= 23 && minutes <= 59
}
