package stack

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"icehose/catalog"
	"icehose/catalog/artifact"
)

// The kinds of templates that are split by tables.
const (
	lakeKind        = "lake-tables"
	maintenanceKind = "table-maintenance"
	alarmsKind      = "table-alarms-" // and the role
)

func sortedValues(m map[string]string) []string {
	values := make([]string, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		values = append(values, m[k])
	}
	return values
}

// lake makes bucket and databases and, if the stacks own them, the tables.
func (g *generator) lake() error {
	var databases strings.Builder
	if g.options.Tables == Stack {
		for _, name := range g.databases {
			fmt.Fprintf(&databases, `  %s:
    Type: AWS::Glue::Database
    DeletionPolicy: RetainExceptOnCreate
    UpdateReplacePolicy: Retain
    Properties:
      CatalogId: !Ref AWS::AccountId
      DatabaseInput:
        Name: %s
        Description: !Sub "Tables that ${Name} replicates"
        LocationUri: !Sub "s3://${Bucket}/warehouse/%s"
`, "Database"+camel(name)+digest(name), quote(name), name)
		}
	}
	if err := g.fill("tables.yaml", "tables.yaml", map[string]string{"database": "", "conditions": "", "databases": databases.String()}); err != nil {
		return err
	}
	parts, err := g.lakeParts()
	if err != nil {
		return err
	}
	for _, p := range parts {
		head, _, err := artifact.SplitStack(g.deliveries[0].artifacts[artifact.StackFile])
		if err != nil {
			return err
		}
		g.add(partFile(lakeKind, p.number), []byte(head+p.text()))
	}
	return nil
}

// lakeParts are the stacks that create tables; none if apply does.
func (g *generator) lakeParts() ([]*part, error) {
	if g.options.Tables != Stack {
		return nil, nil
	}
	var entries []entry
	for _, d := range g.deliveries {
		_, texts, err := artifact.SplitStack(d.artifacts[artifact.StackFile])
		if err != nil {
			return nil, err
		}
		for _, t := range d.tables {
			id := artifact.LogicalID(t)
			entries = append(entries, entry{table: id, text: texts[id], resources: 1})
		}
	}
	return g.split(lakeKind, entries), nil
}

// maintenance makes the roles, and what Glue does for every table.
func (g *generator) maintenance() error {
	regions := map[string]string{"database": "", "glue-resources": glueResources(18, g.databases), "optimize-role": "", "optimize-output": ""}
	if err := g.fill("maintenance.yaml", "maintenance.yaml", regions); err != nil {
		return err
	}
	for _, p := range g.maintenanceParts() {
		regions := map[string]string{"table": "", "optimize-parameters": "", "resources": p.text()}
		if err := g.fill("table-maintenance.yaml", partFile(maintenanceKind, p.number), regions); err != nil {
			return err
		}
	}
	return nil
}

// optimizers is how many Glue has for a table.
const optimizers = 3

func (g *generator) maintenanceParts() []*part {
	var entries []entry
	for _, d := range g.deliveries {
		for _, t := range d.tables {
			entries = append(entries, entry{table: artifact.LogicalID(t), text: optimizersOf(t), resources: optimizers})
		}
	}
	return g.split(maintenanceKind, entries)
}

// merge makes the stack of the scheduled merge, if anything is merged.
func (g *generator) merge() error {
	databases := g.merged()
	if len(databases) == 0 {
		return nil
	}
	return g.fill(mergeFile, mergeFile, map[string]string{"database": "", "glue-resources": glueResources(18, databases)})
}

// merged returns the databases of the changelogs that are merged. A mirror has the
// current rows itself: its history is for repair.
func (g *generator) merged() []string {
	var databases []string
	for _, d := range g.deliveries {
		if d.role != roleChangelog {
			continue
		}
		for _, t := range d.tables {
			databases = append(databases, t.Database())
		}
	}
	slices.Sort(databases)
	return slices.Compact(databases)
}

func optimizersOf(t *catalog.Table) string {
	id := artifact.LogicalID(t)
	var b strings.Builder
	for _, o := range []struct{ id, kind, more string }{
		{"Compact", "compaction", ""},
		{"Expire", "retention", `        RetentionConfiguration:
          IcebergConfiguration: {SnapshotRetentionPeriodInDays: !Ref SnapshotDays, NumberOfSnapshotsToRetain: 1, CleanExpiredFiles: true}
`},
		{"Sweep", "orphan_file_deletion", `        OrphanFileDeletionConfiguration:
          IcebergConfiguration: {OrphanFileRetentionPeriodInDays: !Ref OrphanDays}
`},
	} {
		fmt.Fprintf(&b, `  %s:
    Type: AWS::Glue::TableOptimizer
    Properties:
      CatalogId: !Ref AWS::AccountId
      DatabaseName: %s
      TableName: %s
      Type: %s
      TableOptimizerConfiguration:
        RoleArn: !Ref OptimizerRoleArn
        Enabled: true
%s`, o.id+id, quote(t.Database()), quote(t.Name()), o.kind, o.more)
	}
	return b.String()
}

// alarms makes those of every table of every delivery stream.
func (g *generator) alarms() error {
	for _, d := range g.deliveries {
		for _, p := range g.alarmParts(d) {
			if err := g.fill("table-alarms.yaml", partFile(alarmsKind+d.role, p.number), map[string]string{"table": "", "resources": p.text()}); err != nil {
				return err
			}
		}
		for _, t := range d.tables {
			if !ascii(t.Source) {
				g.note("%s.%s: CloudWatch takes ASCII only, so the table has no alarms of its own", t.Database(), t.Name())
			}
		}
	}
	return nil
}

func (g *generator) alarmParts(d *delivery) []*part {
	var entries []entry
	for _, t := range d.tables {
		if ascii(t.Source) {
			entries = append(entries, entry{table: artifact.LogicalID(t), text: alarmsOf(t), resources: 2})
		}
	}
	return g.split(alarmsKind+d.role, entries)
}

func alarmsOf(t *catalog.Table) string {
	var b strings.Builder
	for _, a := range []struct{ id, metric, what string }{
		{"Failed", "failed_by_table", "Records of " + t.Source + " fail: icehose status, then icehose redrive"},
		{"Drift", "schema_drift", t.Source + " has changed in the source: icehose catalog discover, diff, apply"},
	} {
		fmt.Fprintf(&b, `  %s:
    Type: AWS::CloudWatch::Alarm
    Properties:
      AlarmDescription: %s
      Namespace: !Sub "icehose/${Name}"
      MetricName: %s
      Dimensions: [{Name: stream, Value: !Ref DeliveryArn}, {Name: table, Value: %s}]
      Statistic: Sum
      Period: 300
      EvaluationPeriods: 1
      Threshold: 0
      ComparisonOperator: GreaterThanThreshold
      TreatMissingData: notBreaching
      AlarmActions: [!Ref TopicArn]
`, a.id+artifact.LogicalID(t), quote(a.what), a.metric, quote(t.Source))
	}
	return b.String()
}

// camel is a name as a part of a logical id.
func camel(name string) string {
	var b strings.Builder
	for word := range strings.FieldsFuncSeq(name, func(r rune) bool { return r == '_' }) {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

// digest keeps names apart that camel or a cut makes alike.
func digest(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:4])
}
