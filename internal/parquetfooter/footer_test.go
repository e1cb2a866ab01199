package parquetfooter_test

import (
	"encoding/binary"
	"slices"
	"testing"

	"icehose/internal/parquetfooter"
)

// TestForgetWhatIsNoFooter: a footer that is cut or garbled is an error,
// and what does not end as a Parquet file is left alone.
func TestForgetWhatIsNoFooter(t *testing.T) {
	t.Parallel()
	columns := map[string]bool{"v": true}
	trailer := func(footer []byte, size int) []byte {
		return append(binary.LittleEndian.AppendUint32(append([]byte("PAR1"), footer...), uint32(size)), "PAR1"...) //nolint:gosec // small
	}
	// row_groups: one of one column chunk, whose meta_data has a path and statistics.
	chunk := []byte{0x3c, 0x39, 0x18, 1, 'v', 0x9c, 0x58, 1, 'z', 0x18, 1, 'a', 0, 0, 0}
	footer := append([]byte{0x49, 0x1c, 0x19, 0x1c}, append(chunk, 0, 0)...)
	for _, c := range []struct {
		name string
		file []byte
		ok   bool
	}{
		{"whole", trailer(footer, len(footer)), true},
		{"no file", []byte("PAR"), true},
		{"given up", []byte("something else altogether"), true},
		{"longer than the file", trailer(footer, 1000), false},
		{"cut", trailer(footer[:len(footer)-3], len(footer)-3), false},
		{"garbled", trailer([]byte{0x49, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, 12), false},
		{"of other columns", trailer(append(footer[:0:0], replaced(footer, 'v', 'w')...), len(footer)), false},
		{"too much", trailer(append(slices.Clip(footer), 7), len(footer)+1), false},
	} {
		before := string(c.file)
		if err := parquetfooter.Forget(c.file, columns); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
		if changed := string(c.file) != before; changed != (c.name == "whole") {
			t.Errorf("%s: changed %t", c.name, changed)
		}
	}
}

func replaced(b []byte, old, by byte) []byte {
	b = append([]byte(nil), b...)
	for i := range b {
		if b[i] == old {
			b[i] = by
		}
	}
	return b
}

func FuzzForget(f *testing.F) {
	f.Add([]byte{0x49, 0x1c, 0x19, 0x1c, 0x3c, 0x39, 0x18, 1, 'v', 0x9c, 0x58, 1, 'z', 0x18, 1, 'a', 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, footer []byte) {
		file := append(binary.LittleEndian.AppendUint32(append([]byte("PAR1"), footer...), uint32(len(footer))), "PAR1"...) //nolint:gosec // small
		_ = parquetfooter.Forget(file, map[string]bool{"v": true})                                                          // it ends, and panics at nothing
	})
}
