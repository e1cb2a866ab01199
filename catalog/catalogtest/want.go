package catalogtest

import (
	_ "embed"

	"icehose/catalog"
)

//go:embed postgres.sql
var postgresSQL string

//go:embed mysql.sql
var mysqlSQL string

// An option changes a column from a NOT NULL one with nothing else to say.
type option func(*catalog.SourceColumn)

func null(c *catalog.SourceColumn)      { c.Nullable = true }
func outOfLine(c *catalog.SourceColumn) { c.OutOfLine = true }
func zeroDate(c *catalog.SourceColumn)  { c.ZeroDates = true }

func literal(text string) option {
	return func(c *catalog.SourceColumn) { c.Default = &catalog.SourceDefault{Text: text} }
}

func expression(text string) option {
	return func(c *catalog.SourceColumn) { c.Default = &catalog.SourceDefault{Text: text, Expression: true} }
}

func from(g catalog.Generated) option {
	return func(c *catalog.SourceColumn) { c.Generated = g }
}

func comment(text string) option {
	return func(c *catalog.SourceColumn) { c.Comment = text }
}

// params says what a type is beyond its name.
func params(p ...int) option { return func(c *catalog.SourceColumn) { c.Type.Params = p } }

func unsigned(c *catalog.SourceColumn) { c.Type.Unsigned = true }

func array(c *catalog.SourceColumn) { c.Type.Array = true }

func class(k catalog.TypeClass) option { return func(c *catalog.SourceColumn) { c.Type.Class = k } }

func members(m ...string) option { return func(c *catalog.SourceColumn) { c.Type.Members = m } }

func column(name, declared, typ string, options ...option) *catalog.SourceColumn {
	c := &catalog.SourceColumn{Name: name, Declared: declared, Type: catalog.SourceType{Name: typ}}
	for _, o := range options {
		o(c)
	}
	return c
}

// PostgreSQL returns the text of a schema for an empty database, and what a
// reader must make of it.
func PostgreSQL() (sql string, want *catalog.SourceSchema) {
	table := func(schema, name string, key []string, columns ...*catalog.SourceColumn) *catalog.SourceTable {
		return &catalog.SourceTable{Schema: schema, Name: name, Key: key, Columns: columns, ReplicaIdentity: catalog.IdentityDefault}
	}
	varying := "character varying"
	tables := []*catalog.SourceTable{
		table("public", "gone", nil,
			column("keep", "integer", "integer", null), column("added", "character varying(5)", varying, params(5), literal("x"))),
		table("sales", "Orders", []string{"id"},
			column("id", "bigint", "bigint", from(catalog.GeneratedIdentity)),
			column("Total", "numeric(12,2)", "numeric", params(12, 2), literal("0.00"), comment("with tax")),
			column("rate", "numeric", "numeric", null, outOfLine),
			column("wide", "numeric(50,10)", "numeric", params(50, 10), null, outOfLine),
			column("state", "sales.mood", "sales.mood", class(catalog.ClassEnum), null, literal("sad")),
			column("ship_to", "sales.address", "sales.address", class(catalog.ClassComposite), null, outOfLine),
			column("slots", "sales.span", "sales.span", class(catalog.ClassRange), null, outOfLine),
			column("mail", "sales.work_email", varying, params(120), literal("nobody"), outOfLine),
			column("tags", "text[]", "text", array, null, literal("{}"), outOfLine),
			column("lines", "integer[]", "integer", array, null, outOfLine),
			column("flag", `"char"`, `"char"`, null),
			column("code", "character(1)", "character", params(1), null),
			column("placed", "timestamp(3) with time zone", "timestamp with time zone", params(3), expression("now()")),
			column("due", "time(0) without time zone", "time without time zone", params(0), null),
			column("took", "interval day to second(3)", "interval day to second", params(3), null),
			column("bits", "bit varying(12)", "bit varying", params(12), null),
			column("note", "text", "text", null, outOfLine),
			column("select", "boolean", "boolean", null, literal("true")),
			column("doc", "jsonb", "jsonb", null, outOfLine),
			column("double_total", "numeric", "numeric", null, outOfLine, from(catalog.GeneratedStored))),
		table("sales", "base", []string{"id"}, column("id", "integer", "integer"), column("name", "text", "text", null, outOfLine)),
		table("sales", "event_2020", []string{"id", "day"},
			column("id", "bigint", "bigint"), column("day", "date", "date"), column("body", "text", "text", null, outOfLine)),
		table("sales", "event_old", []string{"id", "day"},
			column("id", "bigint", "bigint"), column("day", "date", "date"), column("body", "text", "text", null, outOfLine)),
		table("sales", "keyless", nil,
			column("at", "timestamp without time zone", "timestamp without time zone", literal("2020-01-01 00:00:00")),
			column("what", "character varying(24)", varying, params(24), null)),
		table("sales", "narrow", []string{"id"},
			column("id", "integer", "integer"), column("a", "character varying(240)", varying, params(240), null),
			column("b", "character varying(240)", varying, params(240), null), column("c", "character(2)", "character", params(2), null),
			column("d", "numeric(10,2)", "numeric", params(10, 2), null)),
		table("sales", "pair", []string{"b", "a"},
			column("b", "character(3)", "character", params(3)),
			column("a", "integer", "integer", expression("nextval('sales.pair_a_seq'::regclass)")),
			column("label", "character varying(10)", varying, params(10), literal("it's")),
			column("n", "smallint", "smallint", null, literal("-1"))),
		table("sales", "special", []string{"id"},
			column("id", "integer", "integer", literal("7")), column("name", "text", "text", null, outOfLine), column("extra", "integer", "integer", null)),
		table("sales", "wide", []string{"id"},
			column("id", "integer", "integer"), column("a", "character varying(240)", varying, params(240), null, outOfLine),
			column("b", "character varying(260)", varying, params(260), null, outOfLine), column("c", "character(2)", "character", params(2), null),
			column("d", "numeric(10,2)", "numeric", params(10, 2), null), column("e", "numeric(200,2)", "numeric", params(200, 2), null, outOfLine),
			column("f", "text", "text", null)),
	}
	tables[1].Comment = "What was sold; it's all here"
	tables[3].PartitionOf, tables[4].PartitionOf = "sales.event", "sales.event"
	tables[5].ReplicaIdentity = catalog.IdentityFull
	return postgresSQL, &catalog.SourceSchema{Engine: catalog.PostgreSQL, Words: catalog.PostgreSQL, Tables: tables}
}

// MySQL returns the text of a schema for an empty database called shop, and
// what a reader must make of it. engine is that of the server or of the dump.
func MySQL(engine catalog.Engine) (sql string, want *catalog.SourceSchema) {
	orders := &catalog.SourceTable{Schema: "shop", Name: "Orders", Comment: "What was sold; it's all here", Key: []string{"id"}}
	orders.Columns = []*catalog.SourceColumn{
		column("id", "bigint(20) unsigned", "bigint", params(20), unsigned, from(catalog.GeneratedIdentity)),
		column("Total", "decimal(12,2)", "decimal", params(12, 2), literal("0.00"), comment(`with tax; it's all, "really"`)),
		column("wide", "decimal(60,10)", "decimal", params(60, 10), null),
		column("state", "enum('sad','it''s ok','a,b) c')", "enum", members("sad", "it's ok", "a,b) c"), null, literal("sad")),
		column("flags", "set('x','y')", "set", members("x", "y"), literal("x,y")),
		column("active", "tinyint(1)", "tinyint", params(1), literal("1")),
		column("tiny", "tinyint(3) unsigned", "tinyint", params(3), unsigned, null),
		column("padded", "int(8) unsigned zerofill", "int", params(8), unsigned, null),
		column("code", "char(5)", "char", params(5), null, literal("a")),
		column("label", "varchar(10)", "varchar", params(10), literal("")),
		column("bits", "bit(8)", "bit", params(8), null, expression("b'101'")),
		column("one", "bit(1)", "bit", params(1), null),
		column("born", "date", "date", literal("0000-00-00"), zeroDate),
		column("placed", "datetime(6)", "datetime", params(6), null, zeroDate),
		column("changed", "timestamp", "timestamp", expression("current_timestamp()"), zeroDate),
		column("took", "time(3)", "time", params(3), null),
		column("y", "year(4)", "year", params(4), null),
		column("ratio", "double", "double", null),
		column("share", "float(7,4)", "float", params(7, 4), null),
		column("hash", "binary(16)", "binary", params(16), null),
		column("raw", "varbinary(20)", "varbinary", params(20), null, literal("\x00a\\b\n\r")),
		column("body", "longtext", "longtext", null, outOfLine),
		column("blobby", "mediumblob", "mediumblob", null, outOfLine),
		column("place", "geometry", "geometry", null, outOfLine),
		column("double_total", "decimal(13,2)", "decimal", params(13, 2), null, from(catalog.GeneratedStored)),
		column("first", "varchar(1)", "varchar", params(1), null, from(catalog.GeneratedVirtual)),
		column("select", "int(11)", "int", params(11), null, literal("7")),
	}
	pair := &catalog.SourceTable{Schema: "shop", Name: "pair", Key: []string{"b", "a"}, Columns: []*catalog.SourceColumn{
		column("b", "char(3)", "char", params(3)), column("a", "int(11)", "int", params(11)),
		column("v", "varchar(100)", "varchar", params(100), null),
	}}
	keyless := &catalog.SourceTable{Schema: "shop", Name: "keyless", Columns: []*catalog.SourceColumn{
		column("at", "datetime", "datetime", null, zeroDate), column("what", "text", "text", null, outOfLine),
	}}
	return mysqlSQL, &catalog.SourceSchema{Engine: engine, Words: engine, Tables: []*catalog.SourceTable{orders, keyless, pair}}
}

//go:embed control.ndjson
var control []byte

// Control returns stream records whose control records define the schema of
// PostgreSQL, in the forms that captures show, with what a stream has besides:
// rows, the task's own tables, an older definition that comes late.
func Control() []byte { return control }
