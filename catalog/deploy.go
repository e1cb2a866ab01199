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

// Properties returns the Iceberg properties of the new lake table, whoever
// creates it. The format version is always 2.
func (t *Table) Properties() map[string]string {
	mode := "merge-on-read"
	if t.DeleteFormat() == CopyOnWrite {
		mode = "copy-on-write" // what other engines delete must leave no delete files either
	}
	properties := map[string]string{
		// Small row groups let readers skip, and bound the writer's memory.
		"write.parquet.row-group-limit":   "65536",
		"write.parquet.compression-codec": "zstd",
		"write.delete.mode":               mode,
		"write.update.mode":               mode,
		"write.merge.mode":                mode,
		// Deletes by key must not conflict with every concurrent append.
		"write.delete.isolation-level": "snapshot",
		// Each commit writes the metadata anew: keep it short.
		"write.metadata.previous-versions-max":       "20",
		"write.metadata.delete-after-commit.enabled": "true",
	}
	if t.Mode == Changelog {
		// Nor must the MERGE by which retention deletes. What a changelog gains
		// meanwhile no retention may touch; a current table's merges must conflict.
		properties["write.merge.isolation-level"] = "snapshot"
	}
	return properties
}
