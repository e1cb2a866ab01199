//go:build interop && (postgres || mariadb)

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
)

var python = flag.String("python", "", "Python that has the packages of interop/requirements.txt")

// null stands for NULL among the texts of values; no boundary value has it.
const null = "<null>"

// A carried is a table (id integer, v of one type) that came into the lake.
type carried struct {
	declared string // the type of v, in the words of docs/types.md
	table    *catalog.Table
}

func (c *carried) column() *catalog.Column {
	columns, _ := c.table.LakeColumns()
	return &columns[1]
}

// compareEngines compares what engines that are not ours read of the tables
// with what the source's own texts are, by type and id.
func compareEngines(t *testing.T, want map[string]map[string]string, lake string, tables []carried) {
	t.Helper()
	for _, engine := range []string{"duckdb", "pyiceberg"} {
		if diff := cmp.Diff(want, readIndependently(t, engine, lake, tables)); diff != "" {
			t.Errorf("values (-source +%s):\n%s", engine, diff)
		}
	}
}

// readIndependently reads the tables with an engine that is not ours, each from
// the metadata file that the lake's catalog calls its newest. It returns the
// texts of v by type and id, in the notation of normal.
func readIndependently(t *testing.T, engine, lake string, tables []carried) map[string]map[string]string {
	t.Helper()
	if *python == "" {
		t.Fatal("want -python: run make interop-types")
	}
	var requests bytes.Buffer
	for _, c := range tables {
		request := map[string]any{"scan": c.table.Database() + "." + c.table.Name(), "columns": []string{"id", c.column().Name}}
		if err := json.NewEncoder(&requests).Encode(request); err != nil {
			t.Fatal(err)
		}
	}
	script, err := filepath.Abs("../../interop/engine.py")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), *python, script, engine, "lake="+lake)
	cmd.Stdin = &requests
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		errors.As(err, &exit)
		t.Fatalf("%s: %v\n%s", engine, err, exit.Stderr)
	}
	replies := json.NewDecoder(bytes.NewReader(out))
	if err := replies.Decode(new(struct{ Ready string })); err != nil {
		t.Fatal(err)
	}
	read := make(map[string]map[string]string)
	for _, c := range tables {
		var reply struct {
			Rows  [][]*string
			Error string
		}
		if err := replies.Decode(&reply); err != nil {
			t.Fatalf("%s: %s: %v", engine, c.declared, err)
		}
		if reply.Error != "" {
			t.Errorf("%s: %s: %s", engine, c.declared, reply.Error)
			continue
		}
		texts := make(map[string]string)
		for _, row := range reply.Rows {
			id, text := *row[0], normal(t, c.column().Type.Kind, row[1])
			// A changelog has the loaded row and its update, which changed nothing.
			if before, twice := texts[id]; twice && (c.table.Mode != catalog.Changelog || before != text) {
				t.Errorf("%s: %s: row %s is there twice: %q and %q", engine, c.declared, id, before, text)
			}
			texts[id] = text
		}
		read[c.declared] = texts
	}
	return read
}

// normal takes from a text what is notation and no part of the value, by the
// type of the lake's column. A text of any other type stands as it is.
func normal(t *testing.T, kind catalog.TypeKind, text *string) string {
	t.Helper()
	if text == nil {
		return null
	}
	switch kind {
	case catalog.Float:
		return normalFloat(t, *text, 32)
	case catalog.Double:
		return normalFloat(t, *text, 64)
	case catalog.Decimal, catalog.Time, catalog.Timestamp, catalog.TimestampTZ:
		return normalFraction(*text)
	case catalog.Boolean, catalog.Int, catalog.Long, catalog.Date, catalog.String, catalog.UUID, catalog.Fixed, catalog.Binary:
	}
	return *text
}

// normalFloat is the number's bits: engines differ in how many digits they
// write, and in when they write an exponent. Minus zero is zero, as both
// databases and the lake's canonical form have it.
func normalFloat(t *testing.T, text string, bits int) string {
	t.Helper()
	f, err := strconv.ParseFloat(text, bits)
	if err != nil {
		t.Errorf("no float: %v", err)
	}
	return fmt.Sprintf("%x", f+0) // -0 + 0 is 0
}

// normalFraction takes away zeros at the end of a fraction, of which a column
// with a larger scale has more, and those of a second, which not everyone writes.
func normalFraction(text string) string {
	number, zone := text, ""
	if at := strings.IndexByte(text, '+'); at >= 0 {
		number, zone = text[:at], text[at:]
	}
	if strings.Contains(number, ".") {
		number = strings.TrimSuffix(strings.TrimRight(number, "0"), ".")
	}
	return number + zone
}
