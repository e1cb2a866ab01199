package reconcile_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"iter"
	"strings"
	"testing"

	"icehose/catalog"
	"icehose/internal/canon"
	"icehose/reconcile"
)

func encoderOf(t *testing.T, columns string) *reconcile.Encoder {
	t.Helper()
	e, err := reconcile.NewEncoder(tableOf(t, columns))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func tableOf(t *testing.T, columns string) *catalog.Table {
	t.Helper()
	p, err := catalog.Parse("pipeline.yaml", []byte(`version: 1
database: lake
source: {engine: postgresql, position: postgres}
tables:
  - source: public.t
    mode: changelog
    key: [id]
    columns:
`+columns))
	if err != nil {
		t.Fatal(err)
	}
	return p.Tables[0]
}

// digestOf digests the row that fill encodes.
func digestOf(e *reconcile.Encoder, fill func(*reconcile.Encoder)) (canon.Digest, error) {
	var rows iter.Seq2[*reconcile.Encoder, error] = func(yield func(*reconcile.Encoder, error) bool) {
		e.Reset()
		fill(e)
		yield(e, nil)
	}
	digests, err := reconcile.DigestRows(&catalog.Table{}, rows, reconcile.Part{Buckets: 1})
	if err != nil {
		return canon.Digest{}, err
	}
	return digests[0], nil
}

// What the source writes and what the lake holds are the same row: values are
// canonical, masked, and have lost what the pipeline file lets them lose.
func TestSourceAndLakeEncodeAlike(t *testing.T) {
	e := encoderOf(t, `      - {name: id, type: long}
      - {name: hidden, type: long, mask: sha256}
      - {name: gone, type: string, mask: "null"}
      - {name: left_out, type: string, exclude: true}
      - {name: rounded, type: "decimal(4,1)", allow_lossy: [round]}
      - {name: nulled, type: int, allow_lossy: ["null"]}
      - {name: at, type: timestamptz}
`)
	source, err := digestOf(e, func(e *reconcile.Encoder) {
		for _, text := range []string{"+07", "0042", "a name", "1.25", "99999999999", "2026-10-05 03:00:00+02"} {
			e.Value(canon.Postgres, []byte(text))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte("42"))
	lake, err := digestOf(e, func(e *reconcile.Encoder) {
		e.Canonical([]byte("7"))
		e.Canonical([]byte(hex.EncodeToString(sum[:])))
		e.Null()
		e.Canonical([]byte("1.3"))
		e.Null()
		e.Canonical([]byte("2026-10-05T01:00:00.000000Z"))
	})
	if err != nil {
		t.Fatal(err)
	}
	if source != lake {
		t.Errorf("source %v, lake %v", source, lake)
	}
	leak, err := digestOf(e, func(e *reconcile.Encoder) {
		e.Canonical([]byte("7"))
		e.Canonical([]byte(hex.EncodeToString(sum[:])))
		e.Canonical([]byte("a name"))
		e.Canonical([]byte("1.3"))
		e.Null()
		e.Canonical([]byte("2026-10-05T01:00:00.000000Z"))
	})
	if err != nil {
		t.Fatal(err)
	}
	if leak == source {
		t.Error("a value in the lake that the mask should have removed is not seen")
	}
}

func TestEncoderRefuses(t *testing.T) {
	e := encoderOf(t, "      - {name: id, type: long}\n      - {name: note, type: string}\n")
	tests := []struct {
		name string
		fill func(*reconcile.Encoder)
		want string
	}{
		{"too few", func(e *reconcile.Encoder) { e.Canonical([]byte("1")) }, "1 values for 2 columns"},
		{"too many", func(e *reconcile.Encoder) { e.Canonical([]byte("1")); e.Null(); e.Null() }, "3 values for 2 columns"},
		{"too many of the source", func(e *reconcile.Encoder) {
			for range 3 {
				e.Value(canon.Postgres, []byte("1"))
			}
		}, "more values than columns"},
		{"null key", func(e *reconcile.Encoder) { e.Null(); e.Null() }, "key column id is null"},
		{"damaged", func(e *reconcile.Encoder) {
			e.Value(canon.Postgres, []byte("1"))
			e.Value(canon.Postgres, []byte("caf\xe9"))
		}, "coerce note to string: invalid_utf8"},
		{"first of two", func(e *reconcile.Encoder) {
			e.Null()
			e.Value(canon.Postgres, []byte("caf\xe9"))
		}, "key column id is null"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e.Reset()
			tt.fill(e)
			if err := e.End(); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("End says %v, want %q", err, tt.want)
			}
			if _, err := digestOf(e, tt.fill); err == nil {
				t.Error("the row is digested all the same")
			}
		})
	}
	var value *canon.ValueError
	e.Reset()
	e.Value(canon.Postgres, []byte("1"))
	e.Value(canon.Postgres, []byte("caf\xe9"))
	if !errors.As(e.End(), &value) || value.Column != "note" {
		t.Errorf("no *canon.ValueError of column note: %v", e.End())
	}
	// An error ends with its row.
	if _, err := digestOf(e, func(e *reconcile.Encoder) { e.Canonical([]byte("1")); e.Null() }); err != nil {
		t.Errorf("the row after a broken one: %v", err)
	}
	if _, err := reconcile.NewEncoder(&catalog.Table{Source: "public.t", Key: []string{"id"}}); err == nil {
		t.Error("a key that is not a column: no error")
	}
}
