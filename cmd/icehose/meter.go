package main

import (
	"icehose/cdc"
)

// disorder is how badly a table's changes were delivered.
type disorder struct {
	Inversions int64 `json:"inversions"` // first deliveries after a newer change of the same key
	Duplicates int64 `json:"duplicates"` // deliveries of a change that was delivered before
	Late       int64 `json:"late"`       // those of them after a newer change of the same key
}

// A meter measures the order in which changes are really delivered.
type meter struct {
	delivered map[*change]bool
	newest    map[string]map[string]cdc.Position // table -> key -> position
	tables    map[string]*disorder
}

func newMeter() *meter {
	return &meter{
		delivered: make(map[*change]bool),
		newest:    make(map[string]map[string]cdc.Position),
		tables:    make(map[string]*disorder),
	}
}

// see counts one delivery.
func (m *meter) see(c *change) {
	d := m.table(c.table.Source)
	keys := m.newest[c.table.Source]
	if keys == nil {
		keys = make(map[string]cdc.Position)
		m.newest[c.table.Source] = keys
	}
	newest := keys[c.key]
	older := c.position < newest
	switch {
	case m.delivered[c] && older:
		d.Duplicates++
		d.Late++
	case m.delivered[c]:
		d.Duplicates++
	case older:
		d.Inversions++
	}
	m.delivered[c] = true
	if !older {
		keys[c.key] = c.position
	}
}

func (m *meter) table(source string) *disorder {
	d := m.tables[source]
	if d == nil {
		d = &disorder{}
		m.tables[source] = d
	}
	return d
}

// total adds up all tables.
func (m *meter) total() (sum disorder) {
	for _, d := range m.tables {
		sum.Inversions += d.Inversions
		sum.Duplicates += d.Duplicates
		sum.Late += d.Late
	}
	return sum
}
