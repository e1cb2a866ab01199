package heartbeat

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"icehose/internal/canon/canonsql"
)

// A Definition is what there must be for a heartbeat.
type Definition struct {
	Create   string   `json:"create"`   // makes the table
	Grants   []string `json:"grants"`   // let the account of the connection string write it
	Pipeline string   `json:"pipeline"` // the table's entry in a pipeline file
}

// The columns of a table that is made by a Definition.
const (
	keyColumn  = "id"
	timeColumn = "at"
)

// defaultAccount stands where the connection string names no account.
const defaultAccount = "icehose_heartbeat"

// Define returns the definition of a table that is not there yet.
func (s *Source) Define() *Definition {
	account := s.account
	if account == "" {
		account = defaultAccount
	}
	d := &Definition{Pipeline: fmt.Sprintf("- source: %s\n  mode: mirror\n  key: [%s]\n  columns:\n    - {name: %[2]s, type: int}\n    - {name: %s, type: timestamptz}\n",
		scalar(s.Name()), keyColumn, timeColumn)}
	key, at := s.quote(keyColumn), s.quote(timeColumn)
	update := "UPDATE"
	if s.postgres() {
		update += " (" + at + ")" // MariaDB's upsert wants the right to all columns
		d.Create = fmt.Sprintf("CREATE TABLE %s (%s integer PRIMARY KEY, %s timestamptz NOT NULL)", s.place(), key, at)
		account = canonsql.QuotePostgres(account)
		d.Grants = []string{fmt.Sprintf("GRANT USAGE ON SCHEMA %s TO %s", s.quote(s.Schema), account)}
	} else {
		// With a default of its own the column gets no ON UPDATE from an old server.
		d.Create = fmt.Sprintf("CREATE TABLE %s (%s INT NOT NULL PRIMARY KEY, %s TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)) ENGINE=InnoDB", s.place(), key, at)
		account = canonsql.QuoteMySQL(account) + "@'%'"
	}
	d.Grants = append(d.Grants, fmt.Sprintf("GRANT SELECT, INSERT, %s ON %s TO %s", update, s.place(), account))
	return d
}

// plain is what YAML takes for a text without quotes. Digits and a point alone
// would be a number.
var plain = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*\.[A-Za-z0-9_]+$`)

// scalar is a text in YAML, whose quoted texts have Go's escapes.
func scalar(text string) string {
	if plain.MatchString(text) {
		return text
	}
	return strconv.Quote(text)
}

// String is the definition as SQL, with what is no SQL in comments.
func (d *Definition) String() string {
	var b strings.Builder
	b.WriteString("-- the table\n" + d.Create + ";\n")
	b.WriteString("-- for the account that writes it; the accounts of DMS and of icehose reconcile need SELECT\n")
	for _, grant := range d.Grants {
		b.WriteString(grant + ";\n")
	}
	b.WriteString("-- in the pipeline file, below tables: (icehose catalog generate then gives DMS a rule that makes the key the partition key;\n" +
		"-- without it all rows have one, and go to one shard)\n")
	for line := range strings.Lines(d.Pipeline) {
		b.WriteString("--   " + line)
	}
	return b.String()
}
