package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"icehose/catalog"
	"icehose/catalog/discover"
	"icehose/cdc"
	"icehose/internal/canon"
	"icehose/reconcile/dump"
	"icehose/sink/load"
	"icehose/sink/load/mysql"
	"icehose/sink/load/parquet"
	"icehose/sink/load/postgres"
)

// announced returns the text of the pipeline file with the load in it.
func announced(path string, t *catalog.Table, s *load.Snapshot, finished bool) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("announce load: %w", err)
	}
	if text, err = discover.AnnounceLoad(path, text, t.Source, s.Floor, s.Since); err == nil && finished {
		text, err = discover.FinishLoad(path, text, t.Source)
	}
	if err != nil {
		return nil, fmt.Errorf("announce load: %w", err)
	}
	return text, nil
}

// snapshot opens the source of a table.
func (cmd *loadCmd) snapshot(ctx context.Context, env *environment, p *catalog.Pipeline, t *catalog.Table) (*load.Snapshot, error) {
	if len(cmd.Dump) > 0 {
		return cmd.dump(p, t)
	}
	dsn, err := dsnOf(env, cmd.DSN, "--dump")
	kind := t.Position.Source
	switch {
	case err != nil:
		return nil, err
	case kind != cdc.SourceNone && kind != cdc.SourceMySQL && kind != cdc.SourcePostgres:
		return nil, fmt.Errorf("table %s: a position of kind %s cannot be read from the source: load from a dump, and say its position with --at", t.Source, t.Position)
	case kind != cdc.SourceNone && isMySQL(dsn) != (kind == cdc.SourceMySQL):
		return nil, fmt.Errorf("table %s has positions of kind %s, but the connection string is of another engine", t.Source, t.Position)
	}
	var s *load.Snapshot
	if isMySQL(dsn) {
		s, err = mysql.Open(ctx, dsn, t, mysql.Options{Parallel: cmd.Parallel, StatementTimeout: cmd.Statement, LockTimeout: cmd.Lock})
	} else {
		s, err = postgres.Open(ctx, dsn, t, postgres.Options{Parallel: cmd.Parallel, StatementTimeout: cmd.Statement, LockTimeout: cmd.Lock, Wait: cmd.Wait})
	}
	if err == nil && kind == cdc.SourceNone {
		s.Floor = cdc.Body{} // nothing is ordered
	}
	return s, err
}

// dump opens the files of a dump.
func (cmd *loadCmd) dump(p *catalog.Pipeline, t *catalog.Table) (*load.Snapshot, error) {
	s := &load.Snapshot{Since: time.Now().UTC(), Start: cmd.At, Estimate: -1, Close: func() error { return nil }}
	var err error
	if s.Floor, err = parseAt(cmd.At, t.Position); err != nil {
		return nil, fmt.Errorf("--at: %w", err)
	}
	paths, err := dumpFiles(cmd.Dump)
	if err != nil {
		return nil, err
	}
	if formatOf(paths[0]) == extParquet {
		return s, cmd.parquet(s, paths, t)
	}
	if cmd.BinaryAsString {
		return nil, fmt.Errorf("--binary-as-string: %s: of .parquet only", paths[0])
	}
	switch p.Source.Engine {
	case catalog.PostgreSQL:
		s.Form = canon.Postgres
	case catalog.MySQL, catalog.MariaDB:
		s.Form = canon.MySQL
	case catalog.Oracle, catalog.SQLServer, catalog.DMS:
	}
	if s.Form == 0 {
		return nil, fmt.Errorf("the texts of engine %q have no known form: load from Parquet", p.Source.Engine)
	}
	for _, path := range paths {
		if s.Form == canon.MySQL && formatOf(path) == extCSV {
			return nil, fmt.Errorf("%s: CSV is read in PostgreSQL's form only: write NDJSON", path)
		}
		s.Names = append(s.Names, path)
		s.Parts = append(s.Parts, func(ctx context.Context) iter.Seq2[[][]byte, error] {
			rows := dump.ReadFile(ctx, path, t.PlaceColumns)
			if s.Form == canon.Postgres {
				rows = dump.Amounts(t, rows)
			}
			if formatOf(path) == extNDJSON && !cmd.AllowEmpty {
				rows = notEmpty(path, rows)
			}
			return rows
		})
	}
	return s, nil
}

// parquet opens Parquet files, whose row groups are read side by side.
func (cmd *loadCmd) parquet(s *load.Snapshot, paths []string, t *catalog.Table) error {
	s.Form = canon.Delivered
	parts, rows, err := parquet.Open(paths, t, parquet.Options{BinaryAsString: cmd.BinaryAsString})
	if err != nil {
		return err
	}
	s.Estimate = rows
	for _, part := range parts {
		s.Parts, s.Names = append(s.Parts, part.Rows), append(s.Names, part.Name)
	}
	return nil
}

// notEmpty refuses a file of NDJSON without rows. One of CSV has a header and one
// of Parquet a footer, which show that it was written to its end; this is what a
// program leaves that failed before its first row.
func notEmpty(path string, rows iter.Seq2[[][]byte, error]) iter.Seq2[[][]byte, error] {
	return func(yield func([][]byte, error) bool) {
		empty := true
		for row, err := range rows {
			empty = false
			if !yield(row, err) {
				return
			}
		}
		if empty {
			yield(nil, fmt.Errorf("%s has no rows, as if it had never been written: if that is right, --allow-empty", path))
		}
	}
}

const (
	extParquet = ".parquet"
	extNDJSON  = ".ndjson"
	extCSV     = ".csv"
)

// formatOf returns the extension that says how a file is read; empty if none does.
func formatOf(path string) string {
	if strings.HasSuffix(path, extParquet) {
		return extParquet
	}
	return dump.FormatOf(path)
}

// dumpFiles finds the files of names and patterns, all of one format, and none twice.
func dumpFiles(names []string) ([]string, error) {
	var paths []string
	for _, name := range names {
		found, err := filepath.Glob(name)
		if err != nil {
			return nil, fmt.Errorf("--dump: %s: %w", name, err)
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("--dump: no file %s", name)
		}
		paths = append(paths, found...)
	}
	slices.Sort(paths)
	paths = slices.Compact(paths) // patterns may overlap
	for _, path := range paths {
		switch f := formatOf(path); {
		case f == "":
			return nil, fmt.Errorf("--dump: %s: want .csv or .ndjson, plain, .gz or .zst, or .parquet", path)
		case f != formatOf(paths[0]):
			return nil, fmt.Errorf("--dump: %s and %s: files of one load have one format", paths[0], path)
		}
	}
	return paths, distinct(paths)
}

// distinct refuses a file that is there under two names, by a link or compressed
// and not: its rows would be read twice.
func distinct(paths []string) error {
	infos := make([]os.FileInfo, len(paths))
	stems := make(map[string]string)
	for i, path := range paths {
		var err error
		if infos[i], err = os.Stat(path); err != nil {
			return fmt.Errorf("--dump: %w", err)
		}
		for at, other := range infos[:i] {
			if os.SameFile(other, infos[i]) {
				return fmt.Errorf("--dump: %s and %s are one file, whose rows would be there twice: give it once", paths[at], path)
			}
		}
		stem := path
		for _, compression := range []string{".gz", ".zst"} {
			stem = strings.TrimSuffix(stem, compression)
		}
		stem = filepath.Clean(stem)
		if other, ok := stems[stem]; ok {
			return fmt.Errorf("--dump: %s and %s are probably the same rows, which would be there twice: give one of them", other, path)
		}
		stems[stem] = path
	}
	return nil
}

// parseAt reads a position in the source's own words, or as 32 hex digits.
func parseAt(text string, kind cdc.PositionKind) (cdc.Body, error) {
	switch {
	case kind.Source == cdc.SourceNone && text == "":
		return cdc.Body{}, nil
	case text == "":
		return cdc.Body{}, errors.New("a dump does not say its position: give it, as the source told it before the dump began")
	case kind.Source == cdc.SourcePostgres && strings.Contains(text, "/"):
		if lsn, ok := cdc.ParseLSN(text); ok {
			return cdc.Body{Hi: lsn}, nil
		}
	case kind.Source == cdc.SourceMySQL && strings.Contains(text, ":"):
		file, offset, _ := strings.Cut(text, ":")
		number, err1 := strconv.ParseUint(file[strings.LastIndexByte(file, '.')+1:], 10, 32)
		at, err2 := strconv.ParseUint(offset, 10, 32)
		if err1 == nil && err2 == nil {
			return cdc.Body{Lo: number<<32 | at}, nil
		}
	}
	body, err := cdc.ParseBody(text)
	if err != nil {
		return body, errors.New("want a log sequence number (0/16B3748), a binlog file and offset (binlog.000003:1234), or 32 hex digits, as the table's position says")
	}
	return body, nil
}
