package postgres

import "fmt"

// ParseCopy reads rows of COPY's text format that come in pieces of a size.
func ParseCopy(data []byte, size int) (rows [][]string, err error) {
	w := &copyRows{yield: func(row [][]byte, _ error) bool {
		texts := make([]string, len(row))
		for i, v := range row {
			if texts[i] = fmt.Sprintf("%q", v); v == nil {
				texts[i] = "NULL"
			}
		}
		rows = append(rows, texts)
		return true
	}}
	for len(data) > 0 && err == nil {
		n := min(size, len(data))
		_, err = w.Write(data[:n])
		data = data[n:]
	}
	return rows, err
}
