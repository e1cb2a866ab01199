package stack_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"icehose/catalog/dmslint"
	"icehose/catalog/stack"
	"icehose/cloudformation"
)

func TestParameters(t *testing.T) {
	template, err := cloudformation.Templates.ReadFile("main.yaml")
	if err != nil {
		t.Fatal(err)
	}
	good := "Name: shop\nArtifactBucket: shop-artifacts\nTransformKey: a.zip\nPipelineKey: p.yaml\nShardCount: 2\n"
	parse := func(text string) stack.Overlay {
		o, err := stack.ParseOverlay("dev.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	values, err := stack.Parameters(template, []stack.Overlay{parse(good), parse("ShardCount: 4\nSubnetIds: [subnet-0123456789, subnet-9876543210]\nMultiAZ: true\n")})
	if err != nil {
		t.Fatal(err)
	}
	want := []stack.Value{
		{"Name", "shop"},
		{"ArtifactBucket", "shop-artifacts"},
		{"TransformKey", "a.zip"},
		{"PipelineKey", "p.yaml"},
		{"ShardCount", "4"},
		{"MultiAZ", "true"},
		{"SubnetIds", "subnet-0123456789,subnet-9876543210"},
	}
	if diff := cmp.Diff(want, values); diff != "" {
		t.Errorf("values differ (-want +got):\n%s", diff)
	}
	for text, want := range map[string]string{
		"Label: x":                         "dev.yaml: Label: no such parameter",
		"Name: Shop":                       `dev.yaml: Name: want up to 20 lower-case letters, digits and single hyphens, a letter first, got "Shop"`,
		"Name: " + strings.Repeat("a", 21): "dev.yaml: Name: want 20 characters at most, got 21",
		"ShardCount: 501":                  `dev.yaml: ShardCount: want a number from 0 to 500, got "501"`,
		"ShardCount: many":                 `dev.yaml: ShardCount: want a whole number, got "many"`,
		"ShardCount: \"1.5\"":              `dev.yaml: ShardCount: want a whole number, got "1.5"`,
		"VpcCidr: 10.0.256.0/16":           `dev.yaml: VpcCidr: want a range such as 10.0.0.0/16, from /8 to /28, got "10.0.256.0/16"`,
		"ReconcileSchedule: rate(0 hours)": `dev.yaml: ReconcileSchedule: want rate(6 hours), or cron(0 3 * * ? *), got "rate(0 hours)"`,
		"Engine: oracle":                   "dev.yaml: Engine: want one of postgres, aurora-postgresql, mysql, aurora, mariadb, got \"oracle\"",
		"EngineVersion: 3.5.3":             "dev.yaml: EngineVersion: want ",
		"CdcStartPosition: now":            "dev.yaml: CdcStartPosition: want ",
		"SubnetIds: subnet-0123":           "dev.yaml: SubnetIds: want ",
	} {
		if _, err := stack.Parameters(template, []stack.Overlay{parse(good), parse(text)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q in it", text, err, want)
		}
	}
	if _, err := stack.Parameters(template, nil); err == nil || !strings.Contains(err.Error(), "TransformKey: not given") {
		t.Errorf("nothing given: error %v", err)
	}
	if _, err := stack.ParseOverlay("dev.yaml", []byte("Name: {a: b}")); err == nil {
		t.Error("a mapping as a value: no error")
	}
}

// The settings of the templates, and those that are filled in, pass our own lint.
func TestLint(t *testing.T) {
	p := parse(t, tables(upTo(3)))
	generated := byPath(generate(t, p, stack.Options{}).Files)["migration.yaml"]
	alone, err := cloudformation.Templates.ReadFile("migration.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, template := range map[string][]byte{"generated": generated, "alone": alone} {
		for _, property := range []string{"TableMappings", "ReplicationTaskSettings"} {
			document := block(t, string(template), property)
			document = strings.NewReplacer("${SourceSchema}", "public", "${SourceTable}", "t001").Replace(document)
			findings, err := dmslint.Lint([]dmslint.File{{Name: property, Text: []byte(document)}}, dmslint.Options{})
			if err != nil {
				t.Fatalf("%s %s: %v", name, property, err)
			}
			for _, f := range findings {
				t.Errorf("%s %s: %s: %s %s", name, property, f.ID, f.Setting, f.Consequence)
			}
		}
	}
}

// block returns the literal block of a property.
func block(t *testing.T, template, property string) string {
	t.Helper()
	_, rest, ok := strings.Cut(template, "      "+property+":")
	if !ok {
		t.Fatalf("no %s", property)
	}
	_, rest, _ = strings.Cut(rest, "\n")
	var b strings.Builder
	for line := range strings.Lines(rest) {
		if !strings.HasPrefix(line, "        ") {
			break
		}
		b.WriteString(strings.TrimPrefix(line, "        "))
	}
	return b.String()
}
