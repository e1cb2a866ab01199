// Package dmslint reads the settings of a DMS task, its endpoints and its
// stream, and says which of them break order, keys, types or size of what
// arrives in the lake.
//
// In come JSON files as the AWS CLI's describe calls print them, or the plain
// settings documents; what each file is shows in its content. Out come findings
// with an id that stays, the place, what follows from the setting, and the fix.
// With the pipeline file, settings are also held against what it promises.
//
// A setting that is not written counts as its default. Whether the source
// itself is prepared is not seen here.
package dmslint

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"icehose/catalog"
)

// A File is one document.
type File struct {
	Name string // as shown in findings
	Text []byte
}

// Options are the settings of Lint.
type Options struct {
	// Pipeline is the pipeline file; nil if there is none.
	Pipeline *catalog.Pipeline
	// Horizon is how long our own sink remembers deleted keys; 0 when it is
	// not used.
	Horizon time.Duration
}

// A Severity says what a finding means.
type Severity string

// The severities.
const (
	Wrong Severity = "wrong" // rows get lost, damaged or out of order
	Risk  Severity = "risk"  // they may, or something will not be noticed
	Slow  Severity = "slow"  // they arrive, but late or at a price
)

// A Finding is a setting that does harm.
type Finding struct {
	ID          string   `json:"id"`
	Severity    Severity `json:"severity"`
	File        string   `json:"file"`
	Line        int      `json:"line"`
	Setting     string   `json:"setting"`         // path in the document
	Value       string   `json:"value,omitempty"` // as written; empty when it is not
	Consequence string   `json:"consequence"`
	Fix         string   `json:"fix"`
}

// A linter collects documents, then findings.
type linter struct {
	options  Options
	mappings []document
	tasks    []document // task settings
	targets  []document // Kinesis settings
	sources  []document // source endpoints
	streams  []document // Kinesis streams
	findings []Finding
}

type document struct {
	file string
	root *node
}

// Lint returns the findings, by file and line. An error says that a file is not
// what the package knows.
func Lint(files []File, o Options) ([]Finding, error) {
	l := &linter{options: o}
	for _, f := range files {
		root, err := parse(f.Text)
		if err == nil {
			err = l.sort(f.Name, root)
		}
		if err != nil {
			return nil, fmt.Errorf("read settings %s: %w", f.Name, err)
		}
	}
	for _, d := range l.mappings {
		l.lintMapping(d)
	}
	for _, d := range l.tasks {
		l.lintTask(d)
	}
	for _, d := range l.targets {
		l.lintTarget(d)
	}
	for _, d := range l.sources {
		l.lintSource(d)
	}
	for _, d := range l.streams {
		l.lintStream(d)
	}
	slices.SortStableFunc(l.findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Setting, b.Setting), cmp.Compare(a.ID, b.ID))
	})
	return l.findings, nil
}

// sort puts a document where it belongs, by what is in it. A part that is not an
// object or a list where DMS has one is refused: nothing in it would be seen.
func (l *linter) sort(file string, root *node) error {
	s := &sorter{linter: l, file: file}
	s.described(root)
	s.endpoints(root)
	if root.field("rules") != nil {
		s.mapping(root)
	}
	if root.field("TargetMetadata") != nil || root.field("FullLoadSettings") != nil || root.field("BeforeImageSettings") != nil {
		s.task(root)
	}
	if root.field("MessageFormat") != nil || root.field("IncludeTransactionDetails") != nil {
		s.put(&l.targets, root)
	}
	s.put(&l.streams, root.field("StreamDescriptionSummary").or(root.field("StreamDescription")))
	if err := errors.Join(s.errs...); err != nil {
		return err
	}
	if !s.known {
		return errors.New("not a table mapping, task or endpoint setting, or a describe of a task, endpoint or stream")
	}
	return nil
}

// A sorter sorts one document.
type sorter struct {
	*linter
	file  string
	known bool // something of it was put somewhere
	errs  []error
}

func (s *sorter) check(err error) { s.errs = append(s.errs, err) }

// put adds an object whose parts, if they are there, are objects too.
func (s *sorter) put(list *[]document, n *node, parts ...string) {
	if n.isNull() {
		return
	}
	s.check(n.wantObject())
	for _, part := range parts {
		s.check(n.field(part).wantObject())
	}
	*list = append(*list, document{s.file, n})
	s.known = true
}

func (s *sorter) mapping(n *node) {
	s.put(&s.mappings, n)
	rules, err := n.field("rules").objects()
	s.check(err)
	for _, r := range rules {
		s.check(r.field("object-locator").wantObject())
		s.check(r.field("mapping-parameters").wantObject())
	}
}

func (s *sorter) task(n *node) {
	s.put(&s.tasks, n, "TargetMetadata", "FullLoadSettings", "BeforeImageSettings", "ErrorBehavior", "ControlTablesSettings")
}

// described sorts what a describe of tasks printed.
func (s *sorter) described(root *node) {
	for _, name := range [...]string{"ReplicationTasks", "ReplicationConfigs"} { // the latter are serverless
		tasks, err := root.field(name).objects()
		s.check(err)
		for _, t := range tasks {
			for _, part := range []struct {
				text *node
				put  func(*node)
			}{{t.field("TableMappings"), s.mapping}, {t.field("ReplicationTaskSettings").or(t.field("ReplicationSettings")), s.task}} {
				if part.text.isNull() {
					continue
				}
				inner, err := part.text.embedded()
				if s.check(err); err == nil {
					part.put(inner)
				}
			}
		}
	}
}

// endpoints sorts what a describe of endpoints printed, or one of them.
func (s *sorter) endpoints(root *node) {
	endpoints := []*node{root}
	if list := root.field("Endpoints"); list != nil {
		var err error
		endpoints, err = list.objects()
		s.check(err)
	} else if one := root.field("Endpoint"); one != nil {
		endpoints = []*node{one}
	}
	for _, e := range endpoints {
		if settings := e.field("KinesisSettings"); !settings.isNull() {
			s.put(&s.targets, settings)
		} else if e.field("EngineName") != nil {
			s.put(&s.sources, e)
		}
	}
}

// find adds a finding about a node, or about all of the document where it does not
// have that one; value is shown when it is written there.
func (l *linter) find(d document, n *node, severity Severity, id, consequence, fix string) {
	n = n.or(d.root)
	f := Finding{ID: id, Severity: severity, File: d.file, Line: n.line, Setting: n.path, Consequence: consequence, Fix: fix}
	if n.fields == nil && !n.list {
		f.Value = n.text()
	}
	l.findings = append(l.findings, f)
}

// setting finds a member by name. One that is not written stands where its
// object does.
func setting(in *node, name string) *node {
	if f := in.field(name); f != nil {
		return f
	}
	path := name
	if in.path != "" {
		path = in.path + "." + name
	}
	return &node{path: path, line: in.line}
}
