package main

import (
	"testing"
)

// BenchmarkHandle measures whole events in, whole responses out.
func BenchmarkHandle(b *testing.B) {
	h, err := newHandler()
	if err != nil {
		b.Fatal(err)
	}
	for _, w := range workloads() {
		b.Run(w.name, func(b *testing.B) {
			b.SetBytes(int64(w.bytes()))
			b.ReportAllocs()
			for b.Loop() {
				for _, event := range w.events {
					if _, err := h.handle(b.Context(), event); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// BenchmarkBase64 measures decoding and encoding the same records alone.
func BenchmarkBase64(b *testing.B) {
	for _, w := range workloads() {
		b.Run(w.name, func(b *testing.B) {
			texts := encoded(w)
			var scratch base64Scratch
			b.SetBytes(int64(w.bytes()))
			for b.Loop() {
				if err := scratch.roundTrip(texts); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
