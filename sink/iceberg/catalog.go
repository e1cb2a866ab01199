package iceberg

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/apache/iceberg-go"
	icecatalog "github.com/apache/iceberg-go/catalog"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/io/gocloud/s3" // registers s3
	"github.com/apache/iceberg-go/table"
	"github.com/apache/iceberg-go/utils"
	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	s3client "github.com/aws/aws-sdk-go-v2/service/s3"
)

// A lakeCatalog is a catalog with one correction: a commit whose requirements no
// longer hold is reported as table.ErrCommitFailed, as the race for the
// catalog's row is, and not as an error of unknown outcome. The SQL and Glue
// catalogs of iceberg-go 0.7 do the latter. All that it writes to the local
// file system goes through the disk, and all that is in S3 through the buckets.
type lakeCatalog struct {
	icecatalog.Catalog
	disk    *disk
	buckets buckets
	bases   bases
	folder  string                                                // of a lake in a folder, whose tables are below it
	locate  func(ctx context.Context, id table.Identifier) string // where the metadata of a table is, for errors; nil where the catalog reads it itself
}

// with returns a context in which the library uses the disk and the buckets.
func (c *lakeCatalog) with(ctx context.Context) context.Context {
	return c.buckets.with(c.disk.with(ctx))
}

// CreateTable creates a table whose metadata is on the disk.
func (c *lakeCatalog) CreateTable(ctx context.Context, id table.Identifier, schema *iceberg.Schema, options ...icecatalog.CreateTableOpt) (
	*table.Table, error,
) {
	if _, err := c.Catalog.CreateTable(c.with(ctx), id, schema, options...); err != nil {
		return nil, err
	}
	return c.LoadTable(ctx, id)
}

// LoadTable returns a table that commits through c.
func (c *lakeCatalog) LoadTable(ctx context.Context, id table.Identifier) (*table.Table, error) {
	t, err := c.Catalog.LoadTable(c.buckets.with(ctx), id)
	if err != nil {
		return nil, c.unreadable(ctx, id, checkMoved(c.folder, id, err))
	}
	if err := checkCopied(c.folder, t.Location()); err != nil {
		return nil, err
	}
	files := func(ctx context.Context) (iceio.IO, error) { return t.FS(c.buckets.with(ctx)) }
	if isLocal(t.Location()) {
		files = func(context.Context) (iceio.IO, error) { return c.disk, nil }
	}
	loaded := table.New(t.Identifier(), t.Metadata(), t.MetadataLocation(), files, nil)
	return table.New(t.Identifier(), t.Metadata(), t.MetadataLocation(), files, &committer{lakeCatalog: c, base: loaded}), nil
}

// CommitTable implements table.CatalogIO. What it names is on the disk before.
func (c *lakeCatalog) CommitTable(ctx context.Context, id table.Identifier, requirements []table.Requirement, updates []table.Update) (
	table.Metadata, string, error,
) {
	if err := c.disk.settle(updates); err != nil {
		return nil, "", err
	}
	metadata, location, err := c.Catalog.CommitTable(c.with(ctx), id, requirements, updates)
	if err != nil && strings.Contains(strings.ToLower(err.Error()), "requirement failed") {
		err = fmt.Errorf("%w: %w", table.ErrCommitFailed, err)
	}
	return metadata, location, err
}

// The buckets are how a store reaches S3: over connections, and with
// credentials, that all its file systems share. The library opens a file system
// for each call, and left to itself gives each of them its own.
type buckets struct {
	mu      sync.Mutex
	configs map[bucketSettings]*aws.Config
}

// The bucketSettings are the properties that a configuration depends on. Keys
// are not among them: the library puts them into each file system, so that
// those which a server hands out for one table are shared with no other.
type bucketSettings struct {
	region, clientRegion, proxy, timeout, signing string
	keys                                          bool // are given
}

// A bucketsKey is the key of a context's *buckets.
type bucketsKey struct{}

// with returns a context in which the library reaches S3 through b.
func (b *buckets) with(ctx context.Context) context.Context {
	return context.WithValue(ctx, bucketsKey{}, b)
}

// useBuckets lets the library reach S3 through the buckets that a call's
// context holds. It must replace the schemes: the Glue catalog reads a table's
// metadata with a configuration of its own. Without buckets in the context
// nothing changes.
//
//nolint:gochecknoglobals // guards a registry that the library has once for a process
var useBuckets = sync.OnceFunc(func() {
	for _, scheme := range []string{"s3", "s3a"} {
		iceio.Unregister(scheme)
		iceio.Register(scheme, openBucket)
	}
})

func openBucket(ctx context.Context, place *url.URL, properties map[string]string) (iceio.IO, error) {
	if b, ok := ctx.Value(bucketsKey{}).(*buckets); ok {
		config, err := b.config(ctx, properties)
		if err != nil {
			return nil, fmt.Errorf("open bucket: %w", err)
		}
		if given := utils.GetAwsConfig(ctx); given != nil { // Glue's
			own := *given
			own.HTTPClient = config.HTTPClient
			config = &own
		}
		ctx = utils.WithAwsConfig(ctx, config)
	}
	// A scheme that the library means the same with.
	return iceio.LoadFS(ctx, properties, "oss://"+place.Host)
}

// config returns the configuration that the library would make of the
// properties and the environment, with connections to be shared.
func (b *buckets) config(ctx context.Context, properties map[string]string) (*aws.Config, error) {
	properties = maps.Clone(properties)
	settings := bucketSettings{
		region: properties[iceio.S3Region], clientRegion: properties[iceio.S3ClientRegion], proxy: properties[iceio.S3ProxyURI],
		timeout: properties[iceio.S3ConnectTimeout], signing: properties[iceio.S3RemoteSigningEnabled],
		keys: properties[iceio.S3AccessKeyID] != "" && properties[iceio.S3SecretAccessKey] != "",
	}
	if settings.keys { // the environment's are not looked for then; the true ones come later
		properties[iceio.S3AccessKeyID], properties[iceio.S3SecretAccessKey] = "none", "none"
		delete(properties, iceio.S3SessionToken)
	}
	delete(properties, "token") // of a REST catalog, and no matter of S3
	b.mu.Lock()
	defer b.mu.Unlock()
	if known := b.configs[settings]; known != nil {
		return known, nil
	}
	config, err := s3.ParseAWSConfig(ctx, properties)
	if err != nil {
		return nil, err
	}
	if config.HTTPClient == nil {
		config.HTTPClient = awshttp.NewBuildableClient().WithTransportOptions(likeLibrary)
	}
	// Each client makes a copy of such a one, with its own connections, to set
	// the service's timeouts. Take what it makes, and forbid further copies.
	if client, ok := s3client.NewFromConfig(*config).Options().HTTPClient.(*awshttp.BuildableClient); ok {
		config.HTTPClient = client.Freeze()
	}
	if b.configs == nil {
		b.configs = make(map[bucketSettings]*aws.Config)
	}
	b.configs[settings] = config
	return config, nil
}

// likeLibrary gives a transport the bounds that the library gives its own.
func likeLibrary(t *http.Transport) {
	t.MaxIdleConns, t.MaxIdleConnsPerHost, t.MaxConnsPerHost = 256, 256, 2048
	t.IdleConnTimeout = 90 * time.Second
}
