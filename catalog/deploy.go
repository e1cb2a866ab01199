package catalog

// UniqueKeys returns the columns by which Firehose finds the row that an update
// or a delete means: the key of a mirror. A changelog has none, because it gets
// nothing but inserts.
func (t *Table) UniqueKeys() []string {
	if t.Mode != Mirror {
		return nil
	}
	return t.Key
}

// TableProperties returns the Iceberg properties of a new lake table, whoever
// creates it. The format version is always 2.
func TableProperties() map[string]string {
	return map[string]string{
		// Small row groups let readers skip, and bound the writer's memory.
		"write.parquet.row-group-limit":   "65536",
		"write.parquet.compression-codec": "zstd",
		// Copy-on-write would rewrite a file for each changed row.
		"write.delete.mode": "merge-on-read",
		"write.update.mode": "merge-on-read",
		"write.merge.mode":  "merge-on-read",
		// Deletes by key must not conflict with every concurrent append.
		"write.delete.isolation-level": "snapshot",
		// Each commit writes the metadata anew: keep it short.
		"write.metadata.previous-versions-max":       "20",
		"write.metadata.delete-after-commit.enabled": "true",
	}
}
