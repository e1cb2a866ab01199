// Package emf is the frame of CloudWatch's Embedded Metric Format: the part of
// a line of JSON that says which of its other members are metrics, and which
// are dimensions. The log of a Lambda, or an agent, turns such lines into
// metrics.
//
// The document is "Specification: Embedded metric format" of the CloudWatch
// user guide. CloudWatch refuses an empty dimension.
package emf

import "time"

// A Header is the member _aws of a line.
type Header struct {
	Timestamp int64  `json:"Timestamp"` // Unix milliseconds
	Metrics   []Rule `json:"CloudWatchMetrics"`
}

// A Rule names the metrics of a line and the sets of dimensions that each of
// them is kept by.
type Rule struct {
	Namespace  string     `json:"Namespace"`
	Dimensions [][]string `json:"Dimensions"`
	Metrics    []Metric   `json:"Metrics"`
}

// A Metric is a member whose value is a number, and its unit.
type Metric struct {
	Name string `json:"Name"`
	Unit string `json:"Unit"`
}

// NewHeader returns the header of a line with one rule.
func NewHeader(at time.Time, rule Rule) Header {
	return Header{Timestamp: at.UnixMilli(), Metrics: []Rule{rule}}
}
