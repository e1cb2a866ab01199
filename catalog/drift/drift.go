// Package drift holds what is deployed against the pipeline file: the delivery
// stream and the tables of the Glue Data Catalog.
//
// In come a checked pipeline and descriptions of the deployed parts, read from
// JSON as the AWS CLI prints it, or by catalog/drift/aws from the services. Out
// come findings: what differs, what follows from it, and the fix. It is pure.
//
// It sees what Glue says of a table, which is a copy of the truth in Iceberg's
// metadata: catalog plan compares that.
package drift

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"icehose/catalog"
)

// A Finding is a difference between the pipeline file and what is deployed.
type Finding struct {
	ID    string `json:"id"`
	Where string `json:"where"`           // "stream NAME" or "table DATABASE.TABLE"
	Field string `json:"field,omitempty"` // of the description, or a column
	Have  string `json:"have,omitempty"`  // deployed; empty when it is not there
	Want  string `json:"want,omitempty"`  // by the pipeline file
	// Consequence says what follows from it, Fix what to do.
	Consequence string `json:"consequence"`
	Fix         string `json:"fix"`
}

// Deployed is what there is. A nil part is not compared.
type Deployed struct {
	Stream *Stream
	// Tables are those of the pipeline's databases in Glue, or more.
	Tables []Table
	// Missing are databases of the pipeline that Glue does not have.
	Missing []string
	// Lambda is the ARN that the stream should call; empty for any.
	Lambda string
}

// A Stream is what DescribeDeliveryStream says, as far as it matters here.
type Stream struct {
	Name         string        `json:"DeliveryStreamName"`
	Status       string        `json:"DeliveryStreamStatus"`
	Type         string        `json:"DeliveryStreamType"`
	Destinations []Destination `json:"Destinations"`
}

// A Destination is one of a stream.
type Destination struct {
	Iceberg *Iceberg `json:"IcebergDestinationDescription"`
}

// Iceberg is a stream's Iceberg destination.
type Iceberg struct {
	AppendOnly      bool               `json:"AppendOnly"`
	Buffering       *Buffering         `json:"BufferingHints"`
	Logging         *Enabled           `json:"CloudWatchLoggingOptions"`
	Tables          []DestinationTable `json:"DestinationTableConfigurationList"`
	Processing      *Processing        `json:"ProcessingConfiguration"`
	Retry           *Retry             `json:"RetryOptions"`
	S3              *S3                `json:"S3DestinationDescription"`
	SchemaEvolution *Enabled           `json:"SchemaEvolutionConfiguration"`
	TableCreation   *Enabled           `json:"TableCreationConfiguration"`
}

// Buffering is when a batch is delivered.
type Buffering struct {
	Seconds *int `json:"IntervalInSeconds"`
	MB      *int `json:"SizeInMBs"`
}

// Enabled is a part that is on or off.
type Enabled struct {
	Enabled bool `json:"Enabled"`
}

// Retry is how long Firehose tries.
type Retry struct {
	Seconds *int `json:"DurationInSeconds"`
}

// S3 is where failed records go.
type S3 struct {
	Buffering *Buffering `json:"BufferingHints"`
}

// A DestinationTable is a table that the stream knows.
type DestinationTable struct {
	Database   string   `json:"DestinationDatabaseName"`
	Table      string   `json:"DestinationTableName"`
	UniqueKeys []string `json:"UniqueKeys"`
	// Partition is for tables that Firehose creates itself.
	Partition *struct {
		Identity []struct {
			Column string `json:"SourceName"`
		} `json:"Identity"`
	} `json:"PartitionSpec"`
}

// Processing is what a stream does with records.
type Processing struct {
	Enabled    bool        `json:"Enabled"`
	Processors []Processor `json:"Processors"`
}

// A Processor is one step of it.
type Processor struct {
	Type       string `json:"Type"`
	Parameters []struct {
		Name  string `json:"ParameterName"`
		Value string `json:"ParameterValue"`
	} `json:"Parameters"`
}

// parameter returns a parameter of the processor; ok is false if it has none of
// this name.
func (p *Processor) parameter(name string) (value string, ok bool) {
	for _, parameter := range p.Parameters {
		if parameter.Name == name {
			return parameter.Value, true
		}
	}
	return "", false
}

// A Table is what GetTables says of one, as far as it matters here.
type Table struct {
	Database   string            `json:"DatabaseName"`
	Name       string            `json:"Name"`
	Parameters map[string]string `json:"Parameters"`
	Storage    struct {
		Columns []Column `json:"Columns"`
	} `json:"StorageDescriptor"`
}

// A Column is a column of a table, in Hive's words.
type Column struct {
	Name       string            `json:"Name"`
	Type       string            `json:"Type"`
	Parameters map[string]string `json:"Parameters"`
}

// ParseStream reads what aws firehose describe-delivery-stream prints.
func ParseStream(text []byte) (*Stream, error) {
	var out struct {
		Description *Stream `json:"DeliveryStreamDescription"`
	}
	const command = "aws firehose describe-delivery-stream"
	if err := parse(text, &out, command); err != nil {
		return nil, fmt.Errorf("read delivery stream: %w", err)
	}
	if out.Description == nil {
		return nil, errors.New("read delivery stream: no DeliveryStreamDescription; want what " + command + " prints")
	}
	return out.Description, nil
}

// ParseTables reads what aws glue get-tables or get-table prints.
func ParseTables(text []byte) ([]Table, error) {
	var out struct {
		TableList *[]Table `json:"TableList"`
		Table     *Table   `json:"Table"`
	}
	const command = "aws glue get-tables"
	if err := parse(text, &out, command); err != nil {
		return nil, fmt.Errorf("read tables: %w", err)
	}
	switch {
	case out.TableList != nil:
		return *out.TableList, nil
	case out.Table != nil:
		return []Table{*out.Table}, nil
	}
	return nil, errors.New("read tables: neither TableList nor Table; want what " + command + " prints")
}

// parse reads what a command prints.
func parse(text []byte, v any, command string) error {
	err := json.Unmarshal(text, v)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("line %d: %s is a %s; want what %s prints", bytes.Count(text[:wrong.Offset], []byte("\n"))+1, cmp.Or(wrong.Field, "the document"), wrong.Value, command)
	}
	if err != nil {
		return fmt.Errorf("want what %s prints: %w", command, err)
	}
	return nil
}

// Compare returns the differences, the stream's first.
func Compare(p *catalog.Pipeline, d Deployed) []Finding {
	c := &comparer{pipeline: p, deployed: d}
	if d.Stream != nil {
		c.stream(d.Stream)
	}
	if d.Tables != nil {
		c.glue(d.Tables)
	}
	slices.SortStableFunc(c.findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Where, b.Where), cmp.Compare(a.Field, b.Field), cmp.Compare(a.ID, b.ID))
	})
	return c.findings
}

// A comparer collects findings.
type comparer struct {
	pipeline *catalog.Pipeline
	deployed Deployed
	findings []Finding
}

func (c *comparer) find(f Finding) { c.findings = append(c.findings, f) }
