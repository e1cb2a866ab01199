package artifact

import (
	"strconv"
	"strings"

	"icehose/catalog"
)

// Rules of a DMS table mapping. They name tables exactly: object mappings take
// no wildcards, and in an include rule the _ of a name is one.
type (
	tableMapping struct {
		Rules []any `json:"rules"`
	}
	selectionRule struct {
		Type    string  `json:"rule-type"`
		ID      string  `json:"rule-id"`
		Name    string  `json:"rule-name"`
		Locator locator `json:"object-locator"`
		Action  string  `json:"rule-action"`
	}
	mappingRule struct {
		selectionRule
		Parameters mappingParameters `json:"mapping-parameters"`
	}
	locator struct {
		Schema string `json:"schema-name"`
		Table  string `json:"table-name"`
	}
	mappingParameters struct {
		PartitionKeyType string `json:"partition-key-type"`
	}
)

// dms makes the task's table mapping and settings, and those of its endpoints.
func (g *generator) dms() error {
	mapping := tableMapping{Rules: []any{}}
	for i, t := range g.pipeline.Tables {
		schema, name, _ := strings.Cut(t.Source, ".")
		rule := selectionRule{Type: "selection", Locator: locator{schema, name}, Action: "explicit"}
		rule.ID = strconv.Itoa(2*i + 1)
		rule.Name = "select " + t.Source
		object := mappingRule{selectionRule: rule, Parameters: mappingParameters{"schema-table"}}
		object.Type, object.Action = "object-mapping", "map-record-to-record"
		object.ID = strconv.Itoa(2*i + 2)
		object.Name = "map " + t.Source
		// One partition key for a row's load and for its changes, or they go to
		// different shards and lose their order. A row without a key has no
		// order of its own.
		if len(t.Key) > 0 {
			object.Parameters.PartitionKeyType = "primary-key"
		}
		mapping.Rules = append(mapping.Rules, rule, object)
	}
	if err := g.json("dms/table-mappings.json", mapping); err != nil {
		return err
	}
	if err := g.json("dms/task-settings.json", taskSettings(g.pipeline)); err != nil {
		return err
	}
	if err := g.json("dms/target-endpoint.json", targetEndpoint(g.pipeline)); err != nil {
		return err
	}
	source, ok := sourceEndpoint(g.pipeline)
	if !ok {
		return nil
	}
	return g.json("dms/source-endpoint.json", source)
}

// An endpoint holds the settings of aws dms create-endpoint that matter here;
// --cli-input-json takes it, and the command line adds names and credentials.
type endpoint struct {
	Type       string              `json:"EndpointType"`
	Engine     string              `json:"EngineName"`
	Attributes string              `json:"ExtraConnectionAttributes,omitempty"`
	Kinesis    *kinesisSettings    `json:"KinesisSettings,omitempty"`
	PostgreSQL *postgresqlSettings `json:"PostgreSQLSettings,omitempty"`
}

type kinesisSettings struct {
	MessageFormat               string
	IncludeTransactionDetails   bool
	IncludePartitionValue       bool
	PartitionIncludeSchemaTable bool
	IncludeTableAlterOperations bool
	IncludeControlDetails       bool
	IncludeNullAndEmpty         bool
	UseLargeIntegerValue        bool
}

type postgresqlSettings struct {
	HeartbeatEnable          bool
	HeartbeatFrequency       int // minutes
	FailTasksOnLobTruncation bool
	MapBooleanAsBoolean      bool
}

func targetEndpoint(p *catalog.Pipeline) endpoint {
	return endpoint{Type: "target", Engine: "kinesis", Kinesis: &kinesisSettings{
		MessageFormat:             "json-unformatted",
		IncludeTransactionDetails: true, // positions come from it
		IncludePartitionValue:     true,
		// Else equal keys of different tables share a shard.
		PartitionIncludeSchemaTable: true,
		IncludeTableAlterOperations: true, // schema drift is seen when it happens
		IncludeControlDetails:       true,
		IncludeNullAndEmpty:         p.Source.Nulls == catalog.NullsIncluded,
		UseLargeIntegerValue:        true, // integers of more than 16 digits lose some as doubles
	}}
}

// sourceEndpoint returns the settings of the source; ok is false for engines
// that need none.
func sourceEndpoint(p *catalog.Pipeline) (e endpoint, ok bool) {
	switch p.Source.Engine {
	case catalog.PostgreSQL:
		return endpoint{
			Type: "source", Engine: "postgres",
			Attributes: "mapUnboundedNumericAsString=true",
			PostgreSQL: &postgresqlSettings{
				HeartbeatEnable: true, HeartbeatFrequency: 5, // an idle database keeps its log else
				FailTasksOnLobTruncation: true, MapBooleanAsBoolean: true,
			},
		}, true
	case catalog.MySQL, catalog.MariaDB, catalog.Oracle, catalog.SQLServer, catalog.DMS:
	}
	return endpoint{}, false
}

// The parts of the task settings that bear on order, keys, types and size.
type settings struct {
	TargetMetadata struct {
		SupportLobs          bool
		FullLobMode          bool
		LimitedSizeLobMode   bool
		LobMaxSize           int // KB
		BatchApplyEnabled    bool
		ParallelApplyThreads int
	}
	FullLoadSettings struct {
		TargetTablePrepMode string
	}
	BeforeImageSettings struct {
		EnableBeforeImage bool
		FieldName         string
		ColumnFilter      string
	}
	ControlTablesSettings struct {
		StatusTableEnabled            bool
		HistoryTableEnabled           bool
		SuspendedTablesTableEnabled   bool
		FullLoadExceptionTableEnabled bool
	}
	ErrorBehavior struct {
		DataErrorPolicy           string
		DataTruncationErrorPolicy string
		TableErrorPolicy          string
	}
	Logging struct {
		EnableLogging bool
	}
}

func taskSettings(p *catalog.Pipeline) *settings {
	s := new(settings)
	s.TargetMetadata.SupportLobs = true
	s.TargetMetadata.LimitedSizeLobMode = true // Kinesis takes no full LOBs
	s.TargetMetadata.LobMaxSize = LOBSize(p)
	s.FullLoadSettings.TargetTablePrepMode = "DO_NOTHING"
	if p.Source.BeforePrefix == "" {
		s.BeforeImageSettings.EnableBeforeImage = true
		s.BeforeImageSettings.FieldName = p.Source.BeforeImage
		s.BeforeImageSettings.ColumnFilter = "pk-only"
	}
	s.ErrorBehavior.DataErrorPolicy = "STOP_TASK"
	s.ErrorBehavior.DataTruncationErrorPolicy = "STOP_TASK"
	s.ErrorBehavior.TableErrorPolicy = "STOP_TASK"
	s.Logging.EnableLogging = true
	return s
}

// recordLOBs is how much of a record of 1 MB LOBs may take, in KB.
const recordLOBs = 900

// LOBSize is the LobMaxSize, in KB, with which the LOBs of any row fit into one
// record: bytes become two hex digits each.
func LOBSize(p *catalog.Pipeline) int {
	most := 1
	for _, t := range p.Tables {
		weight := 0
		for _, c := range t.Columns {
			if !isLOB(p.Source.Engine, c) {
				continue
			}
			weight++
			if c.Type.Kind == catalog.Binary {
				weight++
			}
		}
		most = max(most, weight)
	}
	return max(1, recordLOBs/most)
}

// isLOB reports whether DMS treats a column as a large object.
func isLOB(engine catalog.Engine, c *catalog.Column) bool {
	declared, err := catalog.ParseSourceType(c.SourceType)
	if err != nil {
		return false
	}
	switch engine {
	case catalog.PostgreSQL:
		switch declared.Name {
		case "text", "json", "jsonb", "xml", "bytea", "hstore", "tsvector":
			return true
		}
		return declared.Array
	case catalog.MySQL, catalog.MariaDB:
		return declared.IsLOB()
	case catalog.Oracle, catalog.SQLServer, catalog.DMS:
	}
	return c.MayBeUnchanged
}
