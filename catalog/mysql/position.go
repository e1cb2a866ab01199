package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"icehose/cdc"
)

// Position returns where the server's binary log ends, as the body of a
// position, and the server's time. Whatever was committed before the call has
// a lower body; whatever commits after it the same or a higher one.
func Position(ctx context.Context, db *sql.DB) (cdc.Body, time.Time, error) {
	body, now, err := position(ctx, db)
	if err != nil {
		return cdc.Body{}, time.Time{}, fmt.Errorf("read position of mysql: %w", err)
	}
	return body, now, nil
}

func position(ctx context.Context, db *sql.DB) (cdc.Body, time.Time, error) {
	file, offset, err := logEnd(ctx, db, "SHOW MASTER STATUS")
	if err != nil { // MySQL 8.4 has another name for it
		var again error
		if file, offset, again = logEnd(ctx, db, "SHOW BINARY LOG STATUS"); again != nil {
			return cdc.Body{}, time.Time{}, err
		}
	}
	_, number, ok := cutLast(file, '.')
	n, err := strconv.ParseUint(number, 10, 32)
	if !ok || err != nil || offset >= 1<<32 {
		return cdc.Body{}, time.Time{}, fmt.Errorf("the server calls it %s:%d, which is no file number and offset", file, offset)
	}
	var micros int64 // of no zone: an hour that a zone has twice would have two
	if err := db.QueryRowContext(ctx, "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))").Scan(&micros); err != nil {
		return cdc.Body{}, time.Time{}, err
	}
	return cdc.Body{Lo: n<<32 | offset}, time.UnixMicro(micros).UTC(), nil
}

// logEnd reads the first two columns of a statement whose others depend on the version.
func logEnd(ctx context.Context, db *sql.DB, statement string) (file string, offset uint64, err error) {
	rows, err := db.QueryContext(ctx, statement)
	if err != nil {
		return "", 0, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	columns, err := rows.Columns()
	if err != nil {
		return "", 0, err
	}
	if !rows.Next() {
		return "", 0, errors.Join(errors.New("the server writes no binary log"), rows.Err())
	}
	into := []any{&file, &offset}
	for range len(columns) - len(into) {
		into = append(into, new(sql.RawBytes))
	}
	return file, offset, rows.Scan(into...)
}

func cutLast(s string, separator byte) (before, after string, found bool) {
	if i := strings.LastIndexByte(s, separator); i >= 0 {
		return s[:i], s[i+1:], true
	}
	return s, "", false
}
