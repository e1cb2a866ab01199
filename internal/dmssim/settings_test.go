package dmssim_test

import (
	"strings"
	"testing"

	"icehose/internal/dmssim"
)

func TestValidate(t *testing.T) {
	tests := []struct {
		name  string
		apply func(*dmssim.Settings)
		want  string
	}{
		{"defaults", func(*dmssim.Settings) {}, ""},
		{"recommended", func(s *dmssim.Settings) { *s = dmssim.Recommended() }, ""},
		{"unknown format", func(s *dmssim.Settings) { s.MessageFormat = "xml" }, `MessageFormat is "xml"`},
		{"unknown filter", func(s *dmssim.Settings) { s.BeforeImageColumnFilter = "some" }, "BeforeImageColumnFilter"},
		{"unknown mode", func(s *dmssim.Settings) { s.TargetTablePrepMode = "DROP" }, "TargetTablePrepMode"},
		{"unknown form of unchanged values", func(s *dmssim.Settings) { s.UnchangedTOAST = "" }, "UnchangedTOAST"},
		{"unknown reading", func(s *dmssim.Settings) { s.LSNReading = "first" }, "LSNReading"},
		{"both before-images", func(s *dmssim.Settings) { s.EnableBeforeImage, s.BeforeImageColumnPrefix = true, "BI_" }, "exclude each other"},
		{"before-image without a name", func(s *dmssim.Settings) { s.EnableBeforeImage, s.BeforeImageFieldName = true, "" }, "BeforeImageFieldName"},
		{"too many threads", func(s *dmssim.Settings) { s.ParallelApplyThreads = 33 }, "ParallelApplyThreads"},
		{"no table may load", func(s *dmssim.Settings) { s.MaxFullLoadSubTasks = 0 }, "MaxFullLoadSubTasks"},
		{"no room for large objects", func(s *dmssim.Settings) { s.LOBMaxSizeKB = 0 }, "LOBMaxSizeKB"},
		{"restart before the first row", func(s *dmssim.Settings) { s.RestartLoadOf, s.RestartAfterRows = []string{"public.t"}, 0 }, "RestartAfterRows"},
		{"mapping of no type", func(s *dmssim.Settings) {
			s.ObjectMappings = map[string]dmssim.ObjectMapping{"public.t": {PartitionKeyType: "table"}}
		}, "public.t"},
		{"constant without a name", func(s *dmssim.Settings) {
			s.ObjectMappings = map[string]dmssim.ObjectMapping{"public.t": {PartitionKeyType: dmssim.ConstantPartition}}
		}, "needs a name"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := dmssim.Defaults()
			tt.apply(&s)
			err := s.Validate()
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
