package main

import (
	"encoding/base64"
	"fmt"
)

// encoded returns the records as events have them.
func encoded(w *workload) [][]byte {
	out := make([][]byte, len(w.records))
	for i := range w.records {
		out[i] = base64.StdEncoding.AppendEncode(nil, w.records[i].Data)
	}
	return out
}

// A base64Scratch is the memory of the floor's measurement.
type base64Scratch struct{ decoded, encoded []byte }

// roundTrip decodes and encodes every record: what any processor pays.
func (s *base64Scratch) roundTrip(texts [][]byte) (err error) {
	for _, text := range texts {
		if s.decoded, err = base64.StdEncoding.AppendDecode(s.decoded[:0], text); err != nil {
			return fmt.Errorf("decode base64: %w", err)
		}
		s.encoded = base64.StdEncoding.AppendEncode(s.encoded[:0], s.decoded)
	}
	return nil
}
