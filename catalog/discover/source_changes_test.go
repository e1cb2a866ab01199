package discover_test

import (
	"slices"
	"strings"
	"testing"

	"icehose/catalog"
	"icehose/catalog/discover"
)

// What a key of the source that is not the file's does to records: a column that
// it has lost, and one that it has gained, do different harm.
func TestKeyChanges(t *testing.T) {
	const (
		mirrorOne = "    mode: mirror\n    key: [id]\n"
		mirrorTwo = "    mode: mirror\n    key: [id, k2]\n"
		overwrite = "rows that differ in k2 alone are one row by the file's key: they overwrite each other, a delete of one removes all of them, and nothing fails"
		fails     = "deletes, which carry only the source's key, fail missing_key"
		anew      = "; stop the stream of the table now; then change key:, and load the table anew into a new lake table"
		said      = "attention public.c : the primary key is "
	)
	tests := []struct{ name, settings, key, want string }{
		{"the same", mirrorOne, "PRIMARY KEY (id)", ""},
		{"another order", mirrorTwo, "PRIMARY KEY (k2, id)", ""},
		{"no key in either", "    mode: changelog\n", "UNIQUE (id)", ""},
		{"gained", mirrorOne, "PRIMARY KEY (id, k2)", said + "[id, k2] in the source and [id] in the file; " + overwrite + anew + "\n"},
		{
			"gained, in a changelog", "    mode: changelog\n    key: [id]\n", "PRIMARY KEY (id, k2)",
			said + "[id, k2] in the source and [id] in the file; rows that differ in k2 alone are one row by the file's key: they are folded into one, and nothing fails" + anew + "\n",
		},
		{"lost", mirrorTwo, "PRIMARY KEY (id)", said + "[id] in the source and [id, k2] in the file; " + fails + "; change key:, and load the table anew\n"},
		{"another", mirrorOne, "PRIMARY KEY (k2)", said + "[k2] in the source and [id] in the file; " + overwrite + "; " + fails + anew + "\n"},
		{
			"lost, and deletes have whole rows", mirrorTwo, "PRIMARY KEY (id)); ALTER TABLE c REPLICA IDENTITY FULL; CREATE TABLE rest (id int",
			said + "[id] in the source and [id, k2] in the file; an update that changes k2 leaves the row with its old key in the lake; change key:, and load the table anew\n",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			file := strings.Replace(oneTable(test.settings, "{name: id, type: int, source_type: integer}", "{name: k2, type: int, source_type: integer}"), "tables:", "readers: [spark]\nexclude: [public.rest]\ntables:", 1)
			s := read(t, catalog.PostgreSQL, "CREATE TABLE c (id int NOT NULL, k2 int NOT NULL, "+test.key+");")
			text, notes := run(t, file, s, discover.Options{})
			if text != file || notes != test.want {
				t.Errorf("got  %s\nwant %s", notes, test.want)
			}
		})
	}
	t.Run("a column of the key is gone", func(t *testing.T) {
		file := oneTable(mirrorTwo, "{name: id, type: int, source_type: integer}", "{name: k2, type: int, source_type: integer}")
		_, notes := run(t, file, read(t, catalog.PostgreSQL, "CREATE TABLE c (id int PRIMARY KEY)"), discover.Options{})
		if !strings.Contains(notes, "attention public.c k2: the source has no such column: kept; every record fails missing_key") {
			t.Errorf("got the notes\n%s", notes)
		}
	})
}

// Where one column went and one of its type came, the new one says what to write
// if they are one, before it is too late.
func TestRenameIsProposed(t *testing.T) {
	comment := func(old string) string {
		return "perhaps " + old + ", renamed: then write renamed_from: " + old + " here and remove " + old + " before catalog apply, which would add an empty column"
	}
	tests := []struct {
		name, sql string
		columns   []string
		want      []string // lines of the file
		not       string
		note      string
	}{
		{
			"one", "id int, neu text",
			[]string{"{name: id, type: int, source_type: integer}", "{name: old, type: string, source_type: text}"},
			[]string{"- {name: neu, type: string, source_type: text, may_be_unchanged: true} # " + comment("old")},
			"",
			"attention public.c old: the source has no such column: kept; it is null in new rows; if it was renamed to neu, write renamed_from: old there and remove it here, before catalog apply adds a new column",
		},
		{
			"one of each type", "neu text, number bigint",
			[]string{"{name: old, type: string, source_type: text}", "{name: n, type: long, source_type: bigint}"},
			[]string{"neu, type: string, source_type: text, may_be_unchanged: true} # " + comment("old"), "number, type: long, source_type: bigint} # " + comment("n")},
			"", "",
		},
		{"two came", "one text, two text", []string{"{name: old, type: string, source_type: text}"}, nil, "perhaps", "if it was renamed to one or two, write renamed_from: old there"},
		{"two went", "neu text", []string{"{name: old, type: string, source_type: text}", "{name: older, type: string, source_type: text}"}, nil, "perhaps", "if it was renamed to neu, write renamed_from: older there"},
		{"another type", "neu bigint", []string{"{name: old, type: string, source_type: text}"}, nil, "perhaps", "attention public.c old: the source has no such column: kept; it is null in new rows; write exclude: true"},
		{"excluded", "neu text", []string{"{name: id, type: int, source_type: integer}", "{name: old, type: string, source_type: text, exclude: true}"}, nil, "perhaps", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := read(t, catalog.PostgreSQL, "CREATE TABLE c ("+test.sql+")")
			text, notes := run(t, oneTable(changelog, test.columns...), s, discover.Options{})
			for _, want := range test.want {
				if !strings.Contains(text, want+"\n") {
					t.Errorf("no %q in\n%s", want, text)
				}
			}
			if test.not != "" && strings.Contains(text, test.not) {
				t.Errorf("%q in\n%s", test.not, text)
			}
			if !strings.Contains(notes, test.note) {
				t.Errorf("no %q in\n%s", test.note, notes)
			}
			if again, _ := run(t, text, s, discover.Options{}); again != text {
				t.Error("a second run is not the same")
			}
		})
	}
}

// A column that a source has lost fails records where it may not be null.
func TestGoneColumnWithoutNulls(t *testing.T) {
	file := strings.Replace(oneTable(changelog, "{name: id, type: int, source_type: integer}", "{name: old, type: string, source_type: text, not_null: true}"), "postgres}", "postgres, nulls: omitted}", 1)
	_, notes := run(t, file, read(t, catalog.PostgreSQL, "CREATE TABLE c (id int)"), discover.Options{})
	if !strings.Contains(notes, "records without it fail missing_column") {
		t.Errorf("got the notes\n%s", notes)
	}
}

// What older rows have in a new column is taken from where the source keeps it;
// the present default stands in only where nothing tells, and is said to.
func TestEarlierRows(t *testing.T) {
	seven, bad := "7", "x"
	tests := []struct {
		name      string
		earlier   *string
		knows     bool
		def       *catalog.SourceDefault
		nullable  bool
		want, not string // in the file
		note      string // empty: no attention
	}{
		{"kept, and the default is another now", &seven, true, &catalog.SourceDefault{Text: "8"}, false, `not_null: true, default: "7"} # default: what rows from before`, "", ""},
		{"kept, and there is no default now", &seven, true, nil, false, `default: "7"}`, "", ""},
		{"kept, and the default is an expression", &seven, true, &catalog.SourceDefault{Text: "3 + 4", Expression: true}, false, `default: "7"}`, "", ""},
		{"kept, and no number", &bad, true, nil, false, "not_null: true}", "default:", "what rows from before it was added have in it is no int"},
		{"kept, and the column may be null", &seven, true, nil, true, "source_type: integer}", "default:", "no default: can say so"},
		{"not kept", nil, true, &catalog.SourceDefault{Text: "8"}, false, "not_null: true}", "default:", "nothing tells what rows from before it was added have in it"},
		{"not kept, without a default", nil, true, nil, false, "not_null: true}", "default:", "nothing tells what rows from before it was added have in it"},
		{"null then, a default since", nil, true, &catalog.SourceDefault{Text: "8"}, true, "source_type: integer}", "default:", ""},
		{"each its own", nil, true, &catalog.SourceDefault{Text: "random()", Expression: true}, true, "source_type: integer}", "default:", "may each have got a value of its own"},
		{"a dump", nil, false, &catalog.SourceDefault{Text: "8"}, false, `default: "8"} # default: the present one`, "", "nothing tells whether it was another then"},
		{"a default of a dump that may be null", nil, false, &catalog.SourceDefault{Text: "8"}, true, "source_type: integer}", "default:", "no default: can say so, because it may be null in the source; they are null in the lake; reload the table"},
		{"an expression of a dump that may be null", nil, false, &catalog.SourceDefault{Text: "random()", Expression: true}, true, "source_type: integer}", "default:", "reload the table"},
		{"no default of a dump", nil, false, nil, false, "not_null: true}", "default:", "rows from before it was added have a value in it that nothing tells"},
		{"no default of a dump that may be null", nil, false, nil, true, "source_type: integer}", "default:", ""},
		{"an expression of a dump", nil, false, &catalog.SourceDefault{Text: "random()", Expression: true}, false, "not_null: true}", "default:", "a default that is not a plain value"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := read(t, catalog.PostgreSQL, "CREATE TABLE c (id int, z int)")
			z := s.Tables[0].Column("z")
			z.Earlier, z.Default, z.Nullable, s.KnowsEarlier = test.earlier, test.def, test.nullable, test.knows
			text, notes := run(t, oneTable(changelog, "{name: id, type: int, source_type: integer}"), s, discover.Options{})
			if !strings.Contains(text, test.want) || test.not != "" && strings.Contains(text, test.not) {
				t.Errorf("want %q and not %q in\n%s", test.want, test.not, text)
			}
			if !strings.Contains(notes, test.note) || (test.note == "") == strings.Contains(notes, "attention") {
				t.Errorf("want %q in\n%s", test.note, notes)
			}
		})
	}
}

// Tables that cannot flow are named, with why, and do not stand in the way of
// others. exclude: makes them pass without a word.
func TestLeftOut(t *testing.T) {
	sql := "CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE empty (); CREATE UNLOGGED TABLE scratch (id int PRIMARY KEY);"
	s := read(t, catalog.PostgreSQL, sql)
	const empty, scratch = "attention public.empty : the table has no columns: left out; give it a column, or name it under exclude:\n",
		"attention public.scratch : the table is UNLOGGED: left out, because its changes are not in the source's log; make it LOGGED in the source, or name it under exclude:\n"
	text, notes := run(t, "", s, discover.Options{})
	if !strings.Contains(notes, empty) || !strings.Contains(notes, scratch) || strings.Contains(text, "empty") || strings.Contains(text, "scratch") {
		t.Errorf("got\n%s\n%s", notes, text)
	}
	if again, notes := run(t, text, s, discover.Options{}); again != text || notes != empty+scratch {
		t.Errorf("a second run says\n%s", notes)
	}
	if _, notes := run(t, text, s, discover.Options{Tables: []string{"public.a"}}); notes != "" {
		t.Errorf("of a selection it is said\n%s", notes)
	}
	excluded := strings.Replace(text, "\ntables:", "\nexclude: [public.empty, public.scratch]\ntables:", 1)
	if again, notes := run(t, excluded, s, discover.Options{}); again != excluded || notes != "" {
		t.Errorf("of tables under exclude: it is said\n%s", notes)
	}
	if _, err := discover.Update("pipeline.yaml", nil, read(t, catalog.PostgreSQL, "CREATE TABLE empty ()"), discover.Options{}); err == nil || err.Error() != "no table of the source has a column" {
		t.Errorf("of a source without columns: %v", err)
	}
}

// A table of the file that the source has as something else is not said to be
// gone.
func TestBecameSomethingElse(t *testing.T) {
	file := oneTable(changelog, "{name: id, type: int, source_type: integer}")
	for sql, want := range map[string]string{
		"CREATE UNLOGGED TABLE c (id int);": "attention public.c : the source has it as an UNLOGGED table, whose changes are not in its log: kept; none of its changes are delivered, and nothing fails; " +
			"make it LOGGED in the source and load it anew, or remove it from the file when its rows are of no more use\n",
		"CREATE TABLE c (id int) PARTITION BY HASH (id);": "attention public.c : the source has it as a table with partitions, which have its rows: each is a table of its own: kept; " +
			"remove the table from the file when its rows are of no more use\n",
		"CREATE TABLE d (id int);": "attention public.c : the source has no such table: kept; remove the table from the file when its rows are of no more use\n",
	} {
		s := read(t, catalog.PostgreSQL, sql+"CREATE TABLE other (id int);")
		_, notes := run(t, file, s, discover.Options{Tables: []string{"public.c", "public.other"}})
		lines := slices.DeleteFunc(strings.SplitAfter(notes, "\n"), func(l string) bool { return !strings.HasPrefix(l, "attention public.c ") })
		if got := strings.Join(lines, ""); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", sql, got, want)
		}
	}
}
