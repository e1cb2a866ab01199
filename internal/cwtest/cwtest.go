// Package cwtest is CloudWatch for tests: which metrics the stacks' alarms and
// dashboards read, and which metrics come of log lines, by the Embedded Metric
// Format or by the stacks' metric filters.
//
// In come the templates of package cloudformation and lines of logs; out come
// metrics by namespace, name and dimensions. Filter patterns are those of
// "Filter pattern syntax" of the CloudWatch Logs user guide, as far as the
// templates use them; anything else is an error, never a filter without matches.
package cwtest

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
)

// A Metric is a metric as CloudWatch tells them apart. A value of a dimension
// that a template takes from a parameter is empty.
type Metric struct {
	Namespace, Name string
	Dimensions      map[string]string
}

// String writes the metric, dimensions sorted.
func (m Metric) String() string {
	var b strings.Builder
	b.WriteString(m.Namespace + " " + m.Name)
	for _, name := range slices.Sorted(maps.Keys(m.Dimensions)) {
		b.WriteString(" " + name + "=" + m.Dimensions[name])
	}
	return b.String()
}

// Covers reports whether the metric is one that a reader asks for: the same
// namespace, name and names of dimensions, and the values that the reader has.
func (m Metric) Covers(reader Metric) bool {
	if m.Namespace != reader.Namespace || m.Name != reader.Name || len(m.Dimensions) != len(reader.Dimensions) {
		return false
	}
	for name, want := range reader.Dimensions {
		if got, ok := m.Dimensions[name]; !ok || want != "" && got != "" && got != want {
			return false
		}
	}
	return true
}

// A Reader is a resource that reads a metric.
type Reader struct {
	Template, Resource string
	Metric
}

// A Filter is a metric filter of a template.
type Filter struct {
	Template, Resource string
	Log                string // the parameter that names the log group
	Pattern            string
	Namespace, Name    string
	Value              string            // a number, or $.field
	Dimensions         map[string]string // $.field by name
}

// Pipeline is what the name of the pipeline becomes in namespaces and names.
const Pipeline = "shop"

// substitute gives a text of a template the values of its parameters.
func substitute(text string) string {
	return strings.NewReplacer("${Name}", Pipeline, "${AWS::Region}", "eu-central-1", "${AWS::Partition}", "aws", "${AWS::AccountId}", "1", "${StreamName}", Pipeline+"-changes").Replace(text)
}

// Parse reads the alarms, dashboards and metric filters of all templates.
func Parse(templates fs.FS) (readers []Reader, filters []Filter, err error) {
	paths, err := fs.Glob(templates, "*.yaml")
	if err != nil {
		return nil, nil, fmt.Errorf("list templates: %w", err)
	}
	for _, path := range paths {
		text, err := fs.ReadFile(templates, path)
		if err != nil {
			return nil, nil, fmt.Errorf("read template: %w", err)
		}
		r, f, err := parseTemplate(text)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", path, err)
		}
		for i := range r {
			r[i].Template = path
		}
		for i := range f {
			f[i].Template = path
		}
		readers, filters = append(readers, r...), append(filters, f...)
	}
	return readers, filters, nil
}

// What a parameter gives is not known here: its text is empty.
var (
	referred = regexp.MustCompile(`(Value: )!Ref \S+?([,}\s])`)
	selected = regexp.MustCompile(`Value: !Select .*?\]\]?\}`)
)

func parseTemplate(text []byte) (readers []Reader, filters []Filter, err error) {
	text = referred.ReplaceAll(text, []byte(`$1""$2`))
	text = selected.ReplaceAll(text, []byte(`Value: ""}`))
	var template struct {
		Resources map[string]struct {
			Type       string         `yaml:"Type"`
			Properties map[string]any `yaml:"Properties"`
		} `yaml:"Resources"`
	}
	if err := yaml.Unmarshal(text, &template); err != nil {
		return nil, nil, fmt.Errorf("parse template: %w", err)
	}
	for _, id := range slices.Sorted(maps.Keys(template.Resources)) {
		resource := template.Resources[id]
		encoded, err := json.Marshal(resource.Properties)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", id, err)
		}
		var metrics []Metric
		switch resource.Type {
		case "AWS::CloudWatch::Alarm":
			metrics, err = alarm(encoded)
		case "AWS::CloudWatch::Dashboard":
			metrics, err = dashboard(encoded)
		case "AWS::Logs::MetricFilter":
			var f []Filter
			f, err = metricFilter(encoded)
			for i := range f {
				f[i].Resource = id
			}
			filters = append(filters, f...)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", id, err)
		}
		for _, m := range metrics {
			readers = append(readers, Reader{Resource: id, Metric: m})
		}
	}
	return readers, filters, nil
}

type dimension struct{ Name, Key, Value string }

type alarmed struct {
	Namespace, MetricName string
	Dimensions            []dimension
}

func (a *alarmed) metric() Metric {
	m := Metric{Namespace: substitute(a.Namespace), Name: a.MetricName, Dimensions: map[string]string{}}
	for _, d := range a.Dimensions {
		m.Dimensions[d.Name] = d.Value
	}
	return m
}

func alarm(properties []byte) ([]Metric, error) {
	var p struct {
		alarmed
		Metrics []struct {
			MetricStat *struct{ Metric alarmed }
		}
	}
	if err := json.Unmarshal(properties, &p); err != nil {
		return nil, fmt.Errorf("read alarm: %w", err)
	}
	if p.MetricName != "" {
		return []Metric{p.metric()}, nil
	}
	var metrics []Metric
	for _, m := range p.Metrics {
		if m.MetricStat != nil {
			metrics = append(metrics, m.MetricStat.Metric.metric())
		}
	}
	if len(metrics) == 0 {
		return nil, fmt.Errorf("read alarm: no metric")
	}
	return metrics, nil
}

// search is the one form of search that the dashboard has: every metric of a
// name with these dimensions.
var search = regexp.MustCompile(`^SEARCH\('\{"([^"]+)",([a-z,]+)\} MetricName="([^"]+)"','[A-Z][a-z]+',\d+\)$`)

func dashboard(properties []byte) ([]Metric, error) {
	var p struct{ DashboardBody []any }
	if err := json.Unmarshal(properties, &p); err != nil {
		return nil, fmt.Errorf("read dashboard: %w", err)
	}
	text, ok := p.DashboardBody[0].(string)
	if !ok {
		return nil, fmt.Errorf("read dashboard: the body is no text")
	}
	var body struct {
		Widgets []struct {
			Type       string
			Properties struct{ Metrics [][]any }
		}
	}
	if err := json.Unmarshal([]byte(substitute(text)), &body); err != nil {
		return nil, fmt.Errorf("read dashboard: %w", err)
	}
	var metrics []Metric
	for _, w := range body.Widgets {
		for _, row := range w.Properties.Metrics {
			m, err := dashboardMetric(row)
			if err != nil {
				return nil, fmt.Errorf("read dashboard: %w", err)
			}
			metrics = append(metrics, m)
		}
	}
	return metrics, nil
}

func dashboardMetric(row []any) (Metric, error) {
	m := Metric{Dimensions: map[string]string{}}
	var texts []string
	for _, cell := range row {
		switch cell := cell.(type) {
		case string:
			texts = append(texts, cell)
		case map[string]any:
			expression, ok := cell["expression"].(string)
			if !ok {
				continue // how the line looks
			}
			found := search.FindStringSubmatch(expression)
			if found == nil {
				return m, fmt.Errorf("expression %s: not known", expression)
			}
			m.Namespace, m.Name = found[1], found[3]
			for name := range strings.SplitSeq(found[2], ",") {
				m.Dimensions[name] = ""
			}
			return m, nil
		}
	}
	if len(texts) < 2 || len(texts)%2 != 0 {
		return m, fmt.Errorf("metric %q: want namespace, name, and pairs of dimensions", texts)
	}
	m.Namespace, m.Name = texts[0], texts[1]
	for pair := range slices.Chunk(texts[2:], 2) {
		if strings.HasPrefix(pair[1], "${") {
			pair[1] = ""
		}
		m.Dimensions[pair[0]] = pair[1]
	}
	return m, nil
}

func metricFilter(properties []byte) ([]Filter, error) {
	var p struct {
		LogGroupName, FilterPattern string
		MetricTransformations       []struct {
			MetricNamespace, MetricName, MetricValue string
			Dimensions                               []dimension
		}
	}
	if err := json.Unmarshal(properties, &p); err != nil {
		return nil, fmt.Errorf("read metric filter: %w", err)
	}
	var filters []Filter
	for _, t := range p.MetricTransformations {
		f := Filter{
			Log: p.LogGroupName, Pattern: p.FilterPattern, Namespace: substitute(t.MetricNamespace), Name: t.MetricName, Value: t.MetricValue,
			Dimensions: map[string]string{},
		}
		for _, d := range t.Dimensions {
			f.Dimensions[d.Key] = d.Value
		}
		filters = append(filters, f)
	}
	return filters, nil
}

var (
	comparison = regexp.MustCompile(`^\$\.([a-z_]+) (=|>) ("[^"]*"|\d+)$`)
	optional   = regexp.MustCompile(`^(\?[A-Za-z]+ ?)+$`)
	quoted     = regexp.MustCompile(`^"[^"]+"$`)
)

// Match reports whether a log line matches the filter's pattern.
func (f *Filter) Match(line string) (bool, error) {
	body, isJSON := strings.CutPrefix(f.Pattern, "{ ")
	if body, ok := strings.CutSuffix(body, " }"); isJSON && ok {
		return matchJSON(body, line)
	}
	switch {
	case quoted.MatchString(f.Pattern):
		return strings.Contains(line, strings.Trim(f.Pattern, `"`)), nil
	case optional.MatchString(f.Pattern):
		return slices.ContainsFunc(strings.Fields(f.Pattern), func(term string) bool { return strings.Contains(line, term[1:]) }), nil
	}
	return false, fmt.Errorf("filter pattern %s: not known", f.Pattern)
}

// matchJSON evaluates comparisons with || between them.
func matchJSON(pattern, line string) (bool, error) {
	fields, isJSON := fieldsOf(line)
	matched := false
	for term := range strings.SplitSeq(pattern, " || ") {
		parts := comparison.FindStringSubmatch(term)
		if parts == nil {
			return false, fmt.Errorf("filter pattern %s: not known", term)
		}
		value, there := fields[parts[1]]
		switch {
		case !isJSON || !there:
		case parts[2] == "=":
			matched = matched || value == strings.Trim(parts[3], `"`)
		default:
			limit, err := strconv.ParseFloat(parts[3], 64)
			if err != nil {
				return false, fmt.Errorf("filter pattern %s: %w", term, err)
			}
			number, ok := value.(float64)
			matched = matched || ok && number > limit
		}
	}
	return matched, nil
}

func fieldsOf(line string) (fields map[string]any, ok bool) {
	return fields, json.Unmarshal([]byte(line), &fields) == nil
}

// Published returns the metric that the filter makes of a line; nil if the line
// does not match. A line that matches and lacks the value or a dimension is an
// error: CloudWatch would pass it over in silence.
func (f *Filter) Published(line string) (*Metric, error) {
	matched, err := f.Match(line)
	if err != nil || !matched {
		return nil, err
	}
	fields, _ := fieldsOf(line)
	if name, ok := strings.CutPrefix(f.Value, "$."); ok {
		if _, isNumber := fields[name].(float64); !isNumber {
			return nil, fmt.Errorf("%s: the value %s is no number in %s", f.Resource, f.Value, line)
		}
	}
	m := &Metric{Namespace: f.Namespace, Name: f.Name, Dimensions: map[string]string{}}
	for name, from := range f.Dimensions {
		value, isText := fields[strings.TrimPrefix(from, "$.")].(string)
		if !isText || value == "" {
			return nil, fmt.Errorf("%s: the dimension %s has no value in %s", f.Resource, from, line)
		}
		m.Dimensions[name] = value
	}
	return m, nil
}

// Embedded returns the metrics of a line of the Embedded Metric Format; none of
// any other line.
func Embedded(line string) ([]Metric, error) {
	fields, isJSON := fieldsOf(line)
	if !isJSON || fields["_aws"] == nil {
		return nil, nil
	}
	var header struct {
		AWS struct {
			CloudWatchMetrics []struct {
				Namespace  string
				Dimensions [][]string
				Metrics    []struct{ Name string }
			}
		} `json:"_aws"`
	}
	if err := json.Unmarshal([]byte(line), &header); err != nil {
		return nil, fmt.Errorf("read embedded metrics: %w", err)
	}
	var metrics []Metric
	for _, rule := range header.AWS.CloudWatchMetrics {
		for _, set := range rule.Dimensions {
			for _, named := range rule.Metrics {
				if _, isNumber := fields[named.Name].(float64); !isNumber {
					return nil, fmt.Errorf("read embedded metrics: %s is no number in %s", named.Name, line)
				}
				m := Metric{Namespace: rule.Namespace, Name: named.Name, Dimensions: map[string]string{}}
				for _, name := range set {
					value, isText := fields[name].(string)
					if !isText || value == "" {
						return nil, fmt.Errorf("read embedded metrics: the dimension %s has no value in %s", name, line)
					}
					m.Dimensions[name] = value
				}
				metrics = append(metrics, m)
			}
		}
	}
	return metrics, nil
}
