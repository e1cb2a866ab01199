package heartbeat

import "context"

// PostgresUpsert and the others are the statements of a writer.
var (
	PostgresUpsert    = postgresUpsert
	PostgresStrangers = postgresStrangers
	PostgresSession   = postgresSession
	MySQLUpsert       = mysqlUpsert
	MySQLStrangers    = mysqlStrangers
	MySQLSession      = mysqlSession
)

// A Fake stands for a server: each function answers one step.
type Fake struct {
	Dial, Check, Beat func() error
	Final             func(error) bool
	Closed            int
}

type fakeConn struct{ *Fake }

func (c fakeConn) check(context.Context) error { return c.Check() }
func (c fakeConn) beat(context.Context) error  { return c.Beat() }
func (c fakeConn) close(context.Context)       { c.Closed++ }

// Refuse is the refusal of a table.
func (s *Source) Refuse(text string) error { return s.refuse("%s", text) }

// RunWith is Run on a server that is made up.
func RunWith(ctx context.Context, s *Source, o Options, f *Fake) (Result, error) {
	w := &writer{source: s, options: &o, result: Result{Table: s.Name(), Rows: o.Rows}, backend: backend{
		dial:  func(context.Context, *Source, *Options) (connection, error) { return fakeConn{f}, f.Dial() },
		final: f.Final,
	}}
	return w.run(ctx)
}
