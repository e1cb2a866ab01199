// Package pgtest starts a private PostgreSQL server from the system's own
// binaries, for tests and for recording fixtures.
//
// In comes a folder; out comes a server on 127.0.0.1 with
// wal_level=logical, a C locale and trust authentication, owned by this
// process until Stop. It promises nothing about durability (fsync is off) and
// nothing about versions: it takes the newest server it finds, 15 or later.
package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"icehose/internal/account"
)

// ErrNoServer says that no PostgreSQL server binaries were found.
var ErrNoServer = errors.New("no PostgreSQL 15 or later in PATH or /usr/lib/postgresql")

// A Server is a running PostgreSQL.
type Server struct {
	bin     string
	home    string
	port    int
	command *exec.Cmd
	exited  chan struct{} // closed when the process has ended

	databases atomic.Int64 // that NewDatabase has made
}

// Start makes a database cluster in a new folder below dir, or below the
// system's folder for temporary files when dir is empty, and starts a server
// on it. The context bounds the start only; Stop ends the server and removes
// its folder. When the process runs as root, the server runs as the user
// postgres, or nobody, who must be able to reach dir.
func Start(ctx context.Context, dir string) (*Server, error) {
	bin, err := findBinaries(ctx)
	if err != nil {
		return nil, fmt.Errorf("start postgresql: %w", err)
	}
	return start(ctx, bin, dir, nil, "initdb", "--username", "postgres", "--auth", "trust", "--locale", "C", "--encoding", "UTF8", "--no-sync")
}

// Standby starts a server that follows s by streaming and may be read, with
// settings of its own, each NAME=VALUE. It is stopped before s.
func (s *Server) Standby(ctx context.Context, settings ...string) (*Server, error) {
	return start(ctx, s.bin, filepath.Dir(s.home), settings, "pg_basebackup", "--dbname", s.DSN(), "--write-recovery-conf", "--checkpoint", "fast", "--no-sync")
}

// start makes a cluster with a program of PostgreSQL, and a server on it.
func start(ctx context.Context, bin, dir string, settings []string, program string, args ...string) (*Server, error) {
	home, err := os.MkdirTemp(dir, "postgresql-")
	if err != nil {
		return nil, fmt.Errorf("start postgresql: %w", err)
	}
	s, err := startIn(ctx, bin, home, settings, program, args)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start postgresql: %w", err), os.RemoveAll(home))
	}
	return s, nil
}

func startIn(ctx context.Context, bin, home string, settings []string, program string, args []string) (*Server, error) {
	attributes, err := account.GiveTo("postgres", home)
	if err != nil {
		return nil, err
	}
	maker := exec.CommandContext(ctx, filepath.Join(bin, program), append(args, "--pgdata", filepath.Join(home, "data"))...)
	maker.SysProcAttr, maker.Dir = attributes, home
	if text, err := maker.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("make database cluster: %w: %s", err, lastLine(text))
	}
	// A free port can be taken between looking and listening.
	for range 3 {
		s := &Server{bin: bin, home: home, exited: make(chan struct{})}
		if err = s.launch(ctx, home, attributes, settings); err == nil {
			return s, nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, err
}

func (s *Server) launch(ctx context.Context, home string, attributes *syscall.SysProcAttr, settings []string) error {
	port, err := freePort(ctx)
	if err != nil {
		return err
	}
	s.port = port
	logPath := filepath.Join(home, "log")
	log, err := os.Create(logPath)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the server has its own descriptor
	args := []string{"-D", filepath.Join(home, "data"), "-p", strconv.Itoa(port)}
	for _, setting := range append([]string{
		"listen_addresses=127.0.0.1", "unix_socket_directories=", "wal_level=logical", "max_wal_senders=10", "max_replication_slots=10",
		"fsync=off", "shared_buffers=64MB", "autovacuum=off", "max_connections=60", "wal_sender_timeout=0",
	}, settings...) {
		args = append(args, "-c", setting)
	}
	// Not CommandContext: the server outlives the context of its start.
	s.command = exec.Command(filepath.Join(s.bin, "postgres"), args...) //nolint:noctx // ends with Stop
	s.command.SysProcAttr, s.command.Dir = attributes, home
	s.command.Stdout, s.command.Stderr = log, log
	if err := s.command.Start(); err != nil {
		return err
	}
	go func(command *exec.Cmd) {
		// How it ends does not matter: it is asked to, or its log has the reason.
		_ = command.Wait()
		close(s.exited)
	}(s.command)
	if err := s.waitReady(ctx); err != nil {
		text, readErr := os.ReadFile(logPath)
		return errors.Join(fmt.Errorf("%w: %s", err, lastLine(text)), readErr, s.end())
	}
	return nil
}

func (s *Server) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, s.DSN())
		if err == nil {
			return conn.Close(ctx)
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

// DSN returns the connection string of the database "postgres".
func (s *Server) DSN() string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", s.port)
}

// Program returns the path of a client program that belongs to the server,
// such as pg_dump.
func (s *Server) Program(name string) string { return filepath.Join(s.bin, name) }

// Stop ends the server, waits for it and removes its folder. A second Stop
// does nothing.
func (s *Server) Stop() error {
	return errors.Join(s.end(), os.RemoveAll(s.home))
}

// endsWithin is how long a server may take to end before it is killed.
const endsWithin = 2 * time.Minute

func (s *Server) end() error {
	if s.command == nil || s.command.Process == nil {
		return nil
	}
	process := s.command.Process
	s.command = nil
	// The interrupt asks PostgreSQL for a fast shutdown.
	if err := process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop postgresql: %w", err)
	}
	select {
	case <-s.exited:
		return nil
	case <-time.After(endsWithin):
		err := process.Kill()
		<-s.exited
		return errors.Join(fmt.Errorf("stop postgresql: it did not end within %s and was killed", endsWithin), err)
	}
}

// findBinaries returns the folder of the newest server, following links, so
// that the client programs beside it are of the same version.
func findBinaries(ctx context.Context) (string, error) {
	var folders []string
	if path, err := exec.LookPath("postgres"); err == nil {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			folders = append(folders, filepath.Dir(real))
		}
	}
	installed, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return "", err
	}
	sort.Slice(installed, func(i, j int) bool { return versionOf(installed[i]) > versionOf(installed[j]) })
	for _, folder := range append(folders, installed...) {
		text, err := exec.CommandContext(ctx, filepath.Join(folder, "postgres"), "--version").Output()
		if err != nil {
			continue
		}
		fields := strings.Fields(string(text)) // postgres (PostgreSQL) 15.14 (...)
		if len(fields) < 3 {
			continue
		}
		major, _, _ := strings.Cut(fields[2], ".")
		if n, err := strconv.Atoi(major); err == nil && n >= 15 {
			return folder, nil
		}
	}
	return "", ErrNoServer
}

// versionOf reads 15 from /usr/lib/postgresql/15/bin; 0 if it is no number.
func versionOf(folder string) int {
	n, err := strconv.Atoi(filepath.Base(filepath.Dir(folder)))
	if err != nil {
		return 0
	}
	return n
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

func lastLine(text []byte) string {
	text = bytes.TrimSpace(text)
	return string(text[bytes.LastIndexByte(text, '\n')+1:])
}
