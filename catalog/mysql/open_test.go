package mysql_test

import (
	"strings"
	"testing"

	"icehose/catalog/mysql"
)

func TestOpenRefuses(t *testing.T) {
	for dsn, want := range map[string]string{
		"postgres://u:secret@h/d":                                    "want mysql:// or mariadb://, got postgres://",
		"mysql://u:sec%zzret@h/d":                                    "not a URL",
		"mysql://u:secret@h/d?nosuch=%":                              "open mysql",
		"mysql://u:secret@h/d?sql_mode=%27secret%27":                 "parameter sql_mode sets a variable of the session",
		"mysql://u:secret@h/d?tls=true&time_zone=%27%2B02%3A00%27":   "parameter time_zone",
		"mysql://u:secret@h/d?sql_select_limit=1":                    "parameter sql_select_limit",
		"mysql://u:secret@h/d?SQL_MODE=%27%27&max_execution_time=10": "parameter SQL_MODE",
	} {
		db, err := mysql.Open(dsn)
		if err == nil {
			t.Errorf("%s: opened %v", want, db)
			continue
		}
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("got %v, want %q and no password", err, want)
		}
	}
}
