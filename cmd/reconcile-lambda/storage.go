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
type checkpoint struct {
	f      *function
	name   string
	exists bool
	moved  bool // by this run
	ended  bool // everything is decided
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
	c.exists = true
	return data, nil
}

// Save implements reconcile.Checkpoint. Of a run that has decided everything the
// object stays until its outcome is published: remove.
func (c *checkpoint) Save(ctx context.Context, data []byte) error {
	place := c.f.settings.checkpoint
	if data != nil {
		c.exists, c.moved = true, true
		return c.f.put(ctx, place, c.name, "application/json", data)
	}
	c.ended = true
	return nil
}

// remove removes the object, if there is one.
func (c *checkpoint) remove(ctx context.Context) error {
	if !c.exists {
		return nil
	}
	place := c.f.settings.checkpoint
	key := place.key + c.name
	if _, err := c.f.objects.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &place.bucket, Key: &key}); err != nil {
		return fmt.Errorf("remove %s: %w", c.uri(), err)
	}
	c.exists = false
	return nil
}
