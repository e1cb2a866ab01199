// Package catalog holds the pipeline file: the one reviewed description of
// which source tables flow into which lake tables, with what columns, keys and
// write modes.
//
// In comes the text of pipeline.yaml; out goes a checked Pipeline with every
// default filled in, or errors that name file, line, field and value. The
// package promises nothing about the real tables: reading source schemas and
// changing lake tables are for its adapter folders.
package catalog
