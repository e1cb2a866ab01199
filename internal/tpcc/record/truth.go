package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"icehose/cdc/kinesis"
	"icehose/internal/tpcc"
)

// writeFinal writes every row that the source has at the end.
func (r *recorder) writeFinal(ctx context.Context) error {
	folder := filepath.Join(r.out, "final")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("write final rows: %w", err)
	}
	r.manifest.FinalRows = map[string]int{}
	for _, table := range tpcc.Tables() {
		name := "public." + table
		n, err := r.writeRows(ctx, table, filepath.Join(folder, name+".ndjson.zst"))
		if err != nil {
			return fmt.Errorf("write final rows of %s: %w", name, err)
		}
		r.manifest.FinalRows[name] = n
	}
	return nil
}

// writeRows writes a table as one JSON object a line: column to PostgreSQL's
// text of the value, or null. Rows are sorted by their text.
func (r *recorder) writeRows(ctx context.Context, table, path string) (n int, err error) {
	results, err := r.conn.PgConn().Exec(ctx, "SELECT t.* FROM "+table+" AS t ORDER BY t::text").ReadAll()
	if err != nil {
		return 0, err
	}
	file, err := kinesis.Create(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	for _, row := range results[0].Rows {
		var line bytes.Buffer
		for i, value := range row {
			if i == 0 {
				line.WriteByte('{')
			} else {
				line.WriteByte(',')
			}
			var text any
			if value != nil {
				text = string(value)
			}
			if err := errors.Join(encode(&line, results[0].FieldDescriptions[i].Name, ":"), encode(&line, text, "")); err != nil {
				return 0, err
			}
		}
		line.WriteString("}\n")
		if _, err := file.Write(line.Bytes()); err != nil {
			return 0, err
		}
	}
	return len(results[0].Rows), nil
}

// encode appends v as JSON, with end after it.
func encode(line *bytes.Buffer, v any, end string) error {
	e := json.NewEncoder(line)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	line.Truncate(line.Len() - 1) // the encoder's line end
	line.WriteString(end)
	return nil
}

// writeSchema writes the schema as pg_dump does, without the lines that name
// versions or that differ from run to run.
func (r *recorder) writeSchema(ctx context.Context) error {
	dump := exec.CommandContext(ctx, r.server.Program("pg_dump"), "--schema-only", "--no-owner", "--no-privileges", "--dbname", r.server.DSN())
	var complaints strings.Builder
	dump.Stderr = &complaints
	text, err := dump.Output()
	if err != nil {
		return fmt.Errorf("dump schema: %w: %s", err, strings.TrimSpace(complaints.String()))
	}
	var schema strings.Builder
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "-- Dumped ") || strings.HasPrefix(line, `\restrict`) || strings.HasPrefix(line, `\unrestrict`) {
			continue
		}
		schema.WriteString(line)
	}
	if err := os.WriteFile(filepath.Join(r.out, "schema.sql"), []byte(schema.String()), 0o644); err != nil {
		return fmt.Errorf("write schema: %w", err)
	}
	return nil
}

func (r *recorder) writeManifest() error {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetIndent("", "  ")
	if err := e.Encode(r.manifest); err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}
	if err := os.WriteFile(filepath.Join(r.out, "manifest.json"), text.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}
	return nil
}
