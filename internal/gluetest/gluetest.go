// Package gluetest is AWS for tests: as much of Glue's Data Catalog as Iceberg
// tables need, over HTTP, and an S3 in memory (gofakes3).
package gluetest

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// A Cloud is a running Glue and S3.
type Cloud struct {
	GlueURL, S3URL string
	Warehouse      string // a URI in a bucket that is there
	// Glue and S3 answer requests; a test may stand before them.
	Glue, S3 http.Handler
	age      atomic.Int64
}

// Age makes what is written to S3 from now on look as old as d.
func (c *Cloud) Age(d time.Duration) { c.age.Store(int64(d)) }

// Now implements gofakes3.TimeSource.
func (c *Cloud) Now() time.Time { return time.Now().Add(-time.Duration(c.age.Load())) } //nolint:forbidigo // of a server

// Since implements gofakes3.TimeSource.
func (c *Cloud) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// Start starts both for the time of a test.
func Start(t testing.TB) *Cloud {
	t.Helper()
	c := &Cloud{
		Warehouse: "s3://lake/wh",
		Glue:      &server{databases: map[string]any{}, tables: map[string]map[string]any{}, versions: map[string]int{}},
	}
	backend := s3mem.New(s3mem.WithTimeSource(c))
	if err := backend.CreateBucket("lake"); err != nil {
		t.Fatal(err)
	}
	c.S3 = gofakes3.New(backend).Server()
	serve := func(handler *http.Handler) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*handler).ServeHTTP(w, r) }))
		t.Cleanup(s.Close)
		return s.URL
	}
	c.GlueURL, c.S3URL = serve(&c.Glue), serve(&c.S3)
	return c
}

// Properties are what iceberg-go has to know of the two.
func (c *Cloud) Properties() map[string]string {
	return map[string]string{
		"glue.region": "us-east-1", "glue.access-key-id": "x", "glue.secret-access-key": "y",
		"s3.endpoint": c.S3URL, "s3.region": "us-east-1", "s3.access-key-id": "x", "s3.secret-access-key": "y",
	}
}

// A server is Glue's Data Catalog over HTTP: JSON 1.1 with the operation in a
// header, optimistic locks by VersionId, errors by name.
type server struct {
	mu        sync.Mutex
	databases map[string]any
	tables    map[string]map[string]any // "database/table" -> TableInput
	versions  map[string]int
}

func (f *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var in struct {
		Name, DatabaseName string
		VersionID          string `json:"VersionId"`
		DatabaseInput      map[string]any
		TableInput         map[string]any
	}
	err := json.NewDecoder(r.Body).Decode(&in)
	var out map[string]any
	problem := ""
	if err == nil {
		out, problem = f.answer(strings.TrimPrefix(r.Header.Get("X-Amz-Target"), "AWSGlue."), in.Name, in.DatabaseName, in.VersionID, in.DatabaseInput, in.TableInput)
	} else {
		problem = "SerializationException"
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	if problem != "" {
		w.Header().Set("X-Amzn-Errortype", problem)
		w.WriteHeader(http.StatusBadRequest)
		out = map[string]any{"__type": problem, "Message": "no"}
	}
	_ = json.NewEncoder(w).Encode(out)
}

func (f *server) answer(operation, name, database, version string, db, input map[string]any) (out map[string]any, problem string) {
	tableName, _ := input["Name"].(string)
	key := database + "/" + tableName
	if name != "" {
		key = database + "/" + name
	}
	switch operation {
	case "CreateDatabase":
		id, _ := db["Name"].(string)
		if f.databases[id] != nil {
			return nil, "AlreadyExistsException"
		}
		f.databases[id] = db
	case "GetDatabase":
		if f.databases[name] == nil {
			return nil, "EntityNotFoundException"
		}
		return map[string]any{"Database": f.databases[name]}, ""
	case "CreateTable":
		if f.tables[key] != nil {
			return nil, "AlreadyExistsException"
		}
		f.tables[key] = input
	case "GetTable":
		if f.tables[key] == nil {
			return nil, "EntityNotFoundException"
		}
		answer := maps.Clone(f.tables[key])
		answer["DatabaseName"], answer["VersionId"] = database, strconv.Itoa(f.versions[key])
		return map[string]any{"Table": answer}, ""
	case "UpdateTable":
		if version != strconv.Itoa(f.versions[key]) {
			return nil, "ConcurrentModificationException"
		}
		f.tables[key] = input
		f.versions[key]++
	default:
		return nil, "UnknownOperationException"
	}
	return map[string]any{}, ""
}
