package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"

	"icehose/catalog"
	"icehose/catalog/ddl"
	"icehose/catalog/dmscontrol"
	"icehose/catalog/mysql"
	"icehose/catalog/postgres"
	"icehose/cdc/kinesis"
)

// sourceFlags say where a source schema is read from.
type sourceFlags struct {
	DSN    string `name:"dsn" xor:"source" help:"Connection string of a live source: postgres://, mysql:// or mariadb://. Better given as ICEHOSE_DSN: a command line is visible to others." placeholder:"URL"`
	Dump   string `xor:"source" help:"A schema dump: of pg_dump --schema-only or mysqldump --no-data." placeholder:"FILE"`
	Events string `xor:"source" help:"A file of stream records whose control records define the tables." placeholder:"FILE"`
	Engine string `enum:",postgresql,mysql,mariadb,oracle,sqlserver" default:"" help:"The source's engine, where --dump or --events do not tell it: postgresql, mysql, mariadb, oracle or sqlserver." placeholder:"ENGINE"`
}

// read reads the schema. The pipeline file's engine, if there is one, is that of
// records and dumps that do not tell.
func (f *sourceFlags) read(ctx context.Context, env *environment, known catalog.Engine) (*catalog.SourceSchema, error) {
	engine := catalog.Engine(f.Engine)
	switch {
	case f.Dump != "":
		text, err := os.ReadFile(f.Dump)
		if err != nil {
			return nil, fmt.Errorf("read schema dump: %w", err)
		}
		if engine == "" && ddl.EngineOf(text) == "" {
			engine = known
		}
		return ddl.Read(f.Dump, text, engine)
	case f.Events != "":
		if engine == "" {
			engine = known
		}
		if engine == "" {
			return nil, errors.New("records do not tell the source's engine: give --engine")
		}
		file, err := kinesis.Open(f.Events)
		if err != nil {
			return nil, err
		}
		s, err := dmscontrol.Read(engine, kinesis.Read(file))
		if err = errors.Join(err, file.Close()); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Events, err)
		}
		return s, nil
	}
	dsn, err := dsnOf(env, f.DSN, "--dump", "--events")
	if err != nil {
		return nil, err
	}
	return readLive(ctx, dsn)
}

func readLive(ctx context.Context, dsn string) (*catalog.SourceSchema, error) {
	if isMySQL(dsn) {
		db, err := mysql.Open(dsn)
		if err != nil {
			return nil, err
		}
		s, err := mysql.Read(ctx, db)
		return s, errors.Join(err, db.Close())
	}
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return nil, fmt.Errorf("connect to source: %w", err)
	}
	s, err := postgres.Read(ctx, conn)
	return s, errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
}

// dsnOf returns the connection string of a live source: that of the flag, else
// of the environment. instead are the flags that would do without.
func dsnOf(env *environment, flag string, instead ...string) (string, error) {
	dsn := cmp.Or(flag, env.getenv("ICEHOSE_DSN"))
	if dsn == "" {
		ways := append([]string{"ICEHOSE_DSN", "--dsn"}, instead...)
		last := len(ways) - 1
		return "", fmt.Errorf("no source: give %s or %s", strings.Join(ways[:last], ", "), ways[last])
	}
	scheme, _, ok := strings.Cut(dsn, "://")
	if ok && !isMySQL(dsn) && scheme != "postgres" && scheme != "postgresql" {
		return "", fmt.Errorf("no source: want postgres://, mysql:// or mariadb://, got %s://: no other engine is read live", scheme)
	}
	return dsn, nil
}

func isMySQL(dsn string) bool {
	return strings.HasPrefix(dsn, "mysql://") || strings.HasPrefix(dsn, "mariadb://")
}
