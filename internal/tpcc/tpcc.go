// Package tpcc runs the TPC-C workload against a PostgreSQL: the nine tables,
// their initial population and the five transactions.
//
// In come a connection string, a Scale and a seed; out come rows. Equal scale
// and seed give equal rows, because every random choice, the interleaving of
// terminals and every timestamp come from the seed and none from the machine.
// It is a workload, not a benchmark: there is no think time, no measurement
// and no claim to a tpmC. Clause numbers in comments are those of the TPC-C
// standard specification, revision 5.11.
package tpcc

import (
	"context"
	_ "embed" // schema.sql
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

//go:embed schema.sql
var schema string

// Tables returns the tables' names in an order that satisfies their foreign keys.
func Tables() []string {
	return []string{"warehouse", "district", "customer", "history", "orders", "new_order", "item", "stock", "order_line"}
}

// A Scale says how many rows the initial population has.
type Scale struct {
	Warehouses int `json:"warehouses"`
	Items      int `json:"items"`      // 100,000 by the clause
	Districts  int `json:"districts"`  // per warehouse: 1 to 10, 10 by the clause
	Customers  int `json:"customers"`  // per district: 3,000 by the clause
	Orders     int `json:"orders"`     // per district: 3,000 by the clause
	NewOrders  int `json:"new_orders"` // the last of the orders, not yet delivered: 900 by the clause
}

// Full returns the cardinalities of clause 1.2.1: half a million rows a warehouse.
func Full(warehouses int) Scale {
	return Scale{Warehouses: warehouses, Items: 100_000, Districts: 10, Customers: 3000, Orders: 3000, NewOrders: 900}
}

// Tiny returns about 1,500 rows, for tests.
func Tiny() Scale {
	return Scale{Warehouses: 2, Items: 40, Districts: 3, Customers: 12, Orders: 12, NewOrders: 4}
}

// Validate says which number is out of range.
func (s Scale) Validate() error {
	for _, c := range []struct {
		name           string
		value, min, to int
	}{
		{"warehouses", s.Warehouses, 1, 10_000},
		{"items", s.Items, 15, 100_000}, // an order has up to 15 different items
		{"districts", s.Districts, 1, 10},
		{"customers", s.Customers, 1, 3000},
		{"orders", s.Orders, 1, 3000},
		{"new_orders", s.NewOrders, 0, s.Orders},
	} {
		if c.value < c.min || c.value > c.to {
			return fmt.Errorf("check scale: %s is %d, want %d to %d", c.name, c.value, c.min, c.to)
		}
	}
	return nil
}

// CreateSchema creates the nine tables in the connection's current schema.
func CreateSchema(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, schema); err != nil {
		return fmt.Errorf("create tables: %w", err)
	}
	return nil
}

// Epoch is when the workload's clock starts.
func Epoch() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

// A clock is the workload's own time. Every seventh reading is a whole second,
// since a fraction of zero has its own text form everywhere.
type clock struct {
	now      time.Time
	readings int
}

func (c *clock) next() time.Time {
	c.readings++
	c.now = c.now.Add(371_213 * time.Microsecond)
	if c.readings%7 == 0 {
		c.now = c.now.Truncate(time.Second).Add(time.Second)
	}
	return c.now
}
