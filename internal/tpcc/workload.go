package tpcc

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// A Config says what a workload does.
type Config struct {
	Scale        Scale
	Seed         uint64
	Terminals    int // sessions whose transactions are open side by side
	Transactions int // how many to begin in total
}

// Counts are what a workload has done. Rollbacks are the new orders that
// clause 2.4.1.4 makes fail; they are not among NewOrders.
type Counts struct {
	NewOrders   int `json:"new_orders"`
	Payments    int `json:"payments"`
	OrderStatus int `json:"order_status"`
	Deliveries  int `json:"deliveries"`
	StockLevels int `json:"stock_levels"`
	Rollbacks   int `json:"rollbacks"`
}

// A Workload runs transactions on several sessions from one goroutine: each
// Step runs one statement of one of them, chosen by the seed. So transactions
// overlap in the database, with identifiers that are not in commit order, and
// still every run of a seed is the same.
//
// A transaction that would block in the database would block the only
// goroutine there is. So it first asks for the rows it is going to change in
// locks, and is not chosen while another transaction has them.
type Workload struct {
	config    Config
	schedule  *random
	clock     clock
	terminals []*terminal
	begun     int
	locks     map[string]*terminal
	counts    Counts
}

// A terminal is a session with at most one open transaction.
type terminal struct {
	id      int
	conn    *pgx.Conn
	random  *random
	next    func() (string, error, bool)
	stop    func()
	waiting string // the lock that the transaction cannot go on without
}

// NewWorkload opens the sessions. The tables must have been loaded at the
// same scale with the same seed.
func NewWorkload(ctx context.Context, dsn string, config Config) (*Workload, error) {
	if err := config.Scale.Validate(); err != nil {
		return nil, fmt.Errorf("make workload: %w", err)
	}
	if config.Terminals < 1 {
		return nil, fmt.Errorf("make workload: %d terminals, want at least one", config.Terminals)
	}
	_, constants := constantsOf(config.Seed)
	w := &Workload{
		config: config, schedule: newRandom(config.Seed, scheduleStream, constants),
		clock: clock{now: Epoch()}, locks: map[string]*terminal{},
	}
	for i := range config.Terminals {
		conn, err := pgx.Connect(ctx, dsn)
		if err != nil {
			return nil, errors.Join(errors.New("make workload: connect to the database"), w.Close(ctx))
		}
		w.terminals = append(w.terminals, &terminal{id: i, conn: conn, random: newRandom(config.Seed, terminalStream+uint64(i), constants)})
	}
	return w, nil
}

// Counts returns what was done so far.
func (w *Workload) Counts() Counts { return w.counts }

// Run steps until every transaction has ended.
func (w *Workload) Run(ctx context.Context) error {
	for {
		if done, err := w.Step(ctx); done || err != nil {
			return err
		}
	}
}

// Step runs one statement of one open transaction, or begins one. It reports
// whether all transactions have ended.
func (w *Workload) Step(ctx context.Context) (done bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, fmt.Errorf("run workload: %w", err)
	}
	var ready []*terminal
	open := 0
	for _, t := range w.terminals {
		if t.next == nil {
			if w.begun < w.config.Transactions {
				ready = append(ready, t)
			}
			continue
		}
		open++
		if t.waiting == "" || w.locks[t.waiting] == nil {
			ready = append(ready, t)
		}
	}
	if len(ready) == 0 {
		if open > 0 {
			return false, errors.New("run workload: every open transaction waits for another")
		}
		return true, nil
	}
	t := ready[w.schedule.IntN(len(ready))]
	if t.next == nil {
		w.begin(ctx, t)
	}
	if err := w.resume(t); err != nil {
		return false, fmt.Errorf("run workload: %w", err)
	}
	return false, nil
}

// resume lets a transaction run to its next statement or lock.
func (w *Workload) resume(t *terminal) error {
	if t.waiting != "" {
		w.locks[t.waiting], t.waiting = t, ""
	}
	for {
		lock, err, more := t.next()
		switch {
		case err != nil || !more:
			t.stop()
			t.next, t.stop = nil, nil
			w.release(t)
			return err
		case lock == "" || w.locks[lock] == t:
			return nil
		case w.locks[lock] != nil:
			t.waiting = lock
			return nil
		}
		w.locks[lock] = t
	}
}

func (w *Workload) release(t *terminal) {
	for lock, holder := range w.locks {
		if holder == t {
			delete(w.locks, lock)
		}
	}
}

// begin chooses the terminal's next transaction: the mix of clause 5.2.3,
// within its minimum shares.
func (w *Workload) begin(ctx context.Context, t *terminal) {
	w.begun++
	kinds := []struct {
		upTo  int
		run   func(context.Context, *transaction) error
		count *int
	}{
		{45, newOrder, &w.counts.NewOrders},
		{88, payment, &w.counts.Payments},
		{92, orderStatus, &w.counts.OrderStatus},
		{96, delivery, &w.counts.Deliveries},
		{100, stockLevel, &w.counts.StockLevels},
	}
	card := t.random.IntN(100)
	kind := kinds[slices.IndexFunc(kinds, func(k struct {
		upTo  int
		run   func(context.Context, *transaction) error
		count *int
	},
	) bool {
		return card < k.upTo
	})]
	x := &transaction{
		scale: w.config.Scale, random: t.random, now: w.clock.next(),
		home: t.id%w.config.Scale.Warehouses + 1, district: t.random.uniform(1, w.config.Scale.Districts),
	}
	t.next, t.stop = iter.Pull2(func(yield func(string, error) bool) {
		x.yield = func(lock string) bool { return yield(lock, nil) }
		err := x.do(ctx, t.conn, kind.run)
		switch {
		case err == nil:
			*kind.count++
		case errors.Is(err, errUnusedItem):
			w.counts.Rollbacks++
		case errors.Is(err, errStopped): // Close ends it; nobody asks for the result
		default:
			yield("", err)
		}
	})
}

// Close rolls open transactions back and closes the sessions.
func (w *Workload) Close(ctx context.Context) error {
	var errs []error
	for _, t := range w.terminals {
		if t.stop != nil {
			t.stop()
			t.next, t.stop = nil, nil
		}
		errs = append(errs, t.conn.Close(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close workload: %w", err)
	}
	return nil
}

var (
	errStopped    = errors.New("workload closed")
	errUnusedItem = errors.New("item number is not valid") // clause 2.4.2.3
)

// A transaction is one open transaction of a terminal.
type transaction struct {
	scale    Scale
	random   *random
	now      time.Time
	home     int // the terminal's warehouse
	district int
	tx       pgx.Tx
	yield    func(lock string) bool
}

// do runs a transaction and ends it.
func (x *transaction) do(ctx context.Context, conn *pgx.Conn, run func(context.Context, *transaction) error) error {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	x.tx = tx
	if err := run(ctx, x); err != nil {
		// A closed workload may have lost its context as well.
		return errors.Join(err, tx.Rollback(context.WithoutCancel(ctx)))
	}
	if !x.yield("") {
		return errors.Join(errStopped, tx.Rollback(context.WithoutCancel(ctx)))
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// lock waits until no other transaction is going to change what name names.
func (x *transaction) lock(name string, keys ...int) error {
	if !x.yield(fmt.Sprint(name, keys)) {
		return errStopped
	}
	return nil
}

// exec runs a statement that changes exactly one row.
func (x *transaction) exec(ctx context.Context, sql string, args ...any) error {
	if !x.yield("") {
		return errStopped
	}
	tag, err := x.tx.Exec(ctx, sql, args...)
	if err != nil {
		return err
	}
	if tag.RowsAffected() != 1 {
		return fmt.Errorf("statement changed %d rows, want 1", tag.RowsAffected())
	}
	return nil
}

// row runs a query for one row and reads it into targets.
func (x *transaction) row(ctx context.Context, targets []any, sql string, args ...any) error {
	if !x.yield("") {
		return errStopped
	}
	return x.tx.QueryRow(ctx, sql, args...).Scan(targets...)
}

// column runs a query for integers.
func (x *transaction) column(ctx context.Context, sql string, args ...any) ([]int, error) {
	if !x.yield("") {
		return nil, errStopped
	}
	rows, err := x.tx.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[int])
}
