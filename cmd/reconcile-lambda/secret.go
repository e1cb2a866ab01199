package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"

	"icehose/catalog"
)

// secretGetter is what is used of the client of Secrets Manager.
type secretGetter interface {
	GetSecretValue(ctx context.Context, in *secretsmanager.GetSecretValueInput, options ...func(*secretsmanager.Options)) (*secretsmanager.GetSecretValueOutput, error)
}

// connection returns the source's connection string: that of the secret, which
// is read for each run, so that it may be rotated.
func (f *function) connection(ctx context.Context) (string, error) {
	s := f.settings
	if s.SourceSecret == "" {
		return s.dsn, nil
	}
	out, err := f.secrets.GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: &s.SourceSecret})
	if err != nil {
		return "", fmt.Errorf("read secret: %w", err)
	}
	dsn, err := connectionString(aws.ToString(out.SecretString), f.pipeline.Source.Engine, s.SourceDatabase, s.SourceTLS)
	if err != nil {
		return "", fmt.Errorf("read secret %s: %w", s.SourceSecret, err)
	}
	return dsn, nil
}

// connectionString makes one of a secret as RDS and DMS have it. No error
// quotes the secret.
func connectionString(text string, engine catalog.Engine, database, tls string) (string, error) {
	if strings.Contains(text, "://") && !strings.HasPrefix(strings.TrimSpace(text), "{") {
		return strings.TrimSpace(text), nil
	}
	var secret struct {
		Host     string          `json:"host"`
		Port     json.RawMessage `json:"port"` // a number or its text
		Username string          `json:"username"`
		Password string          `json:"password"`
		Database string          `json:"dbname"`
	}
	if json.Unmarshal([]byte(text), &secret) != nil || secret.Host == "" || secret.Username == "" {
		return "", errors.New("want a connection string, or JSON with host, port, username and password")
	}
	u := url.URL{Host: secret.Host, User: url.UserPassword(secret.Username, secret.Password), Path: "/"}
	port := ""
	switch engine {
	case catalog.PostgreSQL:
		if database = cmp.Or(database, secret.Database); database == "" {
			return "", errors.New("no dbname in it: give --source-database")
		}
		u.Path += database
		u.Scheme, port, u.RawQuery = "postgres", "5432", "sslmode="+tls
	case catalog.MySQL, catalog.MariaDB: // a table is named with its schema, so no database is chosen
		mode := map[string]string{"require": "skip-verify", "verify-full": "true", "disable": "false"}[tls]
		u.Scheme, port, u.RawQuery = "mysql", "3306", "tls="+mode
	case catalog.Oracle, catalog.SQLServer, catalog.DMS:
		return "", fmt.Errorf("a live source is PostgreSQL, MySQL or MariaDB; the pipeline file's is %s", engine)
	default:
		return "", fmt.Errorf("no engine %q", engine)
	}
	if given := strings.Trim(string(secret.Port), `"`); given != "" && given != "null" {
		if n, err := strconv.ParseUint(given, 10, 16); err != nil || n == 0 {
			return "", errors.New("its port is none")
		}
		port = given
	}
	u.Host = net.JoinHostPort(secret.Host, port)
	return u.String(), nil
}
