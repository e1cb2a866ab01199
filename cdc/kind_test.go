package cdc_test

import (
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"icehose/cdc"
)

func TestParsePositionKind(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"none", "postgres", "mysql", "sqlserver", "oracle", "column:AR_H_CHANGE_SEQ", "column:a:b"} {
		k, err := cdc.ParsePositionKind(s)
		if err != nil || k.String() != s {
			t.Errorf("%q became %q, %v", s, k, err)
		}
	}
	for _, s := range []string{"", "column:", "column", "Postgres", "Oracle", "hana", "none "} {
		if k, err := cdc.ParsePositionKind(s); err == nil || strings.Contains(err.Error(), "hana") {
			t.Errorf("%q became %v, %v", s, k, err)
		}
	}
	if got := (cdc.PositionKind{}).String(); got != "invalid" {
		t.Errorf("the zero kind is called %q", got)
	}
}

func TestBodyOf(t *testing.T) {
	t.Parallel()
	column := func(kind cdc.Kind, raw string) *cdc.Change {
		return &cdc.Change{Data: cdc.Fields{{Name: []byte("seq"), Value: cdc.Value{Kind: kind, Escaped: strings.Contains(raw, `\`), Raw: []byte(raw)}}}}
	}
	position := func(s string) *cdc.Change { return &cdc.Change{StreamPosition: s} }
	for _, test := range []struct {
		name, kind string
		in         *cdc.Change
		want       cdc.Body
		fails      bool
	}{
		{"postgres", "postgres", position("00000002/7C007178.3.00000002/7C0071D0"), cdc.Body{Hi: 0x27C0071D0, Lo: 0x27C007178}, false},
		{"postgres, both LSNs the same", "postgres", position("00000002/7C007178.2.00000002/7C007178"), cdc.Body{Hi: 0x27C007178, Lo: 0x27C007178}, false},
		{"postgres, not padded", "postgres", position("2/a.-1.FFFFFFFF/FFFFFFFF"), cdc.Body{Hi: 1<<64 - 1, Lo: 0x20000000A}, false},
		{"postgres, empty", "postgres", position(""), cdc.Body{}, true},
		{"postgres, now", "postgres", position("0000003B/E8003618.NOW"), cdc.Body{}, true},
		{"postgres, one LSN", "postgres", position("0000003B/E8003618"), cdc.Body{}, true},
		{"postgres, digits missing", "postgres", position("0000003B/.2.0000003B/E8003618"), cdc.Body{}, true},
		{"postgres, too many digits", "postgres", position("00000003B/E8003618.2.0000003B/E8003618"), cdc.Body{}, true},
		{"postgres, no digits", "postgres", position("0000003B/E8003618.2.0000003B/E800361G"), cdc.Body{}, true},
		{"postgres, something after", "postgres", position("0000003B/E8003618.2.0000003B/E8003618.1"), cdc.Body{}, true},
		{"postgres, position of MySQL", "postgres", position("mysql-bin.000001:4:-1:4:1:mysql-bin.000001:4"), cdc.Body{}, true},
		{"mysql", "mysql", &cdc.Change{TransactionID: 156<<32 | 1314, HasTransactionID: true}, cdc.Body{Lo: 670014899490}, false},
		{"mysql, zero", "mysql", &cdc.Change{HasTransactionID: true}, cdc.Body{}, false},
		{"mysql, absent", "mysql", &cdc.Change{}, cdc.Body{}, true},
		{"sqlserver", "sqlserver", position("0000002A:000001F4:0003"), cdc.Body{Lo: 0x2A000001F40003}, false},
		{"sqlserver, small digits", "sqlserver", position("fedcba98:76543210:abcd"), cdc.Body{Hi: 0xFEDC, Lo: 0xBA9876543210ABCD}, false},
		{"sqlserver, empty", "sqlserver", position(""), cdc.Body{}, true},
		{"sqlserver, not padded", "sqlserver", position("2A:1F4:3"), cdc.Body{}, true},
		{"sqlserver, no colons", "sqlserver", position("0x0000002A000001F40003"), cdc.Body{}, true},
		{"sqlserver, other separators", "sqlserver", position("0000002A-000001F4-0003"), cdc.Body{}, true},
		{"sqlserver, no digits", "sqlserver", position("0000002A:000001F4:000G"), cdc.Body{}, true},
		{"sqlserver, something after", "sqlserver", position("0000002A:000001F4:0003:"), cdc.Body{}, true},
		{"sqlserver, position of PostgreSQL", "sqlserver", position("00000002/7C007178.3.00000002/7C0071D0"), cdc.Body{}, true},
		{"oracle", "oracle", position("1158789012"), cdc.Body{Lo: 1158789012}, false},
		{"oracle, 64 bits", "oracle", position("18446744073709551615"), cdc.Body{Lo: 1<<64 - 1}, false},
		{"oracle, 65 bits", "oracle", position("18446744073709551616"), cdc.Body{}, true},
		{"oracle, empty", "oracle", position(""), cdc.Body{}, true},
		{"oracle, sign", "oracle", position("+1"), cdc.Body{}, true},
		{"oracle, underscore", "oracle", position("1_000"), cdc.Body{}, true},
		{"oracle, hexadecimal", "oracle", position("0x1"), cdc.Body{}, true},
		{"oracle, exponent", "oracle", position("1.1e+12"), cdc.Body{}, true},
		{"oracle, position of SQL Server", "oracle", position("0000002A:000001F4:0003"), cdc.Body{}, true},
		{"column of text", "column:seq", column(cdc.String, `"20260205124524000000000000050700869"`), cdc.Body{Hi: 0x3e6e7bd755a8f, Lo: 0x88ce63947685a245}, false},
		{"column of a number", "column:seq", column(cdc.Number, `18446744073709551616`), cdc.Body{Hi: 1}, false},
		{"column with escapes", "column:seq", column(cdc.String, `"\u0031\u0032"`), cdc.Body{Lo: 12}, false},
		{"column of 38 nines", "column:seq", column(cdc.Number, strings.Repeat("9", 38)), cdc.Body{Hi: 0x4b3b4ca85a86c47a, Lo: 0x098a223fffffffff}, false},
		{"column of 39 digits", "column:seq", column(cdc.Number, strings.Repeat("1", 39)), cdc.Body{}, true},
		{"column of a megabyte", "column:seq", column(cdc.String, `"`+strings.Repeat("1", 1<<20)+`"`), cdc.Body{}, true},
		{"column empty, as on a load", "column:seq", column(cdc.String, `""`), cdc.Body{}, true},
		{"column null", "column:seq", column(cdc.Null, `null`), cdc.Body{}, true},
		{"column boolean", "column:seq", column(cdc.Bool, `true`), cdc.Body{}, true},
		{"column with exponent", "column:seq", column(cdc.Number, `2.02e+34`), cdc.Body{}, true},
		{"column with a letter", "column:seq", column(cdc.String, `"12a"`), cdc.Body{}, true},
		{"column negative", "column:seq", column(cdc.Number, `-1`), cdc.Body{}, true},
		{"column missing", "column:other", column(cdc.Number, `1`), cdc.Body{}, true},
		{"none", "none", &cdc.Change{}, cdc.Body{}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			k, err := cdc.ParsePositionKind(test.kind)
			if err != nil {
				t.Fatal(err)
			}
			got, err := k.BodyOf(test.in)
			if got != test.want || (err != nil) != test.fails || test.fails && !errors.Is(err, cdc.ErrNoPosition) {
				t.Errorf("got %x/%x, %v", got.Hi, got.Lo, err)
			}
		})
	}
	if _, err := (cdc.PositionKind{}).BodyOf(&cdc.Change{}); !errors.Is(err, cdc.ErrNoPosition) {
		t.Errorf("the zero kind says %v", err)
	}
}

// TestPostgresOrderHoldsForBothReadings: it is not documented which of the two
// numbers is the commit. The order of transactions that touch one row is right
// whichever it is: the later one began its change after the earlier committed.
func TestPostgresOrderHoldsForBothReadings(t *testing.T) {
	t.Parallel()
	kind := cdc.PositionKind{Source: cdc.SourcePostgres}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 6).Draw(t, "transactions")
		commitFirst := rapid.Bool().Draw(t, "commit first")
		next := rapid.Uint64Range(0, 1<<40).Draw(t, "start")
		var last cdc.Body
		for i := range n {
			change := next + rapid.Uint64Range(1, 1<<34).Draw(t, "to the change")
			commit := change + rapid.Uint64Range(0, 1<<34).Draw(t, "to the commit")
			next = commit
			first, second := change, commit
			if commitFirst {
				first, second = commit, change
			}
			b, err := kind.BodyOf(&cdc.Change{StreamPosition: fmt.Sprintf("%s.%d.%s", lsn(first), rapid.IntRange(0, 12).Draw(t, "middle"), lsn(second))})
			if err != nil {
				t.Fatal(err)
			}
			if i > 0 && b.Compare(last) <= 0 {
				t.Errorf("transaction %d has body %s after %s", i, b, last)
			}
			last = b
		}
	})
}

// TestStreamPositionOrder: bodies order as the numbers do that the text is of.
func TestStreamPositionOrder(t *testing.T) {
	t.Parallel()
	words := func(t *rapid.T, bits ...uint) (words []uint64) {
		for _, b := range bits {
			words = append(words, rapid.Uint64Range(0, 1<<b-1).Draw(t, "part"))
		}
		return words
	}
	for _, c := range []struct {
		source cdc.PositionSource
		bits   []uint
		write  func(parts []uint64) string
	}{
		{cdc.SourceSQLServer, []uint{32, 32, 16}, func(p []uint64) string { return fmt.Sprintf("%08X:%08x:%04X", p[0], p[1], p[2]) }},
		{cdc.SourceOracle, []uint{64}, func(p []uint64) string { return fmt.Sprint(p[0]) }},
	} {
		kind := cdc.PositionKind{Source: c.source}
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				a, b := words(t, c.bits...), words(t, c.bits...)
				if rapid.Bool().Draw(t, "near") {
					b = append(slices.Clone(a[:len(a)-1]), b[len(b)-1])
				}
				bodyA, errA := kind.BodyOf(&cdc.Change{StreamPosition: c.write(a)})
				bodyB, errB := kind.BodyOf(&cdc.Change{StreamPosition: c.write(b)})
				if errA != nil || errB != nil {
					t.Fatalf("%v, %v", errA, errB)
				}
				if got, want := bodyA.Compare(bodyB), slices.Compare(a, b); got != want {
					t.Errorf("%s against %s: %d, want %d", c.write(a), c.write(b), got, want)
				}
			})
		})
	}
}

func TestIsInternal(t *testing.T) {
	t.Parallel()
	for table, want := range map[string]bool{
		"awsdms_status": true, "AWSDMS_STATUS": true, "awsDMS_": true,
		"awsdms": false, "xawsdms_status": false, "aws_dms_status": false, "aw\u017fdms_status": false, "": false,
	} {
		if got := cdc.IsInternal(table); got != want {
			t.Errorf("%q: %v, want %v", table, got, want)
		}
	}
}

func lsn(n uint64) string { return fmt.Sprintf("%08X/%08X", n>>32, n&0xFFFFFFFF) }

func TestParseLSNRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := word().Draw(t, "n")
		for _, s := range []string{lsn(n), fmt.Sprintf("%X/%X", n>>32, n&0xFFFFFFFF), strings.ToLower(lsn(n))} {
			if got, ok := cdc.ParseLSN(s); !ok || got != n {
				t.Errorf("%s became %x, %v", s, got, ok)
			}
		}
	})
	for _, s := range []string{"", "/", "1", "1/", "/1", "1/2/3", "-1/2", "+1/2", "1/ 2", "123456789/1", "1/123456789", "0x1/2"} {
		if n, ok := cdc.ParseLSN(s); ok {
			t.Errorf("%q became %x", s, n)
		}
	}
}

func TestMySQLOrderFollowsTheBinlog(t *testing.T) {
	t.Parallel()
	kind := cdc.PositionKind{Source: cdc.SourceMySQL}
	rapid.Check(t, func(t *rapid.T) {
		files, offsets := [2]uint64{}, [2]uint64{}
		var bodies [2]cdc.Body
		for i := range bodies {
			files[i] = rapid.Uint64Range(0, 5).Draw(t, "file")
			offsets[i] = uint64(rapid.Uint32().Draw(t, "offset"))
			b, err := kind.BodyOf(&cdc.Change{HasTransactionID: true, TransactionID: files[i]<<32 | offsets[i]})
			if err != nil {
				t.Fatal(err)
			}
			bodies[i] = b
		}
		want := files[0] < files[1] || files[0] == files[1] && offsets[0] < offsets[1]
		if got := bodies[0].Compare(bodies[1]) < 0; got != want {
			t.Errorf("%d:%d before %d:%d is %v", files[0], offsets[0], files[1], offsets[1], got)
		}
	})
}

func TestColumnDigitsAreTheirNumber(t *testing.T) {
	t.Parallel()
	kind := cdc.PositionKind{Source: cdc.SourceColumn, Column: "seq"}
	rapid.Check(t, func(t *rapid.T) {
		digits := rapid.StringMatching(`[0-9]{1,38}`).Draw(t, "digits")
		b, err := kind.BodyOf(&cdc.Change{Data: cdc.Fields{{Name: []byte("seq"), Value: cdc.Value{Kind: cdc.String, Raw: []byte(`"` + digits + `"`)}}}})
		want, _ := new(big.Int).SetString(digits, 10)
		if err != nil || number(b).Cmp(want) != 0 {
			t.Errorf("%s became %s, %v", digits, number(b), err)
		}
	})
}

// TestPaddedLSNs reads the form that is usual, with bytes changed, by the
// grammar and by a pattern.
func TestPaddedLSNs(t *testing.T) {
	form := regexp.MustCompile(`^([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})\.[^.]*\.([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})$`)
	kind := cdc.PositionKind{Source: cdc.SourcePostgres}
	rapid.Check(t, func(t *rapid.T) {
		text := []byte(rapid.StringMatching(`[0-9A-Fa-f]{7,8}/[0-9A-F]{8}\.[0-9]{1,2}\.[0-9A-F]{8}/[0-9A-Fa-f]{8}`).Draw(t, "text"))
		if rapid.Bool().Draw(t, "damaged") {
			text[rapid.IntRange(0, len(text)-1).Draw(t, "at")] = rapid.SampledFrom([]byte("./gG@`:-+ _\x00\x80")).Draw(t, "byte")
		}
		body, err := kind.BodyOf(&cdc.Change{StreamPosition: string(text)})
		m := form.FindStringSubmatch(string(text))
		if (err == nil) != (m != nil) {
			t.Fatalf("%q: %v", text, err)
		}
		var want strings.Builder
		for _, i := range []int{3, 4, 1, 2} {
			if m != nil {
				want.WriteString(strings.Repeat("0", 8-len(m[i])) + strings.ToLower(m[i]))
			}
		}
		if m != nil && body.String() != want.String() {
			t.Fatalf("%q: %s, want %s", text, body, want.String())
		}
	})
}

// A change of a kind has a position of that kind, and of no other whose form
// differs.
func TestFits(t *testing.T) {
	t.Parallel()
	arrival, err := cdc.ArrivalPosition(0, time.Unix(1, 0), cdc.Origin{Sequence: "7"})
	if err != nil {
		t.Fatal(err)
	}
	load, err := cdc.LoadPosition(0, cdc.Body{}, time.Unix(1, 0), cdc.Origin{Sequence: "7"})
	if err != nil {
		t.Fatal(err)
	}
	kinds := []string{"none", "postgres", "mysql", "sqlserver", "oracle", "column:n"}
	for position, want := range map[cdc.Position][]string{
		load:    kinds,
		arrival: {"none"},
		cdc.ChangePosition(0, cdc.Body{Hi: 5 << 32, Lo: 5 << 32}, 1): {"postgres", "column:n"},
		cdc.ChangePosition(0, cdc.Body{Lo: 5 << 32}, 1):              {"mysql", "sqlserver", "oracle", "column:n"},
		cdc.ChangePosition(0, cdc.Body{Hi: 1, Lo: 5}, 1):             {"postgres", "sqlserver", "column:n"},
	} {
		for _, text := range kinds {
			kind, err := cdc.ParsePositionKind(text)
			if err != nil {
				t.Fatal(err)
			}
			if got := kind.Fits(position); got != slices.Contains(want, text) {
				t.Errorf("%s fits kind %s: %t", position, text, got)
			}
		}
	}
}
