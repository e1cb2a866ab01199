package mysql_test

import (
	"strings"
	"testing"

	"icehose/catalog/mysql"
)

func TestOpenRefuses(t *testing.T) {
	for dsn, want := range map[string]string{
		"postgres://u:secret@h/d":       "want mysql:// or mariadb://, got postgres://",
		"mysql://u:sec%zzret@h/d":       "not a URL",
		"mysql://u:secret@h/d?nosuch=%": "open mysql",
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
