package iceberg

import (
	"context"

	"github.com/apache/iceberg-go/table"
)

// Files plans a scan as one task for each data file, which reads all of it.
// The library's own plan has several for a file of more than
// read.split.target-size bytes, 128 MiB without that property: whoever takes one
// for the file, and replaces the file by what he read, loses rows.
func Files(ctx context.Context, scan *table.Scan) ([]table.FileScanTask, error) {
	tasks, err := scan.PlanFiles(ctx)
	if err != nil {
		return nil, err
	}
	files := tasks[:0]
	seen := make(map[string]bool, len(tasks))
	for _, t := range tasks {
		if path := t.File.FilePath(); !seen[path] {
			seen[path] = true
			t.Start, t.Length = 0, t.File.FileSizeBytes()
			files = append(files, t)
		}
	}
	return files, nil
}
