package tpcc

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Load fills the tables as clause 4.3.3 says.
func Load(ctx context.Context, conn *pgx.Conn, scale Scale, seed uint64) error {
	if err := scale.Validate(); err != nil {
		return fmt.Errorf("load tpcc: %w", err)
	}
	constants, _ := constantsOf(seed)
	l := &loader{scale: scale, constants: constants, seed: seed}
	steps := []struct {
		table string
		write func(*copyWriter)
	}{
		{"item", l.items},
		{"warehouse", l.warehouses},
		{"district", l.districts},
		{"stock", l.stock},
		{"customer", l.customers},
		{"history", l.history},
		{"orders", l.orders},
		{"order_line", l.orderLines},
		{"new_order", l.newOrders},
	}
	for _, step := range steps {
		load := copyInto
		if step.table == "customer" {
			load = copyOutOfLine
		}
		if err := load(ctx, conn, step.table, step.write); err != nil {
			return fmt.Errorf("load tpcc: %w", err)
		}
	}
	if _, err := conn.Exec(ctx, "ANALYZE"); err != nil {
		return fmt.Errorf("load tpcc: %w", err)
	}
	return nil
}

// copyOutOfLine fills customer so that c_data really is stored out of line.
// PostgreSQL considers that only for rows above two kilobytes, whatever the
// table's toast_tuple_target is; a value that once was moved out stays out. A
// column that exists during the load only makes the rows long enough.
func copyOutOfLine(ctx context.Context, conn *pgx.Conn, table string, write func(*copyWriter)) error {
	_, err := conn.Exec(ctx, `ALTER TABLE customer ADD COLUMN load_padding text NOT NULL DEFAULT repeat('x', 1800);
		ALTER TABLE customer ALTER COLUMN load_padding SET STORAGE PLAIN`)
	if err != nil {
		return fmt.Errorf("pad %s: %w", table, err)
	}
	columns := `customer (c_id, c_d_id, c_w_id, c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_since,
		c_credit, c_credit_lim, c_discount, c_balance, c_ytd_payment, c_payment_cnt, c_delivery_cnt, c_data)`
	if err := copyInto(ctx, conn, columns, write); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "ALTER TABLE customer DROP COLUMN load_padding"); err != nil {
		return fmt.Errorf("drop padding of %s: %w", table, err)
	}
	return nil
}

type loader struct {
	scale     Scale
	constants constants
	seed      uint64
}

// loadStreams is how many independent streams a warehouse has.
const loadStreams = 8

// random returns the stream of one kind of row of one warehouse.
func (l *loader) random(warehouse, kind int) *random {
	return newRandom(l.seed, warehouseStream+uint64(1_000_000+warehouse*loadStreams+kind), l.constants)
}

func (l *loader) items(c *copyWriter) {
	r := newRandom(l.seed, itemStream, l.constants)
	for i := 1; i <= l.scale.Items; i++ {
		c.ints(i, r.uniform(1, 10_000)).text(r.alphaString(14, 24)).decimal(r.uniform(100, 10_000), 2).text(r.original(26, 50)).end()
	}
}

func (l *loader) warehouses(c *copyWriter) {
	for w := 1; w <= l.scale.Warehouses; w++ {
		r := l.random(w, 0)
		c.ints(w).text(r.alphaString(6, 10))
		address(c, r)
		c.decimal(r.uniform(0, 2000), 4).decimal(30_000_00*l.scale.Districts, 2).end()
	}
}

func (l *loader) districts(c *copyWriter) {
	for w := 1; w <= l.scale.Warehouses; w++ {
		r := l.random(w, 1)
		for d := 1; d <= l.scale.Districts; d++ {
			c.ints(d, w).text(r.alphaString(6, 10))
			address(c, r)
			c.decimal(r.uniform(0, 2000), 4).decimal(30_000_00, 2).ints(l.scale.Orders + 1).end()
		}
	}
}

// address writes street_1, street_2, city, state and zip.
func address(c *copyWriter, r *random) {
	c.text(r.alphaString(10, 20), r.alphaString(10, 20), r.alphaString(10, 20), r.letters(2), r.zip())
}

func (l *loader) stock(c *copyWriter) {
	for w := 1; w <= l.scale.Warehouses; w++ {
		r := l.random(w, 2)
		for i := 1; i <= l.scale.Items; i++ {
			c.ints(i, w, r.uniform(10, 100))
			for range 10 {
				c.text(r.alphaString(24, 24))
			}
			c.ints(0, 0, 0).text(r.original(26, 50)).end()
		}
	}
}

func (l *loader) customers(c *copyWriter) {
	clock := clock{now: Epoch().AddDate(-1, 0, 0)}
	for w := 1; w <= l.scale.Warehouses; w++ {
		r := l.random(w, 3)
		for d := 1; d <= l.scale.Districts; d++ {
			for id := 1; id <= l.scale.Customers; id++ {
				name := LastName(id - 1)
				if id > 1000 {
					name = r.lastName(l.scale.Customers)
				}
				c.ints(id, d, w).text(r.alphaString(8, 16), "OE", name)
				address(c, r)
				credit := "GC"
				if r.IntN(10) == 0 {
					credit = "BC"
				}
				c.text(r.digits(16)).time(clock.next()).text(credit).decimal(50_000_00, 2).decimal(r.uniform(0, 5000), 4)
				c.decimal(-10_00, 2).decimal(10_00, 2).ints(1, 0).text(r.alphaString(300, 500)).end()
			}
		}
	}
}

func (l *loader) history(c *copyWriter) {
	clock := clock{now: Epoch().AddDate(0, -6, 0)}
	for w := 1; w <= l.scale.Warehouses; w++ {
		r := l.random(w, 4)
		for d := 1; d <= l.scale.Districts; d++ {
			for id := 1; id <= l.scale.Customers; id++ {
				c.ints(id, d, w, d, w).time(clock.next()).decimal(10_00, 2).text(r.alphaString(12, 24)).end()
			}
		}
	}
}

// eachOrder calls do for every order of the population, always with the same
// choices, since orders and their lines are written by separate passes.
func (l *loader) eachOrder(do func(w, d, o, customer, lines int, r *random)) {
	for w := 1; w <= l.scale.Warehouses; w++ {
		r, lines := l.random(w, 5), l.random(w, 6)
		for d := 1; d <= l.scale.Districts; d++ {
			customers := r.Perm(l.scale.Customers)
			for o := 1; o <= l.scale.Orders; o++ {
				do(w, d, o, customers[(o-1)%len(customers)]+1, r.uniform(5, 15), lines)
			}
		}
	}
}

// delivered says whether the order left before the run starts.
func (l *loader) delivered(o int) bool { return o <= l.scale.Orders-l.scale.NewOrders }

func (l *loader) orders(c *copyWriter) {
	clock := clock{now: Epoch().AddDate(0, -3, 0)}
	l.eachOrder(func(w, d, o, customer, lines int, r *random) {
		c.ints(o, d, w, customer).time(clock.next())
		if carrier := r.uniform(1, 10); l.delivered(o) {
			c.ints(carrier)
		} else {
			c.null()
		}
		c.ints(lines, 1).end()
	})
}

func (l *loader) orderLines(c *copyWriter) {
	clock := clock{now: Epoch().AddDate(0, -3, 0)}
	l.eachOrder(func(w, d, o, _, lines int, r *random) {
		entered := clock.next()
		for number := 1; number <= lines; number++ {
			c.ints(o, d, w, number, r.uniform(1, l.scale.Items), w)
			amount := r.uniform(1, 9_999_99)
			if l.delivered(o) {
				c.time(entered).ints(5).decimal(0, 2)
			} else {
				c.null().ints(5).decimal(amount, 2)
			}
			c.text(r.alphaString(24, 24)).end()
		}
	})
}

func (l *loader) newOrders(c *copyWriter) {
	for w := 1; w <= l.scale.Warehouses; w++ {
		for d := 1; d <= l.scale.Districts; d++ {
			for o := l.scale.Orders - l.scale.NewOrders + 1; o <= l.scale.Orders; o++ {
				c.ints(o, d, w).end()
			}
		}
	}
}
