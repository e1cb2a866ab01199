//go:build interop

package interop_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"icehose/catalog"
	"icehose/catalog/artifact"
	"icehose/cdc"
	"icehose/sink/merge"
	"icehose/sink/merge/mergetest"
)

var costRows = flag.Int("rows", 0, "rows of the current table over which TestCost measures; 0 for no measurement")

// costPipeline is a changelog like many: a key and ten columns, a partition a day.
const costPipeline = `version: 1
database: cost
source: {engine: postgresql, position: postgres}
tables:
  - source: s.orders
    mode: changelog
    key: [id]
    partition: [day(cdc_committed_at)]
    columns:
      - {name: id, type: long}
      - {name: customer, type: long}
      - {name: state, type: string}
      - {name: note, type: string}
      - {name: address, type: string}
      - {name: total, type: "decimal(12,2)"}
      - {name: tax, type: "decimal(12,2)"}
      - {name: quantity, type: int}
      - {name: ordered, type: timestamptz}
      - {name: paid, type: boolean}
`

// costTime is when what changes at a body is committed.
func costTime(body int) time.Time {
	return mergetest.Start().Add(time.Duration(body) * time.Second)
}

// costRowsOf selects rows of the changelog: every step-th key of count, changed at
// body. A load has no time.
func costRowsOf(count, step, body int, operation string) string {
	position, committed := string(cdc.ChangePosition(0, cdc.Body{Hi: uint64(body), Lo: uint64(body)}, 0)), fmt.Sprintf("timestamp_seconds(%d)", costTime(body).Unix())
	if operation == "load" {
		p, err := cdc.LoadPosition(0, cdc.Body{}, mergetest.Start(), cdc.Origin{Shard: "shardId-000000000000", Sequence: "0"})
		if err != nil {
			panic(err)
		}
		position, committed = string(p), "CAST(NULL AS TIMESTAMP)"
	}
	const digits = 16 // the last ones tell the rows apart
	return fmt.Sprintf(`SELECT id, pmod(hash(id), 100000), concat('state', pmod(id, 7)), sha2(CAST(id + %[3]d AS STRING), 256), concat('street ', pmod(hash(id), 5000)),
  CAST(pmod(hash(id, %[3]d), 1000000) / 100 AS DECIMAL(12,2)), CAST(pmod(hash(id), 10000) / 100 AS DECIMAL(12,2)), CAST(pmod(id, 90) AS INT),
  timestamp_seconds(1700000000 + id), pmod(id, 2) = 0,
  concat('%[4]s', lpad(lower(hex(id)), %[5]d, '0')), %[6]s, '%[7]s', CAST(NULL AS STRING), CAST(NULL AS STRING)
FROM range(0, %[1]d, %[2]d)`, count, step, body, position[:len(position)-digits], digits, committed, operation)
}

// A costs measures statements over a changelog and its current table.
type costs struct {
	t        *testing.T
	lake     *shared
	engine   *engine
	pipeline *catalog.Pipeline
	def      *catalog.Table
	spec     *merge.SparkSpec
	touched  string            // what part of the keys has changed last
	views    map[string]string // Athena's, for computing what they read
}

// TestCost measures what every statement over a changelog costs on Spark, and
// computes what Athena would scan for the same. Each line of the table is printed
// as soon as it is measured. A statement that fails is a line too.
func TestCost(t *testing.T) {
	if *costRows == 0 {
		t.Skip("want -rows: run make bench-merge")
	}
	c := &costs{t: t, lake: sharedLake(t), pipeline: pipeline(t, costPipeline)}
	c.def = c.pipeline.ByTarget("cost", "orders")
	if _, err := c.lake.store.OpenTable(t.Context(), c.def); err != nil {
		t.Fatal(err)
	}
	c.engine = countingSpark(t, c.lake)
	var err error
	if c.spec, err = merge.NewSparkSpec(c.def, ""); err != nil {
		t.Fatal(err)
	}
	c.views = map[string]string{"cost.orders_current": c.sql("athena", "current")[0], "cost.orders_history": c.sql("athena", "history")[0]}
	for _, kind := range []string{"current", "history"} {
		c.engine.sql(t, c.sql("spark", kind)[0])
	}
	c.print("A current table of %d rows.\n", *costRows)
	c.print("| statement | keys changed | seconds | read of changelog | of current table | of metadata | written | Athena would scan, computed |")
	c.print("|---|---|---|---|---|---|---|---|")

	c.change("all, loaded", 1, 1, "load")
	c.merge("first merge")
	for n, step := range []int{100, 10} {
		c.change(fmt.Sprintf("%d %%", 100/step), step, 2+n, "update")
		c.query("view, count(*)", "SELECT count(*) FROM cost.orders_current")
		c.query("view, every column", "SELECT * FROM cost.orders_current")
		c.merge("merge")
		c.merge("merge again, nothing new")
	}
	rows := *c.engine.sql(t, "SELECT count(*) FROM cost.orders_folded")[0][0]
	if rows != fmt.Sprint(*costRows) {
		t.Errorf("the current table has %s rows, want %d", rows, *costRows)
	}
	c.query("current table, every column", "SELECT * FROM cost.orders_folded")
	c.query("history, every column", "SELECT * FROM cost.orders_history")
	position := string(cdc.ChangePosition(0, cdc.Body{Hi: 2, Lo: 2}, 1<<40))
	at := costTime(2).Format("2006-01-02 15:04:05")
	c.queries("as of a position", artifact.AsOfPosition(artifact.Spark, c.def, position), artifact.AsOfPosition(artifact.Athena, c.def, position))
	c.queries("as of a time", artifact.AsOfTime(artifact.Spark, c.def, at), artifact.AsOfTime(artifact.Athena, c.def, at))
	c.upkeep()
}

// upkeep measures what removes rows, and what frees their space.
func (c *costs) upkeep() {
	before := c.count("cost.orders")
	cut := "TIMESTAMP '" + costTime(10).Format("2006-01-02 15:04:05") + " UTC'"
	athena := artifact.Retention(artifact.Athena, c.def, cut)
	for n, statement := range artifact.Retention(artifact.Spark, c.def, cut) {
		c.run(fmt.Sprintf("retention, statement %d", n+1), statement, athena[n])
	}
	after := c.count("cost.orders")
	if after >= before {
		c.t.Errorf("retention left %d of %d rows", after, before)
	}
	person := strings.NewReplacer("${id}", "7")
	scanned, search := map[string]string{}, "" // the DELETEs of Athena by table, and its query of earlier keys
	for _, part := range erasureParts(c.text("athena", "erase")) {
		for _, s := range part {
			if strings.HasPrefix(s, "SELECT DISTINCT") {
				search = person.Replace(s)
			}
			if table, ok := strings.CutPrefix(strings.ReplaceAll(s, `"`, ""), "DELETE FROM "); ok {
				scanned[strings.Fields(table)[0]] = person.Replace(s)
			}
		}
	}
	deleted := make(deletions)
	for n, part := range erasureParts(c.text("spark", "erase")) {
		if n > 0 {
			c.merge("erasure: merge")
		}
		for _, s := range part {
			s = deleted.fill(person.Replace(s))
			words := strings.Fields(strings.NewReplacer("`", "", "'", "", ",", " ", "(", " ").Replace(s))
			switch {
			case strings.HasPrefix(s, "SELECT DISTINCT"):
				c.run("erasure: earlier keys", s, search)
			case words[0] == "DELETE":
				c.run("erasure: DELETE FROM "+words[2], s, scanned[words[2]])
			case words[0] == "CALL":
				c.call("erasure: "+strings.TrimPrefix(words[1], "system.")+" of "+strings.TrimRight(words[4], ")"), strings.TrimRight(words[4], ")"), s)
			case strings.Contains(s, " AS cdc_left"):
				if left := *c.engine.sql(c.t, s)[0][0]; left != "0" {
					c.t.Errorf("%s rows are left: %s", left, s)
				}
			}
		}
	}
	c.print("\nRetention removed %d of %d rows of the changelog.", before-after, before)
}

func (c *costs) print(format string, args ...any) {
	_, _ = fmt.Fprintf(os.Stdout, format+"\n", args...) // a test that measures has nobody else to tell
}

// text is a generated file of the table.
func (c *costs) text(dialect, kind string) string {
	c.t.Helper()
	return statement(c.t, c.pipeline, dialect+"/cost.orders."+kind+".sql")
}

func (c *costs) sql(dialect, kind string) []string { return statements(c.text(dialect, kind)) }

func (c *costs) count(table string) (n int) {
	c.t.Helper()
	if _, err := fmt.Sscan(*c.engine.sql(c.t, "SELECT count(*) FROM "+table)[0][0], &n); err != nil {
		c.t.Fatal(err)
	}
	return n
}

// change appends changes of every step-th key.
func (c *costs) change(touched string, step, body int, operation string) {
	c.t.Helper()
	c.engine.sql(c.t, "INSERT INTO cost.orders "+costRowsOf(*costRows, step, body, operation))
	c.touched = touched
}

// measure runs a statement and prints its line.
func (c *costs) measure(name string, athena int64, run func() error) {
	c.t.Helper()
	c.engine.counted(c.t)
	started := time.Now() //nolint:forbidigo // a measurement
	err := run()
	took := time.Since(started).Seconds()
	if err != nil {
		message, _, _ := strings.Cut(err.Error(), "\n")
		c.t.Errorf("%s: %v", name, err)
		c.print("| %s | %s | %.1f | failed: %s | | | | |", name, c.touched, took, message)
		return
	}
	got := c.engine.counted(c.t)
	c.print("| %s | %s | %.1f | %s | %s | %s | %s | %s |", name, c.touched, took, megabytes(got.read("orders")), megabytes(got.read("orders_folded")),
		megabytes(got.all(" metadata read")), megabytes(got.all(" written")), megabytes(athena))
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

func (c *costs) merge(name string) {
	c.t.Helper()
	scan, err := merge.AthenaScan(c.t.Context(), c.lake.store.Tables().Tables, c.def)
	if err != nil {
		c.t.Fatal(err)
	}
	c.measure(name, scan, func() error {
		_, err := c.engine.merge(c.spec, false)
		return err
	})
}

// query measures a query that both engines write alike.
func (c *costs) query(name, query string) {
	c.t.Helper()
	c.queries(name, query, query)
}

func (c *costs) queries(name, spark, athena string) {
	c.t.Helper()
	c.measure(name, c.scan(athena), func() error { return c.engine.noop(spark) })
}

// run measures a statement that changes a table.
func (c *costs) run(name, spark, athena string) {
	c.t.Helper()
	c.measure(name, c.scan(athena), func() error {
		_, err := c.engine.call(map[string]any{"sql": spark})
		return err
	})
}

// call measures a procedure of Spark. In Athena OPTIMIZE rewrites files whole, and
// VACUUM reads none.
func (c *costs) call(name, table, statement string) {
	c.t.Helper()
	var scan int64
	if strings.Contains(statement, "rewrite_data_files") {
		is := footprintOf(c.t, c.lake, c.def, strings.TrimPrefix(table, "cost.orders"))
		scan = is.data + is.deletes
	}
	c.measure(name, scan, func() error {
		_, err := c.engine.call(map[string]any{"sql": statement})
		return err
	})
}

// scan computes what a statement of Athena's scans: the columns that it needs and
// all delete files, as often as it reads the table.
func (c *costs) scan(athena string) (total int64) {
	c.t.Helper()
	is := map[string]*footprint{"cost.orders": footprintOf(c.t, c.lake, c.def, ""), "cost.orders_folded": footprintOf(c.t, c.lake, c.def, "_folded")}
	columns := make(map[string][]string)
	for table, f := range is {
		for name := range f.columns {
			columns[table] = append(columns[table], name)
		}
	}
	for _, r := range readings(c.t, columns, c.views, athena)[0] {
		f := is[r.Table]
		if f == nil {
			c.t.Fatalf("no table %s", r.Table)
		}
		size := f.deletes
		for _, name := range r.Columns {
			size += f.columns[name]
		}
		total += size * r.Times
	}
	return total
}
