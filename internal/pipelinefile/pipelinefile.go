// Package pipelinefile reads the pipeline file of a Lambda function, from the
// function's zip, a layer or S3.
//
// In comes where it is, out go its text and a version of it, which on S3 is the
// object's ETag: asked for anew, an object that has not changed is not sent again.
package pipelinefile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"icehose/catalog"
)

// MaxSize is the size of the largest pipeline file that is read from S3.
const MaxSize = 8 << 20

// A Place is where a pipeline file is: a path, or an object on S3.
type Place struct {
	Path        string // empty when it is an object
	Bucket, Key string
}

// Locate understands s3://bucket/key, and a path, which is in folder unless it
// is absolute.
func Locate(location, folder string) (Place, error) {
	object, remote := strings.CutPrefix(location, "s3://")
	switch {
	case location == "":
		return Place{}, errors.New("want a path or s3://bucket/key, got nothing")
	case remote:
		bucket, key, _ := strings.Cut(object, "/")
		if bucket == "" || key == "" {
			return Place{}, fmt.Errorf("want s3://bucket/key, got %q", location)
		}
		return Place{Bucket: bucket, Key: key}, nil
	case filepath.IsAbs(location):
		return Place{Path: location}, nil
	}
	return Place{Path: filepath.Join(folder, location)}, nil
}

// Name is what errors call the file.
func (p Place) Name() string {
	if p.Bucket == "" {
		return p.Path
	}
	return "s3://" + p.Bucket + "/" + p.Key
}

// A Getter is what is used of the S3 client.
type Getter interface {
	GetObject(ctx context.Context, in *s3.GetObjectInput, options ...func(*s3.Options)) (*s3.GetObjectOutput, error)
}

// Read returns the text and its version. When the version is still the known
// one, an object has no text; a path has no version and is always read. client
// is not needed for a path.
func (p Place) Read(ctx context.Context, client Getter, known string) (text []byte, version string, err error) {
	if p.Bucket == "" {
		text, err = os.ReadFile(p.Path)
	} else {
		text, version, err = p.get(ctx, client, known)
	}
	if err != nil {
		return nil, "", fmt.Errorf("read pipeline file: %w", err)
	}
	return text, version, nil
}

func (p Place) get(ctx context.Context, client Getter, known string) (text []byte, version string, err error) {
	in := &s3.GetObjectInput{Bucket: &p.Bucket, Key: &p.Key}
	if known != "" {
		in.IfNoneMatch = &known
	}
	out, err := client.GetObject(ctx, in)
	if response, ok := errors.AsType[*awshttp.ResponseError](err); ok && known != "" && response.HTTPStatusCode() == http.StatusNotModified {
		return nil, known, nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", p.Name(), err)
	}
	text, err = io.ReadAll(io.LimitReader(out.Body, MaxSize+1))
	if err = errors.Join(err, out.Body.Close()); err != nil {
		return nil, "", fmt.Errorf("%s: %w", p.Name(), err)
	}
	if len(text) > MaxSize {
		return nil, "", fmt.Errorf("%s: more than %d bytes", p.Name(), MaxSize)
	}
	return text, aws.ToString(out.ETag), nil
}

// A Cache holds the pipeline that was last read from one Place.
type Cache struct {
	version  string
	pipeline *catalog.Pipeline
}

// Load returns the pipeline at a place, which it reads as Place.Read does and
// parses when it may have changed.
func (c *Cache) Load(ctx context.Context, at Place, client Getter) (*catalog.Pipeline, error) {
	text, version, err := at.Read(ctx, client, c.version)
	switch {
	case err != nil:
		return nil, err
	case c.pipeline != nil && version != "" && version == c.version:
		return c.pipeline, nil
	}
	p, err := catalog.Parse(at.Name(), text)
	if err != nil {
		return nil, fmt.Errorf("read pipeline file: %w", err)
	}
	c.pipeline, c.version = p, version
	return p, nil
}

// ClientOptions are those of a Lambda function's S3 client.
func ClientOptions(o *s3.Options) {
	o.DisableLogOutputChecksumValidationSkipped = true // lines of the SDK's own would not be JSON
	o.UsePathStyle = o.BaseEndpoint != nil             // the host of an endpoint that is not AWS's own names no buckets
}
