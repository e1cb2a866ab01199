package iceberg_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"
	icecatalog "github.com/apache/iceberg-go/catalog"
	sqlcat "github.com/apache/iceberg-go/catalog/sql"
	"github.com/apache/iceberg-go/table"
	_ "modernc.org/sqlite" // the driver called sqlite

	lake "icehose/catalog/iceberg"
	"icehose/catalog/iceberg/remote"
	"icehose/internal/gluetest"
)

// openSQL opens the SQL catalog in a folder.
func openSQL(t *testing.T, dir string) *sqlcat.Catalog {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "catalog.db")+"?_pragma=busy_timeout(10000)&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	c, err := sqlcat.NewCatalog("test", db, sqlcat.SQLite, iceberg.Properties{"init_catalog_tables": "true"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// An opener opens one catalog, each time as another client of it.
type opener func() *lake.Lake

func sqlite(t *testing.T) opener {
	dir := t.TempDir()
	return func() *lake.Lake { return &lake.Lake{Tables: openSQL(t, dir), Location: "file://" + dir} }
}

// glue starts a server that speaks as much of Glue as iceberg-go needs, and one
// for S3.
func glue(t *testing.T) opener {
	t.Helper()
	cloud := gluetest.Start(t)
	return func() *lake.Lake {
		l, err := remote.Open(t.Context(), remote.Options{Kind: remote.Glue, URI: cloud.GlueURL, Warehouse: cloud.Warehouse, Properties: cloud.Properties()})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
}

// rest starts a server that speaks as much of Iceberg's REST protocol as
// iceberg-go needs, over a SQL catalog.
func rest(t *testing.T) opener {
	t.Helper()
	dir := t.TempDir()
	server := httptest.NewServer(&fakeREST{catalog: openSQL(t, dir), dir: dir})
	t.Cleanup(server.Close)
	return func() *lake.Lake {
		l, err := remote.Open(t.Context(), remote.Options{Kind: remote.REST, URI: server.URL, Warehouse: "demo"})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
}

type fakeREST struct {
	catalog *sqlcat.Catalog
	dir     string
}

func (f *fakeREST) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	out, err := f.answer(r.Context(), r.Method, parts, r)
	w.Header().Set("Content-Type", "application/json")
	switch {
	case errors.Is(err, icecatalog.ErrNoSuchNamespace), errors.Is(err, icecatalog.ErrNoSuchTable):
		w.WriteHeader(http.StatusNotFound)
	case errors.Is(err, icecatalog.ErrTableAlreadyExists), errors.Is(err, icecatalog.ErrNamespaceAlreadyExists), errors.Is(err, table.ErrCommitFailed),
		err != nil && strings.Contains(err.Error(), "requirement failed"):
		w.WriteHeader(http.StatusConflict)
	case err != nil:
		w.WriteHeader(http.StatusBadRequest)
	}
	if err != nil {
		out = map[string]any{"error": map[string]any{"message": err.Error(), "type": "Exception", "code": 400}}
	}
	if out != nil {
		_ = json.NewEncoder(w).Encode(out)
	}
}

func (f *fakeREST) answer(ctx context.Context, method string, parts []string, r *http.Request) (any, error) {
	loaded := func(t *table.Table, err error) (any, error) {
		if err != nil {
			return nil, err
		}
		return map[string]any{"metadata-location": t.MetadataLocation(), "metadata": t.Metadata()}, nil
	}
	switch route := method + " " + strconv.Itoa(len(parts)) + " " + parts[len(parts)-1]; {
	case route == "GET 2 config":
		return map[string]any{"defaults": map[string]any{}, "overrides": map[string]any{}}, nil
	case route == "POST 2 namespaces":
		var in struct{ Namespace []string }
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			return nil, err
		}
		return map[string]any{"namespace": in.Namespace}, f.catalog.CreateNamespace(ctx, in.Namespace, nil)
	case len(parts) == 3 && (method == http.MethodGet || method == http.MethodHead):
		exists, err := f.catalog.CheckNamespaceExists(ctx, parts[2:3])
		if err == nil && !exists {
			err = icecatalog.ErrNoSuchNamespace
		}
		return map[string]any{"namespace": parts[2:3]}, err
	case method == http.MethodPost && len(parts) == 4:
		var in struct {
			Name       string
			Schema     *iceberg.Schema
			Properties iceberg.Properties
			Spec       *iceberg.PartitionSpec `json:"partition-spec"`
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			return nil, err
		}
		return loaded(f.catalog.CreateTable(ctx, icecatalog.ToIdentifier(parts[2], in.Name), in.Schema,
			icecatalog.WithLocation("file://"+filepath.Join(f.dir, parts[2], in.Name)), icecatalog.WithProperties(in.Properties), icecatalog.WithPartitionSpec(in.Spec)))
	case method == http.MethodGet && len(parts) == 5:
		return loaded(f.catalog.LoadTable(ctx, icecatalog.ToIdentifier(parts[2], parts[4])))
	case method == http.MethodPost && len(parts) == 5:
		var in struct {
			Requirements table.Requirements
			Updates      table.Updates
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			return nil, err
		}
		metadata, location, err := f.catalog.CommitTable(ctx, icecatalog.ToIdentifier(parts[2], parts[4]), in.Requirements, in.Updates)
		return map[string]any{"metadata-location": location, "metadata": metadata}, err
	}
	return nil, fmt.Errorf("no route %s %v", method, parts)
}
