package stack

import (
	"fmt"
	"strings"
)

// The template that nests the others, and that of the merge, here and among the
// templates.
const (
	parentFile = "main.yaml"
	mergeFile  = "merge.yaml"
)

// parent makes the template that nests the others.
func (g *generator) parent() error {
	template, err := g.template(parentFile)
	if err != nil {
		return err
	}
	regions := map[string]string{"conditions": ""}
	lake, err := g.parentLake(regions)
	if err != nil {
		return err
	}
	if err := g.parentDeliveries(template, lake, regions); err != nil {
		return err
	}
	g.parentMaintenance(lake, regions)
	if err := g.parentMerge(template, regions); err != nil {
		return err
	}
	return g.fill(parentFile, parentFile, regions)
}

// after is a DependsOn line.
func after(ids []string) string {
	if len(ids) == 0 {
		return ""
	}
	return "    DependsOn: [" + strings.Join(ids, ", ") + "]\n"
}

// parentLake nests the stacks of tables and returns their logical ids.
func (g *generator) parentLake(regions map[string]string) (ids []string, err error) {
	parts, err := g.lakeParts()
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	for _, p := range parts {
		id := "LakeTables" + partID(p.number)
		ids = append(ids, id)
		fmt.Fprintf(&b, `  %s:
    Type: AWS::CloudFormation::Stack
    DeletionPolicy: RetainExceptOnCreate
    UpdateReplacePolicy: Retain
    Properties:
      TemplateURL: %s
      Parameters:
        Warehouse: !GetAtt Tables.Outputs.Warehouse
`, id, partFile(lakeKind, p.number))
	}
	regions["lake-tables"] = b.String()
	return ids, nil
}

// parentDeliveries nests a stack and its alarms for each delivery stream, after
// the pattern of the mirror's.
func (g *generator) parentDeliveries(template string, lake []string, regions map[string]string) error {
	deliveries, err := region(template, "deliveries")
	if err != nil {
		return fmt.Errorf("fill template main.yaml: %w", err)
	}
	outputs, err := region(template, "outputs")
	if err != nil {
		return fmt.Errorf("fill template main.yaml: %w", err)
	}
	block, _, ok := strings.Cut(deliveries, "  DeliverChangelog:\n")
	output, _, okOutput := strings.Cut(outputs, "  Changelog")
	if !ok || !okOutput {
		return fmt.Errorf("fill template main.yaml: the mirror's stacks and outputs must come before the changelog's")
	}
	var all, out strings.Builder
	var ids []string
	for _, d := range g.deliveries {
		id := "Deliver" + d.title()
		ids = append(ids, id)
		replace := strings.NewReplacer("Mirror", d.title(), "Role: mirror", "Role: "+d.role, "delivery.yaml", "delivery-"+d.role+".yaml")
		text := replace.Replace(block)
		// The tables are there before the stream that names their keys.
		text = strings.Replace(text, "    Condition: Roles\n", "    Condition: Roles\n"+after(lake), 1)
		if d.role == roleHistory {
			text = strings.Replace(text, "        Role: history\n", "        Role: history\n        HistorySuffix: "+quote(g.options.HistorySuffix)+"\n", 1)
		}
		all.WriteString(text)
		out.WriteString(replace.Replace(output))
		for _, p := range g.alarmParts(d) {
			fmt.Fprintf(&all, `  Watch%sTables%s:
    Type: AWS::CloudFormation::Stack
    Condition: All
    Properties:
      TemplateURL: %s
      Parameters:
        Name: !Ref Name
        TopicArn: !GetAtt Observe.Outputs.TopicArn
        DeliveryArn: !GetAtt %s.Outputs.DeliveryArn
`, d.title(), partID(p.number), partFile(alarmsKind+d.role, p.number), id)
		}
	}
	regions["deliveries"], regions["outputs"], regions["migration-after"] = all.String(), out.String(), after(ids)
	return nil
}

// parentMaintenance nests the parts of table-maintenance.yaml.
func (g *generator) parentMaintenance(lake []string, regions map[string]string) {
	parts := g.maintenanceParts()
	var b strings.Builder
	for _, p := range parts {
		fmt.Fprintf(&b, `  MaintainTables%s:
    Type: AWS::CloudFormation::Stack
    Condition: WithTableMaintenance
%s    Properties:
      TemplateURL: %s
      Parameters:
        OptimizerRoleArn: !GetAtt Maintain.Outputs.OptimizerRoleArn
`, partID(p.number), after(lake), partFile(maintenanceKind, p.number))
	}
	if len(parts) > 0 {
		regions["conditions"] = "  WithTableMaintenance: !And [!Condition All, !Equals [!Ref Maintenance, \"yes\"]]\n"
	}
	regions["table-maintenance"] = b.String()
}

// parentMerge keeps what the template has of merges, if anything is merged.
func (g *generator) parentMerge(template string, regions map[string]string) error {
	for _, name := range []string{"merge-parameters", "merge-condition", "merge", "merge-outputs"} {
		regions[name] = ""
		if len(g.merged()) == 0 {
			continue
		}
		text, err := region(template, name)
		if err != nil {
			return fmt.Errorf("fill template %s: %w", parentFile, err)
		}
		regions[name] = text
	}
	return nil
}
