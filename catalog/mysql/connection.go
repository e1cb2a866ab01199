package mysql

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	driver "github.com/go-sql-driver/mysql"
)

// settle takes from a connection string what would change values on their way:
// zero dates into those of the year 1 (parseTime), characters into question
// marks (charset), and names of columns. It refuses variables of the session
// but its limits of time: the reader sets those that matter, and another may
// leave out rows (sql_select_limit) or change texts (sql_mode, time_zone).
func settle(c *driver.Config) error {
	for _, name := range slices.Sorted(maps.Keys(c.Params)) {
		switch variable := strings.ToLower(name); {
		case strings.HasSuffix(variable, "_timeout"), variable == "max_execution_time", variable == "max_statement_time":
		default:
			return fmt.Errorf("parameter %s sets a variable of the session, which may change what is read: leave it out", name)
		}
	}
	if c.Params == nil {
		c.Params = make(map[string]string)
	}
	c.Params["sql_select_limit"] = "18446744073709551615" // the server may have one for everybody
	c.ParseTime, c.ColumnsWithAlias, c.ClientFoundRows = false, false, false
	c.Loc = time.UTC
	// The protocol for statements with arguments has other texts than that without.
	c.InterpolateParams, c.MaxAllowedPacket = true, driver.NewConfig().MaxAllowedPacket
	return c.Apply(driver.Charset("utf8mb4", ""), driver.TimeTruncate(0))
}

// WithoutValues replaces an error of the server whose message quotes a value.
func WithoutValues(err error) error {
	if e, ok := errors.AsType[*driver.MySQLError](err); ok {
		switch e.Number {
		case 1264, 1265, 1292, 1300, 1366, 1406, 1525:
			return fmt.Errorf("the server refuses a value (error %d)", e.Number)
		}
	}
	return err
}
