package sinktest

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"

	"icehose/catalog"
	"icehose/sink"
)

// InMemory is the lake of a chaos run on a new Lake.
func InMemory() ChaosLake {
	lake := NewLake()
	lake.Disk = new(Disk)
	return ChaosLake{
		Open: func(context.Context) (sink.Store, func() error, error) { return lake, func() error { return nil }, nil },
		Observe: func(_ context.Context, _ sink.Store, def *catalog.Table) ([]Snapshot, error) {
			return lake.observe(def)
		},
		Meddle: func(_ context.Context, _ sink.Store, def *catalog.Table, _ *rand.Rand) (Tally, error) {
			lake.Table(def.Database(), def.Name()).Meddle()
			return nil, nil
		},
		Disk: lake.Disk, FlushRows: [2]int{3, 27},
	}
}

// observe returns the present state of a table.
func (l *Lake) observe(def *catalog.Table) ([]Snapshot, error) {
	t := l.Table(def.Database(), def.Name())
	if t == nil {
		return nil, errors.New("observe table " + def.Name() + ": there is none")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := Snapshot{Properties: maps.Clone(t.properties)}
	columns, _ := def.LakeColumns()
	var places []int
	for _, c := range columns {
		if at := t.index(c.Name); at >= 0 {
			s.Columns, places = append(s.Columns, c.Name), append(places, at)
		}
	}
	for _, row := range t.rows {
		texts := make([]string, len(places))
		for i, at := range places {
			if texts[i] = string(row[at]); row[at] == nil {
				texts[i] = "NULL"
			}
		}
		s.Rows = append(s.Rows, texts)
	}
	return []Snapshot{s}, nil
}
