package canon_test

import (
	"testing"

	"icehose/catalog"
	"icehose/internal/canon"
)

// The text of a number with a scale, or of a MySQL time, is that of its source,
// whatever an endpoint leaves out; no digit that is one is lost.
func TestTextOfFixedDigits(t *testing.T) {
	for _, tt := range []struct{ source, text, want string }{
		{"decimal(65,30)", "1.5", "1.500000000000000000000000000000"},
		{"decimal(65,30)", "1.500000000000000000000000000000", "1.500000000000000000000000000000"},
		{"numeric(40,2)", "-12345678901234567890123456789012345678.1", "-12345678901234567890123456789012345678.10"},
		{"numeric(40,2)", "1.50000", "1.50"},
		{"numeric(40,2)", "1.505", "1.505"},
		{"numeric(40,2)", "1.5050", "1.505"},
		{"numeric(40,2)", "7", "7.00"},
		{"numeric(40,2)", "+.5", "0.50"},
		{"numeric(40,2)", "-0.0", "0.00"},
		{"numeric(40,2)", "-0", "0.00"},
		{"numeric(40,2)", "-0.001", "-0.001"},
		{"numeric(40,2)", "NaN", "NaN"},
		{"numeric(40,2)", "", ""},
		{"numeric(40,2)", "-", "-"},
		{"numeric(40,2)", ".", "."},
		{"numeric(40,2)", "1.5 ", "1.5 "},
		{"numeric(40,2)", "1,5", "1,5"},
		{"decimal(60,2) unsigned zerofill", "0000001.5", "1.50"},
		{"numeric(40,0)", "12.000", "12"},
		{"decimal(60)", "00", "0"},
		{"numeric", "1.500", "1.500"},
		{"numeric", "-0.0", "-0.0"},
		{"decimal", "1.50", "1.50"},
		{"dms:numeric(28,6)", "1.5", "1.5"},
		{"numeric(40,2)[]", "1.5", "1.5"},
		{"varchar(20)", "1.5", "1.5"},
		{"", "1.5", "1.5"},
		{"time(6)", "00:00:00", "00:00:00.000000"},
		{"time(6)", "-838:59:59.5", "-838:59:59.500000"},
		{"time(6)", "0:00:01", "00:00:01.000000"},
		{"time(6)", "-00:00:00.50", "-00:00:00.500000"},
		{"time(6)", "-00:00:00", "00:00:00.000000"},
		{"time(6)", "012:00:00", "12:00:00.000000"},
		{"time(6)", "1 day", "1 day"},
		{"time(6)", "00:60:00", "00:60:00"},
		{"time(6)", "00:00", "00:00"},
		{"time(6)", ":00:00", ":00:00"},
		{"time(6)", "00:00:00Z", "00:00:00Z"},
		{"time", "12:00:00.000000", "12:00:00"},
		{"time", "12:00:00.25", "12:00:00.25"},
		{"time(3) without time zone", "12:00:00", "12:00:00"},
		{"time with time zone", "12:00:00", "12:00:00"},
	} {
		c := &catalog.Column{Name: "c", Type: catalog.Type{Kind: catalog.String}, SourceType: tt.source}
		ready := canon.Prepare(c)
		if tt.text != tt.want && ready.IsItself() {
			t.Errorf("%s: a text is said to be itself", tt.source)
		}
		for _, form := range []canon.Form{canon.Record, canon.Delivered, canon.MySQL, canon.Postgres} {
			for _, text := range []string{tt.text, tt.want} {
				if got, err := ready.Append([]byte("x"), form, []byte(text)); err != nil || string(got) != "x"+tt.want {
					t.Errorf("%s %q: got %q %v, want %q", tt.source, text, got, err, tt.want)
				}
			}
		}
	}
	c := &catalog.Column{Name: "c", Type: catalog.Type{Kind: catalog.String}, SourceType: "decimal(65,30)"}
	if _, err := canon.Append(nil, c, canon.Record, []byte("1.5\xff")); err == nil {
		t.Error("a text that is no UTF-8 is taken")
	}
}

// The kind of a date that does not fit is told, and nothing of the date.
func TestKindsOfDates(t *testing.T) {
	for text, want := range map[string]string{
		"0000-00-00": canon.ZeroDate, "2024-00-10": canon.ZeroDate, "2024-01-00": canon.ZeroDate, "0000-01-01": canon.ZeroDate, "infinity": canon.InfiniteDate,
		"-infinity": canon.InfiniteDate, "0044-03-15 BC": canon.EarlyDate, "10000-01-01": canon.LateDate,
	} {
		for _, kind := range []string{"date", "timestamp", "timestamptz"} {
			_, err := canon.Append(nil, column(t, kind), canon.MySQL, []byte(text))
			if err == nil || err.Error() != "coerce c to "+kind+": out_of_range: "+want {
				t.Errorf("%s as %s: %v", text, kind, err)
			}
		}
	}
	for kind, text := range map[string]string{"timestamp": "2024-01-01 24:00:00", "int": "3000000000", "time": "24:00:00"} {
		if _, err := canon.Append(nil, column(t, kind), canon.MySQL, []byte(text)); err == nil || err.Error() != "coerce c to "+kind+": out_of_range" {
			t.Errorf("%s as %s: %v", text, kind, err)
		}
	}
}
