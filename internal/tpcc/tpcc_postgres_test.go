//go:build postgres

package tpcc_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"icehose/internal/pgtest"
	"icehose/internal/tpcc"
)

// connect returns a connection to a new server.
func connect(t *testing.T) (*pgx.Conn, string) {
	t.Helper()
	server := pgtest.New(t)
	return server.Connect(t), server.DSN()
}

// run loads and runs a workload and returns its counts and all rows.
func run(t *testing.T, config tpcc.Config) (tpcc.Counts, map[string][]string) {
	t.Helper()
	conn, dsn := connect(t)
	ctx := t.Context()
	if err := tpcc.CreateSchema(ctx, conn); err != nil {
		t.Fatal(err)
	}
	if err := tpcc.Load(ctx, conn, config.Scale, config.Seed); err != nil {
		t.Fatal(err)
	}
	if err := tpcc.CheckConsistency(ctx, conn); err != nil {
		t.Errorf("after the load: %v", err)
	}
	w, err := tpcc.NewWorkload(ctx, dsn, config)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(ctx); err != nil {
		t.Error(err)
	}
	if err := tpcc.CheckConsistency(ctx, conn); err != nil {
		t.Errorf("after the run: %v", err)
	}
	rows := map[string][]string{}
	for _, table := range tpcc.Tables() {
		result, err := conn.Query(ctx, "SELECT t::text FROM "+table+" t ORDER BY 1")
		if err != nil {
			t.Fatal(err)
		}
		if rows[table], err = pgx.CollectRows(result, pgx.RowTo[string]); err != nil {
			t.Fatal(err)
		}
	}
	return w.Counts(), rows
}

func TestRunIsConsistentAndRepeatable(t *testing.T) {
	config := tpcc.Config{Scale: tpcc.Tiny(), Seed: 7, Terminals: 5, Transactions: 400}
	counts, rows := run(t, config)
	total := counts.NewOrders + counts.Payments + counts.OrderStatus + counts.Deliveries + counts.StockLevels + counts.Rollbacks
	if total != config.Transactions {
		t.Errorf("%d transactions ended, want %d", total, config.Transactions)
	}
	if counts.NewOrders == 0 || counts.Payments == 0 || counts.OrderStatus == 0 || counts.Deliveries == 0 || counts.StockLevels == 0 || counts.Rollbacks == 0 {
		t.Errorf("a kind of transaction never ran: %+v", counts)
	}
	again, sameRows := run(t, config)
	if diff := cmp.Diff(counts, again); diff != "" {
		t.Errorf("counts of the second run (-first +second):\n%s", diff)
	}
	if diff := cmp.Diff(rows, sameRows); diff != "" {
		t.Errorf("rows of the second run (-first +second):\n%s", diff)
	}
	config.Seed++
	if _, otherRows := run(t, config); cmp.Equal(rows, otherRows) {
		t.Error("another seed gave the same rows")
	}
}

func TestLoadCardinality(t *testing.T) {
	conn, _ := connect(t)
	ctx := t.Context()
	scale := tpcc.Tiny()
	if err := tpcc.CreateSchema(ctx, conn); err != nil {
		t.Fatal(err)
	}
	if err := tpcc.Load(ctx, conn, scale, 1); err != nil {
		t.Fatal(err)
	}
	perDistrict := scale.Warehouses * scale.Districts
	want := map[string]int{
		"warehouse": scale.Warehouses, "district": perDistrict, "customer": perDistrict * scale.Customers, "history": perDistrict * scale.Customers,
		"orders": perDistrict * scale.Orders, "new_order": perDistrict * scale.NewOrders, "item": scale.Items, "stock": scale.Warehouses * scale.Items,
	}
	got := map[string]int{}
	for table := range want {
		var n int
		if err := conn.QueryRow(ctx, "SELECT count(*) FROM "+table).Scan(&n); err != nil {
			t.Fatal(err)
		}
		got[table] = n
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

// TestDataIsOutOfLine looks at the TOAST table: that is where the values are
// that an update leaves out of the write-ahead log.
func TestDataIsOutOfLine(t *testing.T) {
	conn, _ := connect(t)
	ctx := t.Context()
	if err := tpcc.CreateSchema(ctx, conn); err != nil {
		t.Fatal(err)
	}
	if err := tpcc.Load(ctx, conn, tpcc.Tiny(), 1); err != nil {
		t.Fatal(err)
	}
	var toast string
	if err := conn.QueryRow(ctx, "SELECT reltoastrelid::regclass::text FROM pg_class WHERE relname = 'customer'").Scan(&toast); err != nil {
		t.Fatal(err)
	}
	var values, customers int
	if err := conn.QueryRow(ctx, "SELECT count(DISTINCT chunk_id) FROM "+toast).Scan(&values); err != nil {
		t.Fatal(err)
	}
	if err := conn.QueryRow(ctx, "SELECT count(*) FROM customer WHERE length(c_data) >= 300").Scan(&customers); err != nil {
		t.Fatal(err)
	}
	if values != customers || customers == 0 {
		t.Errorf("%d values are out of line, want one for each of %d customers", values, customers)
	}
	if _, err := conn.Exec(ctx, "SELECT load_padding FROM customer"); err == nil || !strings.Contains(err.Error(), "42703") {
		t.Errorf("the padding column is still there: %v", err)
	}
}
