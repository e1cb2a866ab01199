package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	kinesistypes "github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"icehose/transform/redrive"
)

// A source is a file or object that can be read, more than once.
type source struct {
	name string
	open func(context.Context) (io.ReadCloser, error)
}

// A sourceError says that a file or object could not be read to its end.
type sourceError struct {
	name string
	err  error
}

// Error implements error.
func (e *sourceError) Error() string { return e.name + ": " + e.err.Error() }

// Unwrap returns the cause.
func (e *sourceError) Unwrap() error { return e.err }

// readFailures hands every failure of a file to each, in order. An error that
// is not of each is a *sourceError.
func readFailures(ctx context.Context, file source, each func(redrive.Failure) error) error {
	in, err := file.open(ctx)
	if err != nil {
		return &sourceError{file.name, err}
	}
	defer in.Close() //nolint:errcheck // opened for reading
	for f, err := range redrive.Read(in, file.name) {
		if err != nil {
			return &sourceError{file.name, err}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := each(f); err != nil {
			return err
		}
	}
	return nil
}

// An objectStore is what redrive needs of S3.
type objectStore interface {
	ListObjectsV2(ctx context.Context, in *s3.ListObjectsV2Input, options ...func(*s3.Options)) (*s3.ListObjectsV2Output, error)
	GetObject(ctx context.Context, in *s3.GetObjectInput, options ...func(*s3.Options)) (*s3.GetObjectOutput, error)
}

// A recordPutter is what redrive needs of Kinesis.
type recordPutter interface {
	PutRecords(ctx context.Context, in *kinesis.PutRecordsInput, options ...func(*kinesis.Options)) (*kinesis.PutRecordsOutput, error)
}

var (
	_ objectStore  = (*s3.Client)(nil)
	_ recordPutter = (*kinesis.Client)(nil)
)

// clouds makes clients of AWS when they are first needed.
type clouds struct {
	timeout time.Duration
	getenv  func(string) string
	store   objectStore
}

func (c *clouds) config(ctx context.Context) (aws.Config, error) {
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return cfg, fmt.Errorf("configure AWS: %w", err)
	}
	if cfg.Region == "" {
		return cfg, errors.New("configure AWS: no region: set AWS_REGION")
	}
	return cfg, nil
}

// objects returns the client of S3. An endpoint that is not AWS's own is
// asked by path: its host names no buckets.
func (c *clouds) objects(ctx context.Context) (objectStore, error) {
	if c.store == nil {
		cfg, err := c.config(ctx)
		if err != nil {
			return nil, err
		}
		c.store = s3.NewFromConfig(cfg, func(o *s3.Options) {
			// Objects without a checksum are as good as Firehose wrote them.
			o.DisableLogOutputChecksumValidationSkipped = true
			o.UsePathStyle = c.getenv("AWS_ENDPOINT_URL") != "" || c.getenv("AWS_ENDPOINT_URL_S3") != ""
		})
	}
	return c.store, nil
}

// stream returns the stream to send to.
func (c *clouds) stream(ctx context.Context, name string) (redrive.Stream, error) {
	cfg, err := c.config(ctx)
	if err != nil {
		return nil, err
	}
	return &kinesisStream{client: kinesis.NewFromConfig(cfg), name: name, timeout: c.timeout}, nil
}

// listSources finds the files and objects that the arguments name, in order.
func listSources(ctx context.Context, c *clouds, args []string) ([]source, error) {
	var out []source
	for _, arg := range args {
		var found []source
		var err error
		if strings.HasPrefix(arg, "s3://") {
			found, err = listObjects(ctx, c, arg)
		} else {
			found, err = listFiles(arg)
		}
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", arg, err)
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("list %s: nothing is there", arg)
		}
		out = append(out, found...)
	}
	return out, nil
}

// listFiles returns a file, or the files under a directory in lexical order.
func listFiles(root string) ([]source, error) {
	var out []source
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
			return err
		}
		out = append(out, source{path, func(context.Context) (io.ReadCloser, error) { return os.Open(path) }})
		return nil
	})
	return out, err
}

func listObjects(ctx context.Context, c *clouds, address string) ([]source, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return nil, errors.New("want s3://bucket/prefix")
	}
	bucket, prefix := u.Host, strings.TrimPrefix(strings.TrimPrefix(address, "s3://"+u.Host), "/")
	client, err := c.objects(ctx)
	if err != nil {
		return nil, err
	}
	var out []source
	pages := s3.NewListObjectsV2Paginator(client, &s3.ListObjectsV2Input{Bucket: &bucket, Prefix: &prefix})
	for pages.HasMorePages() {
		page, err := c.page(ctx, pages)
		if err != nil {
			return nil, err
		}
		for _, o := range page.Contents {
			key := aws.ToString(o.Key)
			if strings.HasSuffix(key, "/") {
				continue // what a console makes for a folder
			}
			out = append(out, source{"s3://" + bucket + "/" + key, func(ctx context.Context) (io.ReadCloser, error) {
				return c.get(ctx, client, bucket, key)
			}})
		}
	}
	return out, nil
}

func (c *clouds) page(ctx context.Context, pages *s3.ListObjectsV2Paginator) (*s3.ListObjectsV2Output, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	page, err := pages.NextPage(ctx)
	if err != nil {
		return nil, fmt.Errorf("list objects: %w", err)
	}
	return page, nil
}

// get opens an object. The time limit is that of the call, and then of each
// wait for more of the body: whoever reads may take as long as it likes.
func (c *clouds) get(ctx context.Context, client objectStore, bucket, key string) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	limit := time.AfterFunc(c.timeout, func() { cancel(fmt.Errorf("nothing came for %s (--timeout)", c.timeout)) })
	object, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: &key})
	limit.Stop()
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		cancel(nil)
		return nil, fmt.Errorf("get object: %w", err)
	}
	return &objectBody{ReadCloser: object.Body, ctx: ctx, cancel: cancel, limit: limit, timeout: c.timeout}, nil
}

// An objectBody is the body of an object, each read of which has a time limit.
type objectBody struct {
	io.ReadCloser
	ctx     context.Context //nolint:containedctx // it is that of the call whose answer this is
	cancel  context.CancelCauseFunc
	limit   *time.Timer
	timeout time.Duration
}

// Read implements io.Reader.
func (b *objectBody) Read(p []byte) (n int, err error) {
	b.limit.Reset(b.timeout)
	n, err = b.ReadCloser.Read(p)
	b.limit.Stop()
	if cause := context.Cause(b.ctx); err != nil && cause != nil {
		err = fmt.Errorf("get object: %w", cause)
	}
	return n, err
}

// Close implements io.Closer.
func (b *objectBody) Close() error {
	b.cancel(nil)
	return b.ReadCloser.Close()
}

// A kinesisStream is a redrive.Stream.
type kinesisStream struct {
	client  recordPutter
	name    string
	timeout time.Duration
}

var _ redrive.Stream = (*kinesisStream)(nil)

// Put implements redrive.Stream. Kinesis takes or refuses each record by
// itself; a refusal is of its throughput, or internal. A record that is no valid
// one, such as one that is too large, makes it refuse the whole call.
func (k *kinesisStream) Put(ctx context.Context, entries []redrive.Entry) (refused []redrive.Refusal, err error) {
	ctx, cancel := context.WithTimeout(ctx, k.timeout)
	defer cancel()
	in := &kinesis.PutRecordsInput{StreamName: &k.name}
	for i := range entries {
		in.Records = append(in.Records, kinesistypes.PutRecordsRequestEntry{Data: entries[i].Data, PartitionKey: &entries[i].PartitionKey})
	}
	out, err := k.client.PutRecords(ctx, in)
	if isRejection(err) {
		return nil, fmt.Errorf("put records: %w: %w", redrive.ErrRejected, err)
	}
	if err != nil {
		return nil, fmt.Errorf("put records: %w", err)
	}
	if len(out.Records) != len(entries) {
		return nil, fmt.Errorf("put records: %d answers for %d records", len(out.Records), len(entries))
	}
	for i := range out.Records {
		if code := aws.ToString(out.Records[i].ErrorCode); code != "" {
			refused = append(refused, redrive.Refusal{Index: i, Code: code})
		}
	}
	return refused, nil
}

// isRejection reports whether Kinesis finds fault with what was sent.
func isRejection(err error) bool {
	_, argument := errors.AsType[*kinesistypes.InvalidArgumentException](err)
	_, validation := errors.AsType[*kinesistypes.ValidationException](err)
	return argument || validation
}
