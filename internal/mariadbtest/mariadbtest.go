// Package mariadbtest starts a private MariaDB server from the system's own
// binaries, for tests.
//
// In comes a folder; out comes a server on 127.0.0.1 with a row-format binary
// log and a user root without a password, owned by this process until Stop. It
// promises nothing about durability, and takes the server it finds in PATH or
// /usr/sbin.
package mariadbtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"icehose/catalog/mysql"
	"icehose/internal/account"
)

// ErrNoServer says that no MariaDB server binary was found.
var ErrNoServer = errors.New("no mariadbd in PATH or /usr/sbin")

// A Server is a running MariaDB.
type Server struct {
	home    string
	port    int
	command *exec.Cmd
	exited  chan struct{} // closed when the process has ended
}

// Start makes a data folder below dir, or below the system's folder for
// temporary files when dir is empty, and starts a server on it with the
// additional options. The context bounds the start only; Stop ends the server
// and removes its folder. When the process runs as root, the server runs as
// the user mysql, or nobody.
func Start(ctx context.Context, dir string, options ...string) (*Server, error) {
	binary, err := findServer()
	if err != nil {
		return nil, fmt.Errorf("start mariadb: %w", err)
	}
	home, err := os.MkdirTemp(dir, "mariadb-")
	if err != nil {
		return nil, fmt.Errorf("start mariadb: %w", err)
	}
	s := &Server{home: home, exited: make(chan struct{})}
	if err := s.start(ctx, binary, options); err != nil {
		return nil, errors.Join(fmt.Errorf("start mariadb: %w", err), s.Stop())
	}
	return s, nil
}

func findServer() (string, error) {
	for _, name := range []string{"mariadbd", "/usr/sbin/mariadbd", "/usr/libexec/mariadbd"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", ErrNoServer
}

func (s *Server) start(ctx context.Context, binary string, options []string) error {
	attributes, err := account.GiveTo("mysql", s.home)
	if err != nil {
		return err
	}
	// A starting server removes the temporary tables it finds in its temporary
	// folder, also those of another that runs there, so each has its own.
	env := append(os.Environ(), "TMPDIR="+s.home)
	data := filepath.Join(s.home, "data")
	install := exec.CommandContext(ctx, "mariadb-install-db", "--no-defaults", "--datadir="+data, "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve")
	install.SysProcAttr, install.Dir, install.Env = attributes, s.home, env
	if text, err := install.CombinedOutput(); err != nil {
		return fmt.Errorf("make data folder: %w: %s", err, reason(text))
	}
	if s.port, err = freePort(ctx); err != nil {
		return err
	}
	logPath := filepath.Join(s.home, "log")
	log, err := os.Create(logPath)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the server has its own descriptor
	args := append([]string{
		"--no-defaults", "--datadir=" + data, "--bind-address=127.0.0.1", "--port=" + strconv.Itoa(s.port),
		"--socket=" + filepath.Join(s.home, "socket"), "--pid-file=" + filepath.Join(s.home, "pid"), "--skip-name-resolve",
		"--log-bin=binlog", "--binlog-format=ROW", "--binlog-row-image=FULL", "--server-id=1", "--innodb-flush-log-at-trx-commit=0",
		"--innodb-buffer-pool-size=64M", "--performance-schema=OFF", "--character-set-server=utf8mb4", "--lc-messages-dir=/usr/share/mysql",
	}, options...)
	// Not CommandContext: the server outlives the context of its start.
	s.command = exec.Command(binary, args...) //nolint:noctx // ends with Stop
	s.command.SysProcAttr, s.command.Dir, s.command.Env = attributes, s.home, env
	s.command.Stdout, s.command.Stderr = log, log
	if err := s.command.Start(); err != nil {
		s.command = nil
		return err
	}
	go func(command *exec.Cmd) {
		// How it ends does not matter: it is asked to, or its log has the reason.
		_ = command.Wait()
		close(s.exited)
	}(s.command)
	if err := s.waitReady(ctx); err != nil {
		text, readErr := os.ReadFile(logPath)
		return errors.Join(fmt.Errorf("%w: %s", err, reason(text)), readErr)
	}
	return nil
}

func (s *Server) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	db, err := mysql.Open(s.DSN(""))
	if err != nil {
		return err
	}
	defer db.Close() //nolint:errcheck // it has no connection worth a word
	for {
		// A port that is not open yet would be asked for in vain by the driver, and logged.
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", s.port))
		if err == nil {
			if err = errors.Join(conn.Close(), db.PingContext(ctx)); err == nil {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for server: %w", err)
		case <-s.exited:
			return errors.New("wait for server: it exited")
		case <-time.After(30 * time.Millisecond):
		}
	}
}

// DSN returns the connection string of a database; the name may be empty.
func (s *Server) DSN(database string) string {
	return fmt.Sprintf("mariadb://root@127.0.0.1:%d/%s", s.port, database)
}

// Port returns the port that the server listens on.
func (s *Server) Port() int { return s.port }

// Stop ends the server, waits for it and removes its folder. A second Stop
// does nothing.
func (s *Server) Stop() error {
	return errors.Join(s.end(), os.RemoveAll(s.home))
}

// endsWithin is how long a server may take to end before it is killed.
const endsWithin = 2 * time.Minute

func (s *Server) end() error {
	if s.command == nil {
		return nil
	}
	process := s.command.Process
	s.command = nil
	if err := process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop mariadb: %w", err)
	}
	select {
	case <-s.exited:
		return nil
	case <-time.After(endsWithin):
		err := process.Kill()
		<-s.exited
		return errors.Join(fmt.Errorf("stop mariadb: it did not end within %s and was killed", endsWithin), err)
	}
}

func freePort(ctx context.Context) (int, error) {
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find free port: %w", err)
	}
	_, text, err := net.SplitHostPort(l.Addr().String())
	if err := errors.Join(err, l.Close()); err != nil {
		return 0, fmt.Errorf("find free port: %w", err)
	}
	return strconv.Atoi(text)
}

// reason returns the lines that say what went wrong; without any, the last line.
func reason(text []byte) string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	said := slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return !strings.Contains(line, "ERROR") })
	if len(said) == 0 {
		return lines[len(lines)-1]
	}
	return strings.Join(said, "; ")
}
