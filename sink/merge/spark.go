package merge

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"

	"icehose/catalog"
	"icehose/catalog/artifact"
)

// The script: what it does, and how it deals with columns.
var (
	//go:embed spark.py
	sparkRunner string
	//go:embed spark_columns.py
	sparkColumns string
)

// A SparkSpec is what the script knows of one table: names and SQL whose tokens
// it fills.
type SparkSpec struct {
	Name        string   `json:"name"`         // database.table of the changelog
	CurrentName string   `json:"current_name"` // of the current table
	Log         string   `json:"log"`          // quoted
	Current     string   `json:"current"`      // quoted
	Columns     []string `json:"columns"`      // of the changelog
	Data        []string `json:"data"`         // those of them that are the source's
	Position    string   `json:"position"`     // the column
	Kind        string   `json:"kind"`         // of the positions
	Key         string   `json:"key"`          // the key columns, with commas
	Absent      []string `json:"absent"`       // the columns that a change may leave out, by all their names
	Shape       string   `json:"shape"`        // digest of the columns and their defaults
	Warnings    []string `json:"warnings"`     // that every run gives
	Create      string   `json:"create"`
	// Renamed has the names that columns have now by those that they had before.
	Renamed map[string]string `json:"renamed"`
	// Adds has for each column of the current table the statement that adds it.
	Adds map[string]string `json:"adds"`
	// Fence is the condition that the snapshot ${current} is the newest, NoFence
	// that there is none, and Fenced is in the error of a statement where not.
	Fence   string `json:"fence"`
	NoFence string `json:"no_fence"`
	Fenced  string `json:"fenced"`

	Read  string          `json:"read"`
	Steps []artifact.Step `json:"steps"`
	Last  string          `json:"last"`
	Count string          `json:"count"`
	Apply string          `json:"apply"`
}

// NewSparkSpec returns what the script needs to merge a changelog. New current
// tables lie below the warehouse, a URI; "" leaves the place to the catalog.
func NewSparkSpec(t *catalog.Table, warehouse string) (*SparkSpec, error) {
	m, err := artifact.NewMerge(artifact.Spark, t)
	if err != nil {
		return nil, err
	}
	current := t.Current()
	s := &SparkSpec{
		Name: t.Database() + "." + t.Name(), CurrentName: current.Database() + "." + current.Name(),
		Log: artifact.LogTable(artifact.Spark, t), Current: artifact.CurrentTable(artifact.Spark, t),
		Position: catalog.ColumnPosition, Kind: t.Position.String(), Key: keyNote(t), Shape: columnsNote(t),
		Create: artifact.CreateCurrent(artifact.Spark, t, warehouse), Read: m.Read, Steps: m.Steps, Last: m.Last, Count: m.Count, Apply: m.Apply,
		Absent: []string{}, Warnings: append([]string{}, unfinished(t)...), Adds: make(map[string]string), Renamed: make(map[string]string), Fence: artifact.Fence(artifact.Spark, t, "${current}"), NoFence: artifact.Fence(artifact.Spark, t, ""), Fenced: artifact.Fenced,
	}
	folded, _ := current.LakeColumns()
	for _, c := range folded {
		s.Adds[c.Name] = artifact.AddToCurrent(artifact.Spark, t, c)
	}
	columns, data := t.LakeColumns()
	for i, c := range columns {
		s.Columns = append(s.Columns, c.Name)
		if i < data {
			s.Data = append(s.Data, c.Name)
		}
		if c.RenamedFrom != "" {
			s.Renamed[c.RenamedFrom] = c.Name
		}
		if c.MayBeUnchanged {
			s.Absent = append(s.Absent, c.Names()...)
		}
	}
	return s, nil
}

// SparkScript returns a Python program for spark-submit that merges changelogs.
// It takes --rebuild. It names no snapshot, so it may be kept and scheduled.
func SparkScript(specs []*SparkSpec) (string, error) {
	// JSON of texts and lists of them is Python.
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(specs); err != nil {
		return "", fmt.Errorf("make script: %w", err)
	}
	return sparkRunner + "\n\n" + sparkColumns + "\n\nSPECS = " + text.String() + "\nif __name__ == \"__main__\":\n    sys.exit(main(SPECS, sys.argv[1:]))\n", nil
}
