package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"icehose/internal/pipelinefile"
	"icehose/reconcile"
)

// objectStore is what is used of the S3 client.
type objectStore interface {
	pipelinefile.Getter
	PutObject(ctx context.Context, in *s3.PutObjectInput, options ...func(*s3.Options)) (*s3.PutObjectOutput, error)
	DeleteObject(ctx context.Context, in *s3.DeleteObjectInput, options ...func(*s3.Options)) (*s3.DeleteObjectOutput, error)
}

// put writes an object below a prefix.
func (f *function) put(ctx context.Context, p prefix, name, contentType string, data []byte) error {
	key := p.key + name
	if _, err := f.objects.PutObject(ctx, &s3.PutObjectInput{Bucket: &p.bucket, Key: &key, ContentType: &contentType, Body: bytes.NewReader(data)}); err != nil {
		return fmt.Errorf("write %s: %w", p.uri(name), err)
	}
	return nil
}

// A checkpoint keeps what runs of the same tables have decided in an object.
// Two runs at a time are one too many: the one that finds the object to be
// another's ends.
type checkpoint struct {
	f      *function
	name   string
	etag   string // of what this run read or wrote last; empty: nothing was there
	exists bool
	moved  bool // by this run
	ended  bool // everything is decided
	end    context.CancelCauseFunc
}

// errMoved ends a run.
var errMoved = errors.New("another run moves this checkpoint: this one ends, and what it found is told by that one or the next")

// movedBy tells an object store's refusal from other errors. An object that must
// be the one that was read, and is gone, is no such key.
func (c *checkpoint) movedBy(err error) error {
	var api interface{ ErrorCode() string } // of the SDK's errors
	if !errors.As(err, &api) || !slices.Contains([]string{"PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey", "NotFound"}, api.ErrorCode()) {
		return err
	}
	if c.end != nil {
		c.end(errMoved)
	}
	return errMoved
}

var _ reconcile.Checkpoint = (*checkpoint)(nil)

// checkpoint is that of the tables; nil when none is kept. Each choice of tables
// has its own: a run of some must not end that of all.
func (f *function) checkpoint(tables []string) *checkpoint {
	if f.settings.checkpoint == (prefix{}) {
		return nil
	}
	c := &checkpoint{f: f, name: "all.json"}
	if len(tables) > 0 {
		sum := sha256.Sum256([]byte(strings.Join(slices.Compact(slices.Sorted(slices.Values(tables))), "\n")))
		c.name = "some-" + hex.EncodeToString(sum[:8]) + ".json"
	}
	return c
}

func (c *checkpoint) uri() string { return c.f.settings.checkpoint.uri(c.name) }

// Load implements reconcile.Checkpoint.
func (c *checkpoint) Load(ctx context.Context) ([]byte, error) {
	place := c.f.settings.checkpoint
	key := place.key + c.name
	out, err := c.f.objects.GetObject(ctx, &s3.GetObjectInput{Bucket: &place.bucket, Key: &key})
	if _, missing := errors.AsType[*types.NoSuchKey](err); missing {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", c.uri(), err)
	}
	data, err := io.ReadAll(out.Body)
	if err = errors.Join(err, out.Body.Close()); err != nil {
		return nil, fmt.Errorf("read %s: %w", c.uri(), err)
	}
	etag := aws.ToString(out.ETag)
	if c.etag != "" && etag != c.etag {
		return nil, fmt.Errorf("read %s: %w", c.uri(), errMoved)
	}
	c.exists, c.etag = true, etag
	return data, nil
}

// Save implements reconcile.Checkpoint. Of a run that has decided everything the
// object stays until its outcome is published: remove.
func (c *checkpoint) Save(ctx context.Context, data []byte) error {
	if data == nil {
		c.ended = true
		return nil
	}
	place := c.f.settings.checkpoint
	key := place.key + c.name
	in := &s3.PutObjectInput{Bucket: &place.bucket, Key: &key, ContentType: aws.String("application/json"), Body: bytes.NewReader(data)}
	if c.etag == "" {
		in.IfNoneMatch = aws.String("*")
	} else {
		in.IfMatch = &c.etag
	}
	out, err := c.f.objects.PutObject(ctx, in)
	if err != nil {
		return fmt.Errorf("write %s: %w", c.uri(), c.movedBy(err))
	}
	c.exists, c.moved, c.etag = true, true, aws.ToString(out.ETag)
	return nil
}

// remove removes the object, if there is one, and it is not another run's.
func (c *checkpoint) remove(ctx context.Context) error {
	if !c.exists {
		return nil
	}
	place := c.f.settings.checkpoint
	key := place.key + c.name
	if _, err := c.f.objects.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &place.bucket, Key: &key, IfMatch: &c.etag}); err != nil {
		return fmt.Errorf("remove %s: %w", c.uri(), c.movedBy(err))
	}
	c.exists, c.etag = false, ""
	return nil
}
