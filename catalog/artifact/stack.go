package artifact

import (
	"fmt"
	"strings"

	"icehose/catalog"
)

// LogicalID is the name of a table's resource in StackFile. Tables whose names
// differ have different ones.
func LogicalID(t *catalog.Table) string { return logicalID(t) }

// SplitStack takes StackFile apart: what comes before the first table, and the
// text of each table by its logical id. It refuses a file that Generate did not
// make, and one that was cut off.
func SplitStack(stack []byte) (head string, tables map[string]string, err error) {
	if tables, err = tablesOf(stack); err != nil {
		return "", nil, err
	}
	before, _, ok := strings.Cut(string(stack), "\nResources:\n")
	if !ok {
		return "", nil, fmt.Errorf("read %s: no Resources: line", StackFile)
	}
	return before + "\nResources:\n", tables, nil
}
