package dmssim

import (
	"errors"
	"fmt"
	"slices"
)

// A MessageFormat is the endpoint setting of that name.
type MessageFormat string

// The message formats.
const (
	JSON            MessageFormat = "json"             // over several lines, with a tab after each colon
	JSONUnformatted MessageFormat = "json-unformatted" // one line
)

// A PartitionKeyType says what a record's partition key is made of, in the
// words of an object-mapping rule and of metadata.partition-key-type.
type PartitionKeyType string

// The partition key types. DefaultPartitionKey is the primary key for loads
// and the table's name for changes, unless the task applies in parallel.
const (
	DefaultPartitionKey   PartitionKeyType = ""
	PrimaryKeyPartition   PartitionKeyType = "primary-key"
	SchemaTablePartition  PartitionKeyType = "schema-table"
	TransactionPartition  PartitionKeyType = "transaction-id"
	ConstantPartition     PartitionKeyType = "constant"
	AttributeName         PartitionKeyType = "attribute-name"
	taskPartition         PartitionKeyType = "task-id"
	columnFilterPrimary                    = "pk-only"
	columnFilterNonLOB                     = "non-lob"
	columnFilterAll                        = "all"
	dropAndCreate                          = "DROP_AND_CREATE"
	doNothing                              = "DO_NOTHING"
	truncateBeforeLoad                     = "TRUNCATE_BEFORE_LOAD"
	longVarcharAsString                    = "wstring"
	longVarcharAsCLOB                      = "clob"
	longVarcharAsNCLOB                     = "nclob"
	maxParallelThreads                     = 32
	maxPartitionKeyRunes                   = 256 // a limit of Kinesis
	unboundedPrecision                     = 28  // of NUMERIC without precision, by the guide
	unboundedScale                         = 6
	maxDecimalPrecision                    = 38 // beyond it NUMERIC becomes STRING
	maxExactDoubleDigits                   = 15
	maxLargeIntegerDigits                  = 18
)

// An ObjectMapping is the partition key of an object-mapping rule for one table.
type ObjectMapping struct {
	PartitionKeyType PartitionKeyType `json:"partition_key_type"`
	// PartitionKeyName is the constant, or the column of attribute-name.
	PartitionKeyName string `json:"partition_key_name,omitempty"`
}

// An LSNReading says which of the two log sequence numbers of a stream
// position is that of the commit. AWS documents neither.
type LSNReading string

// The readings.
const (
	CommitSecond LSNReading = "commit-second"
	CommitFirst  LSNReading = "commit-first"
)

// UnchangedTOAST says how an update shows a value that the write-ahead log
// does not carry, because it is stored out of line and did not change.
type UnchangedTOAST string

// The forms of an unchanged value.
const (
	TOASTAbsent UnchangedTOAST = "absent"
	TOASTNull   UnchangedTOAST = "null" // written only if IncludeNullAndEmpty is set
)

// Settings are the endpoint and task settings that change what is written,
// and the behaviours to reproduce. Defaults returns what DMS has by default.
type Settings struct {
	// Kinesis endpoint.

	MessageFormat                 MessageFormat `json:"message_format"`
	IncludeTransactionDetails     bool          `json:"include_transaction_details"`
	IncludePartitionValue         bool          `json:"include_partition_value"`
	PartitionIncludeSchemaTable   bool          `json:"partition_include_schema_table"`
	IncludeTableAlterOperations   bool          `json:"include_table_alter_operations"`
	IncludeControlDetails         bool          `json:"include_control_details"`
	IncludeNullAndEmpty           bool          `json:"include_null_and_empty"`
	NoHexPrefix                   bool          `json:"no_hex_prefix"`
	UseLargeIntegerValue          bool          `json:"use_large_integer_value"` // up to 18 digits, instead of doubles
	MapBooleanAsBoolean           bool          `json:"map_boolean_as_boolean"`
	MapJSONBAsCLOB                bool          `json:"map_jsonb_as_clob"`
	MapLongVarcharAs              string        `json:"map_long_varchar_as"` // wstring, clob or nclob
	MapUnboundedNumericAsString   bool          `json:"map_unbounded_numeric_as_string"`
	TrimSpaceInChar               bool          `json:"trim_space_in_char"`
	LimitedLOBMode                bool          `json:"limited_lob_mode"`
	LOBMaxSizeKB                  int           `json:"lob_max_size_kb"` // longer values are cut, silently
	EnableBeforeImage             bool          `json:"enable_before_image"`
	BeforeImageFieldName          string        `json:"before_image_field_name"`
	BeforeImageColumnFilter       string        `json:"before_image_column_filter"` // pk-only, non-lob or all
	BeforeImageColumnPrefix       string        `json:"before_image_column_prefix"` // such as BI_: old values as columns of data
	ParallelApplyThreads          int           `json:"parallel_apply_threads"`     // above 0 partitions changes by primary key
	TargetTablePrepMode           string        `json:"target_table_prep_mode"`     // DROP_AND_CREATE, TRUNCATE_BEFORE_LOAD or DO_NOTHING
	StatusTableEnabled            bool          `json:"status_table_enabled"`
	HistoryTableEnabled           bool          `json:"history_table_enabled"`
	FullLoadExceptionTableEnabled bool          `json:"full_load_exception_table_enabled"`
	MaxFullLoadSubTasks           int           `json:"max_full_load_sub_tasks"` // tables that load side by side

	// ObjectMappings are by "schema.table". There are no wildcards, as in DMS.
	ObjectMappings map[string]ObjectMapping `json:"object_mappings,omitempty"`

	// Behaviours.

	// LoadOverlapsChanges reads each table when its load begins and not at the
	// start of the slot, so that its rows reflect changes that are written too,
	// and writes changes while loads run. A table without a key keeps to the
	// start of the slot: there, an insert that comes twice is a wrong row.
	LoadOverlapsChanges bool `json:"load_overlaps_changes"`
	// RestartLoadOf are "schema.table" names whose load is given up after
	// RestartAfterRows rows and starts again with its control records.
	RestartLoadOf    []string       `json:"restart_load_of,omitempty"`
	RestartAfterRows int            `json:"restart_after_rows"`
	UnchangedTOAST   UnchangedTOAST `json:"unchanged_toast"`
	LSNReading       LSNReading     `json:"lsn_reading"`
}

// Defaults returns the settings of an endpoint and a task on which nobody has
// set anything.
func Defaults() Settings {
	return Settings{
		MessageFormat: JSON, MapLongVarcharAs: longVarcharAsNCLOB, TrimSpaceInChar: true, LimitedLOBMode: true, LOBMaxSizeKB: 32,
		BeforeImageFieldName: "before-image", BeforeImageColumnFilter: columnFilterPrimary,
		TargetTablePrepMode: dropAndCreate, MaxFullLoadSubTasks: 8,
		RestartAfterRows: 500, UnchangedTOAST: TOASTAbsent, LSNReading: CommitSecond,
	}
}

// Validate says which setting has a value that DMS, or this package, does not know.
func (s *Settings) Validate() error {
	checks := []struct {
		setting, value string
		allowed        []string
	}{
		{"MessageFormat", string(s.MessageFormat), []string{string(JSON), string(JSONUnformatted)}},
		{"MapLongVarcharAs", s.MapLongVarcharAs, []string{longVarcharAsString, longVarcharAsCLOB, longVarcharAsNCLOB}},
		{"BeforeImageColumnFilter", s.BeforeImageColumnFilter, []string{columnFilterPrimary, columnFilterNonLOB, columnFilterAll}},
		{"TargetTablePrepMode", s.TargetTablePrepMode, []string{dropAndCreate, truncateBeforeLoad, doNothing}},
		{"UnchangedTOAST", string(s.UnchangedTOAST), []string{string(TOASTAbsent), string(TOASTNull)}},
		{"LSNReading", string(s.LSNReading), []string{string(CommitSecond), string(CommitFirst)}},
	}
	for _, c := range checks {
		if !slices.Contains(c.allowed, c.value) {
			return fmt.Errorf("check settings: %s is %q, want one of %q", c.setting, c.value, c.allowed)
		}
	}
	switch {
	case s.EnableBeforeImage && s.BeforeImageColumnPrefix != "":
		return errors.New("check settings: BeforeImageSettings and before-image columns exclude each other")
	case s.EnableBeforeImage && s.BeforeImageFieldName == "":
		return errors.New("check settings: BeforeImageFieldName is empty")
	case s.ParallelApplyThreads < 0 || s.ParallelApplyThreads > maxParallelThreads:
		return fmt.Errorf("check settings: ParallelApplyThreads is %d, want 0 to %d", s.ParallelApplyThreads, maxParallelThreads)
	case s.MaxFullLoadSubTasks < 1 || s.MaxFullLoadSubTasks > 49:
		return fmt.Errorf("check settings: MaxFullLoadSubTasks is %d, want 1 to 49", s.MaxFullLoadSubTasks)
	case s.LimitedLOBMode && s.LOBMaxSizeKB < 1:
		return fmt.Errorf("check settings: LOBMaxSizeKB is %d, want at least 1", s.LOBMaxSizeKB)
	case len(s.RestartLoadOf) > 0 && s.RestartAfterRows < 1:
		return fmt.Errorf("check settings: RestartAfterRows is %d, want at least 1", s.RestartAfterRows)
	}
	for table, m := range s.ObjectMappings {
		switch m.PartitionKeyType {
		case PrimaryKeyPartition, SchemaTablePartition, TransactionPartition:
		case ConstantPartition, AttributeName:
			if m.PartitionKeyName == "" {
				return fmt.Errorf("check settings: object mapping of %s: %s needs a name", table, m.PartitionKeyType)
			}
		case DefaultPartitionKey, taskPartition:
			return fmt.Errorf("check settings: object mapping of %s: no partition key type of this name: %q", table, m.PartitionKeyType)
		default:
			return fmt.Errorf("check settings: object mapping of %s: no partition key type of this name: %q", table, m.PartitionKeyType)
		}
	}
	return nil
}

// Recommended returns the settings that the pipeline asks of an endpoint:
// everything that orders and identifies changes, and no loss that a setting
// can avoid. Options.MapEveryTable belongs to them.
func Recommended() Settings {
	s := Defaults()
	s.MessageFormat = JSONUnformatted
	s.IncludeTransactionDetails, s.IncludePartitionValue, s.PartitionIncludeSchemaTable = true, true, true
	s.IncludeTableAlterOperations, s.IncludeControlDetails, s.IncludeNullAndEmpty = true, true, true
	s.UseLargeIntegerValue, s.MapBooleanAsBoolean, s.MapUnboundedNumericAsString = true, true, true
	s.EnableBeforeImage = true
	return s
}
