package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"icehose/catalog"
	"icehose/reconcile"
	"icehose/reconcile/dump"
	"icehose/reconcile/mysql"
	"icehose/reconcile/postgres"
)

// SourceFlags say what a lake is compared with, and what it may be asked for.
type SourceFlags struct {
	Source           string        `aliases:"dump" help:"Where the source's rows are: a connection string (postgres://, mysql:// or mariadb://; better given as ICEHOSE_DSN, since a command line is visible to others), or a directory with SCHEMA.TABLE.csv or SCHEMA.TABLE.ndjson for each table, plain, .gz or .zst." placeholder:"URL|DIR"`
	Final            bool          `help:"The dump was taken after the source's last change, and the lake has every change. Required with a dump: it has no position of its own."`
	MaxConnections   int           `default:"2" help:"Connections to a live source, at most."`
	RowsPerSecond    int           `help:"Rows that are read of a live source in a second, at most. Slices are then small enough for --statement-timeout, unless the server cannot compute a table's keys: give more time for a large one." placeholder:"N"`
	StatementTimeout time.Duration `default:"30m" help:"A statement of a live source that takes longer fails; 0: none does."`
	Stream           bool          `help:"Read rows of a live source and hash them here, although the server could digest them: less work for the server, more for the network."`
	SourceRole       string        `default:"auto" enum:"auto,primary,replica,stream" help:"What a live source is to the stream: auto believes what it says of itself; primary follows no other server, which the account may not be allowed to see; replica follows the stream's server itself, without another between them; stream: the stream is read from this server's own log, also if it follows another." placeholder:"ROLE"`
	ReplicaLag       time.Duration `help:"How far behind a standby or replica is at most, known from elsewhere: it is then not asked, and the report says that it is assumed." placeholder:"DURATION"`
}

// CheckSource refuses what makes no sense.
func (s *SourceFlags) CheckSource() error {
	if s.MaxConnections < 1 || s.RowsPerSecond < 0 || s.StatementTimeout < 0 {
		return errors.New("--max-connections, --rows-per-second and --statement-timeout: want nothing negative, and one connection at least")
	}
	if role := reconcile.Role(s.SourceRole); s.ReplicaLag < 0 || s.ReplicaLag > 0 && (role == reconcile.RolePrimary || role == reconcile.RoleStream) {
		return errors.New("--replica-lag: want a time such as 1h, of a source that follows another server")
	}
	if rows := s.StatementRows(); rows > 0 && rows < leastRows {
		return fmt.Errorf("--rows-per-second: a statement reads %d rows in half of its --statement-timeout, want %d or more: allow more rows, or more time", rows, leastRows)
	}
	return nil
}

// leastRows is what a statement must be able to read: a few buckets.
const leastRows = 1024

// StatementRows is how many rows a statement reads in half of the time that it
// has, 0 when nothing bounds one of them.
func (s *SourceFlags) StatementRows() int64 {
	return int64(float64(s.RowsPerSecond) * s.StatementTimeout.Seconds() / 2)
}

// A Reader is a source that was opened.
type Reader struct {
	reconcile.Reader
	io.Closer
	Live bool // it may change while it is read
	// Rows is how many rows may be read at one time, of all tables together, for
	// no statement to take too long; 0: any number.
	Rows  int64
	place string // server and database, or directory
}

// scheme finds the scheme of a connection string.
var scheme = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9+.-]*)://`)

// OpenSource opens the source: that of --source, else dsn. Errors quote a
// directory, and of what may be a connection string its scheme alone.
func (s *SourceFlags) OpenSource(ctx context.Context, dsn string, p *catalog.Pipeline) (Reader, error) {
	where := cmp.Or(s.Source, dsn)
	if where == "" {
		return Reader{}, errors.New("no source: give ICEHOSE_DSN or --source")
	}
	kind := ""
	if found := scheme.FindStringSubmatch(where); found != nil {
		kind = strings.ToLower(found[1])
		where = kind + where[len(kind):] // drivers want it so
	}
	switch kind {
	case "mysql", "mariadb":
		if err := s.isLive(p, catalog.MySQL, catalog.MariaDB); err != nil {
			return Reader{}, err
		}
		r, err := mysql.Open(ctx, where, mysql.Options{
			MaxConnections: s.MaxConnections, StatementTimeout: s.StatementTimeout, RowsPerSecond: s.RowsPerSecond, Stream: s.Stream,
			Role: reconcile.Role(s.SourceRole), ReplicaLag: s.ReplicaLag,
		})
		return Reader{r, r, true, s.StatementRows(), s.place(where)}, err
	case "postgres", "postgresql":
		if err := s.isLive(p, catalog.PostgreSQL); err != nil {
			return Reader{}, err
		}
		r, err := postgres.Open(ctx, where, postgres.Options{
			MaxConnections: s.MaxConnections, StatementTimeout: s.StatementTimeout, RowsPerSecond: s.RowsPerSecond, Stream: s.Stream,
			Role: reconcile.Role(s.SourceRole), ReplicaLag: s.ReplicaLag,
		})
		return Reader{r, r, true, s.StatementRows(), s.place(where)}, err
	}
	if s.Source == "" || kind != "" || (strings.Contains(where, "://") || strings.ContainsAny(where, "=@")) && !isDirectory(where) {
		return Reader{}, fmt.Errorf("the source's connection string has the scheme %q: want postgres://, mysql:// or mariadb:// (a dump's directory is given as --source)", kind)
	}
	if !s.Final {
		return Reader{}, errors.New("--final is required with a dump: it has no position, so the source must not have changed since, and the lake must have every change")
	}
	d, err := dump.Open(where, dump.Options{Final: true, Engine: p.Source.Engine})
	return Reader{d, io.NopCloser(nil), false, 0, where}, err
}

// place is a connection string without the account, and what the source is said to be.
func (s *SourceFlags) place(dsn string) string {
	u, err := url.Parse(dsn)
	if err != nil {
		return ""
	}
	at := url.Values{}
	for _, name := range []string{"host", "port", "dbname", "database"} {
		at[name] = u.Query()[name]
	}
	return fmt.Sprintf("%s://%s%s?%s as %s %s", u.Scheme, u.Host, u.Path, at.Encode(), cmp.Or(s.SourceRole, string(reconcile.RoleAuto)), s.ReplicaLag)
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// isLive checks that a connection string fits the pipeline file and the flags.
func (s *SourceFlags) isLive(p *catalog.Pipeline, engines ...catalog.Engine) error {
	if s.Final {
		return errors.New("--final is for a dump: the source is live")
	}
	if !slices.Contains(engines, p.Source.Engine) {
		return fmt.Errorf("the pipeline file's source is %s, the connection string is of another engine", p.Source.Engine)
	}
	return nil
}
