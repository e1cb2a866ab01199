package dms_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"icehose/cdc"
	"icehose/cdc/dms"
)

var update = flag.Bool("update", false, "write the golden files anew")

const shapes = "../../testdata/events/shapes"

// TestShapes decodes one hand-written record of every documented shape.
func TestShapes(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(shapes, "*.json"))
	if err != nil || len(paths) < 40 {
		t.Fatalf("found %d records, %v", len(paths), err)
	}
	decoder := dms.New(dms.Settings{})
	prefixed := dms.New(dms.Settings{BeforePrefix: "BI_"})
	var c cdc.Change // one for all, so that a rest of the record before would show
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		t.Run(name, func(t *testing.T) {
			record, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			d := decoder
			if strings.HasSuffix(name, "-prefix") {
				d = prefixed
			}
			if err := d.Decode(record, &c); err != nil {
				t.Fatal(err)
			}
			golden(t, strings.TrimSuffix(path, ".json")+".golden", render(&c, kindOf(name)))
		})
	}
}

// kindOf is the position kind that the pipeline file of a source would name.
func kindOf(name string) string {
	switch {
	case strings.HasPrefix(name, "mysql"):
		return "mysql"
	case strings.HasPrefix(name, "oracle"):
		return "column:CHANGE_SEQ"
	case strings.HasPrefix(name, "sqlserver"):
		return "sqlserver"
	}
	return "postgres"
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// render writes every part of a change that is there, one a line.
func render(c *cdc.Change, kind string) string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-20s", name)
		fmt.Fprintf(&b, format+"\n", args...)
	}
	line("operation", "%s", c.Operation)
	if c.Operation == cdc.Control {
		line("control name", "%q", c.ControlName)
	}
	if c.ControlBody != nil {
		line("control body", "%s", c.ControlBody)
	}
	line("schema", "%q", c.Schema)
	line("table", "%q", c.Table)
	line("partition key", "%q %q", c.PartitionKeyType, c.PartitionKeyValue)
	line("built at", "%s", instant(c.BuiltAt))
	if !c.CommittedAt.IsZero() {
		line("committed at", "%s", instant(c.CommittedAt))
	}
	if c.HasTransactionID {
		line("transaction", "%d", c.TransactionID)
	}
	if c.HasRecordID {
		line("record", "%d", c.TransactionRecordID)
	}
	if c.HasPrev {
		line("previous", "%d/%d", c.PrevTransactionID, c.PrevRecordID)
	}
	if c.StreamPosition != "" {
		line("stream position", "%q", c.StreamPosition)
	}
	if kind != "" && c.Operation != cdc.Control && c.Operation != cdc.Load {
		line(kind, "%s", position(c, kind))
	}
	for _, f := range c.Data {
		line("data", "%s", column(f))
	}
	if c.HasBefore {
		line("before", "%d columns", len(c.Before))
	}
	for _, f := range c.Before {
		line("before", "%s", column(f))
	}
	return b.String()
}

func instant(t time.Time) string { return t.Format(time.RFC3339Nano) }

func position(c *cdc.Change, kind string) string {
	k, err := cdc.ParsePositionKind(kind)
	if err != nil {
		return err.Error()
	}
	body, err := k.BodyOf(c)
	switch {
	case errors.Is(err, cdc.ErrNoPosition):
		return err.Error()
	case err != nil:
		return "not a missing position: " + err.Error()
	}
	return string(cdc.ChangePosition(0, body, c.TransactionRecordID))
}

func column(f cdc.Field) string {
	text, ok := f.Value.AppendText(nil)
	if !ok {
		return fmt.Sprintf("%s %s with a lone surrogate", f.Name, f.Value.Kind)
	}
	if f.Value.Kind == cdc.String {
		return fmt.Sprintf("%s string %q", f.Name, text)
	}
	return fmt.Sprintf("%s %s %s", f.Name, f.Value.Kind, text)
}
