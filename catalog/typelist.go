package catalog

import (
	"maps"
	"slices"
)

// Types lists a column of every type that the words have, and of the
// parameters that change what a type is mapped to, by name. It is the
// content of docs/types.md and the cases of tests that go over all types.
func Types(words Engine) []*SourceColumn {
	var columns []*SourceColumn
	add := func(class TypeClass, declared ...string) {
		for _, d := range declared {
			c, err := declaredColumn(d, class)
			if err != nil {
				continue // the lists below are constant: a test has every one of them
			}
			columns = append(columns, c)
		}
	}
	switch words {
	case PostgreSQL:
		add("", slices.Sorted(maps.Keys(postgresTypes))...)
		add("", postgresTexts[:]...)
		add("", "numeric", "numeric(12,2)", "numeric(38,0)", "numeric(39,2)", "numeric(3,5)", "numeric(5,-2)", "numeric(40,2)", "character(2)",
			"character varying(10)", "bit(3)", "time(3) without time zone", "timestamp(0) with time zone", "interval day to second(3)", "text[]")
		add("", `"char"`)
		add(ClassOther, slices.Sorted(maps.Keys(postgresExtensions))...)
		add(ClassEnum, "an enum")
		add(ClassComposite, "a composite type")
		add(ClassRange, "a range type")
	case MySQL, MariaDB:
		add("", slices.Sorted(maps.Keys(mysqlTypes))...)
		add("", mysqlShapes[:]...)
		add("", "tinyint(1)", "tinyint unsigned", "int unsigned", "bigint unsigned", "decimal", "decimal(12,2)", "decimal(38,10)", "decimal(65,30)", "bit", "bit(1)", "bit(8)",
			"bit(64)", "enum('a','b')", "set('a','b')", "datetime(6)", "vector(3)")
		if words == MariaDB {
			add("", "uuid", "inet4", "inet6", "xmltype")
		}
		for _, name := range [...]string{"date", "datetime", "timestamp"} {
			c, err := declaredColumn(name, "")
			if err == nil {
				c.ZeroDates = true
				columns = append(columns, c)
			}
		}
	case DMS:
		add("", slices.Sorted(maps.Keys(dmsTypes))...)
		add("", "string", "string(5)", "string(64)", "numeric(12,2)", "numeric(28,6)", "numeric(38,4)")
	case Oracle, SQLServer:
	}
	slices.SortStableFunc(columns, func(a, b *SourceColumn) int {
		switch {
		case a.Declared < b.Declared:
			return -1
		case a.Declared > b.Declared:
			return 1
		}
		return 0
	})
	return slices.CompactFunc(columns, func(a, b *SourceColumn) bool { return a.Declared == b.Declared && a.ZeroDates == b.ZeroDates })
}

func declaredColumn(declared string, class TypeClass) (*SourceColumn, error) {
	t, err := ParseSourceType(declared)
	if err != nil {
		return nil, err
	}
	t.Class = class
	return &SourceColumn{Name: "c", Declared: declared, Type: t}, nil
}
