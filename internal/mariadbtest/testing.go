package mariadbtest

import "testing"

// New starts a server, with more options of mariadbd, that ends with the test.
func New(tb testing.TB, options ...string) *Server {
	tb.Helper()
	s, err := Start(tb.Context(), "", options...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Stop(); err != nil {
			tb.Error(err)
		}
	})
	return s
}
