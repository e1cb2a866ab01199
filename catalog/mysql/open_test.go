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

// The name that a server's certificate must have is that of the connection string.
func TestOpenVerifies(t *testing.T) {
	t.Parallel()
	for dsn, want := range map[string][2]string{
		"mysql://u:p@db.example/d?tls=true":             {"db.example:3306", "db.example"},
		"mysql://u:p@[::1]:3307/?tls=true":              {"[::1]:3307", "::1"},
		"mariadb://u:p@db.example:3307?tls=skip-verify": {"db.example:3307", ""},
	} {
		config, err := mysql.ConfigOf(dsn)
		if err != nil {
			t.Fatal(err)
		}
		if got := [2]string{config.Addr, config.TLS.ServerName}; got != want {
			t.Errorf("%s: %q, want %q", dsn, got, want)
		}
	}
	if config, err := mysql.ConfigOf("mysql://u:p@db.example/d"); err != nil || config.TLS != nil {
		t.Errorf("without tls: %+v, %v", config, err)
	}
}
