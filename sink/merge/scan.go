package merge

import (
	"context"
	"fmt"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"icehose/catalog"
	"icehose/catalog/artifact"
	lake "icehose/catalog/iceberg"
)

// AthenaScan returns how many bytes Athena would read to merge what is new in
// the changelog t. It is computed and not measured: the bytes that the files'
// metadata give the columns that the statements name, and whole delete files,
// once for each time that a statement names a table. Left out are footers, what
// the engine skips by statistics, and the least that Athena bills a statement for.
func AthenaScan(ctx context.Context, tables lake.Tables, t *catalog.Table) (int64, error) {
	return athenaScan(ctx, tables, t, maxFileList)
}

// athenaScan does so where size bytes of file names fit into a statement.
func athenaScan(ctx context.Context, tables lake.Tables, t *catalog.Table, size int) (int64, error) {
	m, err := artifact.NewMerge(artifact.Athena, t)
	if err != nil {
		return 0, err
	}
	p, err := newPlan(ctx, tables, t, Options{})
	if err != nil {
		return 0, failed(t, err)
	}
	if p.done() {
		return 0, nil
	}
	var current []table.FileScanTask
	if p.current != nil {
		if current, err = lake.Files(ctx, p.current.Scan()); err != nil {
			return 0, failed(t, fmt.Errorf("list files of the current table: %w", err))
		}
	}
	added := p.added
	if p.from != 0 && !listFits(p.addedPaths(), size) { // no engine skips a file for AddedBut
		added = p.tasks
	}
	var total int64
	for _, read := range m.Reads() {
		var size int64
		switch read.Of {
		case artifact.SourceAdded:
			size, err = columnBytes(p.log, added, read.Columns)
		case artifact.SourceLog:
			size, err = columnBytes(p.log, p.tasks, read.Columns)
		case artifact.SourceCurrent:
			size, err = columnBytes(p.current, current, read.Columns)
		}
		if err != nil {
			return 0, failed(t, err)
		}
		total += size * int64(read.Times)
	}
	return total, nil
}

// columnBytes sums the sizes of columns in files, and of the files' delete files.
func columnBytes(of *table.Table, files []table.FileScanTask, columns []string) (int64, error) {
	var total int64
	deletes := make(map[string]bool)
	for i := range files {
		sizes := files[i].File.ColumnSizes()
		if sizes == nil {
			return 0, fmt.Errorf("file %s tells no sizes of its columns", files[i].File.FilePath())
		}
		for _, name := range columns {
			if field, ok := of.Schema().FindFieldByName(name); ok { // else the merge adds it
				total += sizes[field.ID]
			}
		}
		for _, list := range [][]iceberg.DataFile{files[i].DeleteFiles, files[i].EqualityDeleteFiles, files[i].DeletionVectorFiles} {
			for _, d := range list {
				if !deletes[d.FilePath()] {
					deletes[d.FilePath()] = true
					total += d.FileSizeBytes()
				}
			}
		}
	}
	return total, nil
}
