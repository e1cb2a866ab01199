package canonsql_test

import (
	"crypto/sha256"
	"encoding/hex"
	"math/big"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"icehose/catalog"
	"icehose/internal/canon"
	"icehose/internal/canon/canonsql"
)

// A typeCase is a type of the source, the lake's, and the SQL of values.
type typeCase struct {
	source, lake string
	losses       []catalog.Loss
	values       []string
	streamed     bool // the engine cannot render it exactly, and must not try
}

var null = []catalog.Loss{catalog.LossNull}

// The sums that an engine gives are the sums that canon.Digest keeps.
func TestResult(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var want canon.Digest
		upper, lower := new(big.Int), new(big.Int)
		hashes := rapid.SliceOf(rapid.Custom(func(t *rapid.T) canon.Hash {
			return canon.Hash{Hi: rapid.Uint64().Draw(t, "hi"), Lo: rapid.Uint64().Draw(t, "lo")}
		})).Draw(t, "hashes")
		for _, h := range hashes {
			want.Add(h)
			upper.Add(upper, new(big.Int).SetUint64(h.Hi))
			lower.Add(lower, new(big.Int).SetUint64(h.Lo))
		}
		got, err := canonsql.Result(uint64(len(hashes)), upper, lower)
		if err != nil || got != want {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	})
	if _, err := canonsql.Result(1, big.NewInt(-1), big.NewInt(0)); err == nil {
		t.Error("a negative sum: no error")
	}
}

// columnOf makes the column of a case. The loss "padded" stands for a column
// whose source type the pipeline file does not say: its blanks count.
func columnOf(t *testing.T, tt typeCase, mask catalog.Mask) *catalog.Column {
	t.Helper()
	typ, err := catalog.ParseType(tt.lake)
	if err != nil {
		t.Fatal(err)
	}
	c := &catalog.Column{Name: "c", Type: typ, Mask: mask, SourceType: strings.Split(tt.source, " COLL")[0]}
	if slices.Contains(tt.losses, "padded") {
		c.SourceType = ""
		return c
	}
	c.AllowLossy = tt.losses
	return c
}

// checkExact reports whether the rows are to be streamed, and that the engine
// does not try to render them.
func checkExact(t *testing.T, tt typeCase, mask catalog.Mask, rows *canonsql.Rows) (streamed bool) {
	t.Helper()
	floats := mask == catalog.MaskSHA256 && (tt.lake == "float" || tt.lake == "double")
	streamed = mask != catalog.MaskNull && (tt.streamed || floats)
	if rows.Exact(nil) == streamed {
		t.Errorf("mask %q: the engine renders it: %v", mask, !streamed)
	}
	return streamed
}

// checkValue compares the canonical text that an engine rendered with what
// canon makes of the engine's own text.
func checkValue(t *testing.T, c *catalog.Column, form canon.Form, text, got []byte) {
	t.Helper()
	if c.Mask == catalog.MaskNull || text == nil {
		if got != nil {
			t.Errorf("NULL, mask %q: the engine renders %q", c.Mask, got)
		}
		return
	}
	canonical, null, err := canon.AppendValue(nil, c, form, text)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	if null {
		if got != nil {
			t.Errorf("%q is NULL, the engine renders %q", text, got)
		}
		return
	}
	kind := c.Type.Kind
	if c.Mask == catalog.MaskSHA256 {
		sum := sha256.Sum256(canonical)
		canonical, kind = []byte(hex.EncodeToString(sum[:])), catalog.String
	}
	want, err := canon.AppendTyped(nil, kind, canonical)
	if err != nil {
		t.Fatal(err)
	}
	if field := canon.AppendField(nil, got); got == nil || string(field) != string(want) {
		t.Errorf("%q, mask %q: the engine renders %q, canon %q", text, c.Mask, field, want)
	}
}

// Buckets that follow each other are no list of them.
func TestInBuckets(t *testing.T) {
	p, err := catalog.Parse("pipeline.yaml", []byte("version: 1\ndatabase: lake\nsource: {engine: postgresql, position: postgres}\ntables:\n  - {source: s.t, mode: mirror, key: [id], columns: [{name: id, type: long}]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	columns := []canonsql.Column{{Column: p.Tables[0].Columns[0], Spelled: "id", Type: catalog.SourceType{Name: "bigint"}}}
	slice := make([]int, 1<<18)
	for i := range slice {
		slice[i] = 1<<18 + i
	}
	for _, tt := range []struct {
		only            []int
		postgres, mysql string
	}{
		{slice, " <@ int4range(262144, 524288)", " BETWEEN 262144 AND 524287"},
		{[]int{7}, " <@ int4range(7, 8)", " BETWEEN 7 AND 7"},
		{[]int{1, 3}, " = ANY ('{1,3}'::integer[])", " IN (1,3)"},
	} {
		ofPostgres, ofMySQL := canonsql.Postgres(columns), canonsql.MySQL(columns)
		for got, want := range map[string]string{ofPostgres.PostgresInBuckets([]int{0}, 1<<20, tt.only): tt.postgres, ofMySQL.MySQLInBuckets([]int{0}, 1<<20, tt.only): tt.mysql} {
			if !strings.HasSuffix(got, want) || len(got) > 300 {
				t.Errorf("a condition of %d characters, want the end %s", len(got), want)
			}
		}
	}
}
