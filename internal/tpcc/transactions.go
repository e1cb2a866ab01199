package tpcc

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

type orderLine struct{ item, supplier, quantity int }

// newOrder is the transaction of clause 2.4.
func newOrder(ctx context.Context, x *transaction) error {
	if err := placeOrder(ctx, x); err != nil {
		return fmt.Errorf("new order: %w", err)
	}
	return nil
}

func placeOrder(ctx context.Context, x *transaction) error {
	customer := x.random.customerID(x.scale.Customers)
	lines, allLocal := chooseLines(x)
	rollback := x.random.uniform(1, 100) == 1
	if err := x.lock("district", x.home, x.district); err != nil {
		return err
	}
	var tax, discount pgtype.Numeric
	var credit string
	err := x.row(ctx, []any{&tax, &discount, &credit}, `SELECT w_tax, c_discount, c_credit FROM warehouse, customer
		WHERE w_id = $1 AND c_w_id = w_id AND c_d_id = $2 AND c_id = $3`, x.home, x.district, customer)
	if err != nil {
		return err
	}
	var order int
	err = x.row(ctx, []any{&order}, `UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = $1 AND d_id = $2 RETURNING d_next_o_id - 1`,
		x.home, x.district)
	if err != nil {
		return err
	}
	err = x.exec(ctx, `INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		order, x.district, x.home, customer, x.now, len(lines), allLocal)
	if err != nil {
		return err
	}
	err = x.exec(ctx, `INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES ($1, $2, $3)`, order, x.district, x.home)
	if err != nil {
		return err
	}
	for i, line := range lines {
		if rollback && i == len(lines)-1 {
			return errUnusedItem
		}
		if err := takeLine(ctx, x, order, i+1, line); err != nil {
			return err
		}
	}
	return nil
}

// chooseLines picks 5 to 15 different items in the order in which their stock
// is locked, one in a hundred from another warehouse (clause 2.4.1.5).
func chooseLines(x *transaction) (lines []orderLine, allLocal int) {
	allLocal = 1
	seen := map[orderLine]bool{}
	for count := x.random.uniform(5, 15); len(lines) < count; {
		line := orderLine{item: x.random.itemID(x.scale.Items), supplier: x.home}
		if x.scale.Warehouses > 1 && x.random.uniform(1, 100) == 1 {
			line.supplier = x.otherWarehouse()
			allLocal = 0
		}
		if seen[line] {
			continue
		}
		seen[line] = true
		lines = append(lines, line)
	}
	slices.SortFunc(lines, func(a, b orderLine) int {
		if a.supplier != b.supplier {
			return a.supplier - b.supplier
		}
		return a.item - b.item
	})
	for i := range lines {
		lines[i].quantity = x.random.uniform(1, 10)
	}
	return lines, allLocal
}

func (x *transaction) otherWarehouse() int {
	w := x.random.uniform(1, x.scale.Warehouses-1)
	if w >= x.home {
		w++
	}
	return w
}

func takeLine(ctx context.Context, x *transaction, order, number int, line orderLine) error {
	if err := x.lock("stock", line.supplier, line.item); err != nil {
		return err
	}
	remote := 0
	if line.supplier != x.home {
		remote = 1
	}
	var amount pgtype.Numeric
	var info string
	err := x.row(ctx, []any{&amount, &info}, fmt.Sprintf(`UPDATE stock
		SET s_quantity = CASE WHEN s_quantity >= $3::int + 10 THEN s_quantity - $3 ELSE s_quantity - $3 + 91 END,
			s_ytd = s_ytd + $3, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + $4::int
		FROM item WHERE i_id = s_i_id AND s_w_id = $1 AND s_i_id = $2 RETURNING i_price * $3, s_dist_%02d`, x.district),
		line.supplier, line.item, line.quantity, remote)
	if err != nil {
		return err
	}
	return x.exec(ctx, `INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_dist_info)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		order, x.district, x.home, number, line.item, line.supplier, line.quantity, amount, info)
}

// customerBy picks a customer, six times in ten by last name: the one in the
// middle by first name (clause 2.5.2.2).
func (x *transaction) customerBy(ctx context.Context, warehouse, district int) (int, error) {
	if x.random.uniform(1, 100) > 60 {
		return x.random.customerID(x.scale.Customers), nil
	}
	ids, err := x.column(ctx, `SELECT c_id FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3 ORDER BY c_first COLLATE "C", c_id`,
		warehouse, district, x.random.lastName(x.scale.Customers))
	if err != nil {
		return 0, err
	}
	if len(ids) == 0 {
		return 0, errors.New("no customer of a last name that was loaded")
	}
	return ids[(len(ids)+1)/2-1], nil
}

// payment is the transaction of clause 2.5.
func payment(ctx context.Context, x *transaction) error {
	if err := pay(ctx, x); err != nil {
		return fmt.Errorf("payment: %w", err)
	}
	return nil
}

func pay(ctx context.Context, x *transaction) error {
	warehouse, district := x.home, x.district
	if x.scale.Warehouses > 1 && x.random.uniform(1, 100) > 85 {
		warehouse, district = x.otherWarehouse(), x.random.uniform(1, x.scale.Districts)
	}
	amount := numeric(x.random.uniform(1_00, 5000_00), 2)
	if err := x.lock("warehouse", x.home); err != nil {
		return err
	}
	var wName, dName string
	err := x.row(ctx, []any{&wName}, `UPDATE warehouse SET w_ytd = w_ytd + $2 WHERE w_id = $1 RETURNING w_name`, x.home, amount)
	if err != nil {
		return err
	}
	if err := x.lock("district", x.home, x.district); err != nil {
		return err
	}
	err = x.row(ctx, []any{&dName}, `UPDATE district SET d_ytd = d_ytd + $3 WHERE d_w_id = $1 AND d_id = $2 RETURNING d_name`, x.home, x.district, amount)
	if err != nil {
		return err
	}
	customer, err := x.customerBy(ctx, warehouse, district)
	if err != nil {
		return err
	}
	if err := x.lock("customer", warehouse, district, customer); err != nil {
		return err
	}
	var credit string
	err = x.row(ctx, []any{&credit}, `UPDATE customer SET c_balance = c_balance - $4, c_ytd_payment = c_ytd_payment + $4, c_payment_cnt = c_payment_cnt + 1
		WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3 RETURNING c_credit`, warehouse, district, customer, amount)
	if err != nil {
		return err
	}
	if credit == "BC" {
		err = x.exec(ctx, `UPDATE customer SET c_data = left(concat_ws(' ', c_id, c_d_id, c_w_id, $4::int, $5::int, $6::numeric) || c_data, 500)
			WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3`, warehouse, district, customer, x.district, x.home, amount)
		if err != nil {
			return err
		}
	}
	return x.exec(ctx, `INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		customer, district, warehouse, x.district, x.home, x.now, amount, wName+"    "+dName)
}

// orderStatus is the transaction of clause 2.6.
func orderStatus(ctx context.Context, x *transaction) error {
	customer, err := x.customerBy(ctx, x.home, x.district)
	if err != nil {
		return fmt.Errorf("order status: %w", err)
	}
	orders, err := x.column(ctx, `SELECT o_id FROM orders WHERE o_w_id = $1 AND o_d_id = $2 AND o_c_id = $3 ORDER BY o_id DESC LIMIT 1`,
		x.home, x.district, customer)
	if err != nil {
		return fmt.Errorf("order status: %w", err)
	}
	for _, order := range orders {
		_, err := x.column(ctx, `SELECT ol_i_id FROM order_line WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3`, x.home, x.district, order)
		if err != nil {
			return fmt.Errorf("order status: %w", err)
		}
	}
	return nil
}

// delivery is the transaction of clause 2.7, all districts in one database
// transaction.
func delivery(ctx context.Context, x *transaction) error {
	carrier := x.random.uniform(1, 10)
	for district := 1; district <= x.scale.Districts; district++ {
		if err := deliver(ctx, x, district, carrier); err != nil {
			return fmt.Errorf("delivery: %w", err)
		}
	}
	return nil
}

func deliver(ctx context.Context, x *transaction, district, carrier int) error {
	if err := x.lock("delivery", x.home, district); err != nil {
		return err
	}
	var order, customer int
	err := x.row(ctx, []any{&order}, `DELETE FROM new_order WHERE no_w_id = $1 AND no_d_id = $2
		AND no_o_id = (SELECT min(no_o_id) FROM new_order WHERE no_w_id = $1 AND no_d_id = $2) RETURNING no_o_id`, x.home, district)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil // nothing to deliver is no error (clause 2.7.4.2)
	}
	if err != nil {
		return err
	}
	err = x.row(ctx, []any{&customer}, `UPDATE orders SET o_carrier_id = $4 WHERE o_w_id = $1 AND o_d_id = $2 AND o_id = $3 RETURNING o_c_id`,
		x.home, district, order, carrier)
	if err != nil {
		return err
	}
	var total pgtype.Numeric
	err = x.row(ctx, []any{&total}, `WITH line AS (UPDATE order_line SET ol_delivery_d = $4 WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3
		RETURNING ol_amount) SELECT sum(ol_amount) FROM line`, x.home, district, order, x.now)
	if err != nil {
		return err
	}
	if err := x.lock("customer", x.home, district, customer); err != nil {
		return err
	}
	return x.exec(ctx, `UPDATE customer SET c_balance = c_balance + $4, c_delivery_cnt = c_delivery_cnt + 1
		WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3`, x.home, district, customer, total)
}

// stockLevel is the transaction of clause 2.8.
func stockLevel(ctx context.Context, x *transaction) error {
	var low int
	err := x.row(ctx, []any{&low}, `SELECT count(DISTINCT s_i_id) FROM district, order_line, stock
		WHERE d_w_id = $1 AND d_id = $2 AND ol_w_id = d_w_id AND ol_d_id = d_id AND ol_o_id BETWEEN d_next_o_id - 20 AND d_next_o_id - 1
		AND s_w_id = ol_w_id AND s_i_id = ol_i_id AND s_quantity < $3`, x.home, x.district, x.random.uniform(10, 20))
	if err != nil {
		return fmt.Errorf("stock level: %w", err)
	}
	return nil
}
