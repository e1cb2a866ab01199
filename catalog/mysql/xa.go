package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	driver "github.com/go-sql-driver/mysql"

	"icehose/catalog"
)

// ErrHiddenXA says that the account may not see which XA transactions are
// prepared, on a server that has prepared some since it started.
var ErrHiddenXA = errors.New("the server runs XA transactions, and the account may not see which are prepared: GRANT XA_RECOVER_ADMIN ON *.* to it")

// A PreparedXAError refuses a floor while XA transactions are prepared.
type PreparedXAError struct{ Count int }

// Error implements error.
func (e *PreparedXAError) Error() string {
	return fmt.Sprintf("%d XA transactions are prepared: what they changed is in the log before this moment and in the rows after it: "+
		"end them (XA RECOVER lists them: XA COMMIT or XA ROLLBACK), then start again", e.Count)
}

// PreparedXA identifies the XA transactions that are prepared and neither
// committed nor rolled back. Their rows are in the binary log already (MySQL
// since 5.7, MariaDB since 10.5), and nobody sees them before XA COMMIT. On
// MariaDB they hold no lock of their tables once their connection has ended.
func PreparedXA(ctx context.Context, q Querier) ([]string, error) {
	ids, err := readXA(ctx, q)
	if deniedXA(err) {
		ids, err = nil, hiddenXA(ctx, q)
	}
	if err != nil {
		return nil, fmt.Errorf("list prepared XA transactions: %w", err)
	}
	return ids, nil
}

func readXA(ctx context.Context, q Querier) (ids []string, err error) {
	rows, err := q.QueryContext(ctx, "XA RECOVER")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var format, global, branch, data string // the lengths tell the two ends of the data apart
		if err := rows.Scan(&format, &global, &branch, &data); err != nil {
			return nil, err
		}
		ids = append(ids, format+" "+global+" "+branch+" "+data)
	}
	return ids, rows.Err()
}

// deniedXA says that the account has no XA_RECOVER_ADMIN, which MySQL 8 wants:
// it says so after a code for any trouble with XA.
func deniedXA(err error) bool {
	e, ok := errors.AsType[*driver.MySQLError](err)
	return ok && (e.Number == 1401 || e.Number == 1227)
}

// hiddenXA returns nil if the server has prepared none since it started: every
// account may see that.
func hiddenXA(ctx context.Context, q Querier) error {
	var name string
	var times int64
	err := q.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Com_xa_prepare'").Scan(&name, &times)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if err == nil && times == 0 {
		return nil
	}
	return ErrHiddenXA
}

// xa looks for transactions that are in the log and not in the rows.
func (p *preflight) xa(ctx context.Context) error {
	ids, err := PreparedXA(ctx, p.db)
	f := catalog.Finding{
		ID: "prepared_xa", Severity: catalog.SeverityWarning, Object: "XA RECOVER", What: fmt.Sprintf("%d XA transactions are prepared", len(ids)),
		Consequence: "their rows are in the log, and in the tables only after XA COMMIT: a task that starts meanwhile may lose them, and a load refuses. " +
			"DMS supports no XA transactions on MariaDB 10.6 and later",
		Fix: "XA COMMIT or XA ROLLBACK what XA RECOVER lists; on MySQL, GRANT XA_RECOVER_ADMIN to the task's account and set IgnoreOpenXaTransactionsCheck of its endpoint to false",
	}
	switch {
	case errors.Is(err, ErrHiddenXA):
		f.What = "the server runs XA transactions, and the account may not see which are prepared"
		f.Fix = "GRANT XA_RECOVER_ADMIN ON *.* to this account, and check again"
	case err != nil:
		return err
	case len(ids) == 0:
		return nil
	}
	p.add(f)
	return nil
}
