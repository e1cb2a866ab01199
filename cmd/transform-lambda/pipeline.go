package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// maxPipeline is the size of the largest pipeline file that is read from S3.
const maxPipeline = 8 << 20

// A pipelineFile is where the pipeline file is read from.
type pipelineFile interface {
	// name is what errors call it.
	name() string
	// read returns the text and its version. When the version is still the
	// known one, it may return no text.
	read(ctx context.Context, known string) (text []byte, version string, err error)
}

// A file lies in the function's zip or a layer.
type file string

func (f file) name() string { return string(f) }

func (f file) read(context.Context, string) (text []byte, version string, err error) {
	if text, err = os.ReadFile(string(f)); err != nil {
		return nil, "", fmt.Errorf("read pipeline file: %w", err)
	}
	return text, "", nil
}

// objectGetter is what is used of the S3 client.
type objectGetter interface {
	GetObject(ctx context.Context, in *s3.GetObjectInput, options ...func(*s3.Options)) (*s3.GetObjectOutput, error)
}

// An object lies on S3. Its version is its ETag.
type object struct {
	client      objectGetter
	bucket, key string
}

func (o *object) name() string { return "s3://" + o.bucket + "/" + o.key }

func (o *object) read(ctx context.Context, known string) (text []byte, version string, err error) {
	in := &s3.GetObjectInput{Bucket: &o.bucket, Key: &o.key}
	if known != "" {
		in.IfNoneMatch = &known
	}
	out, err := o.client.GetObject(ctx, in)
	if response, ok := errors.AsType[*awshttp.ResponseError](err); ok && known != "" && response.HTTPStatusCode() == http.StatusNotModified {
		return nil, known, nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("read pipeline file: %w", err)
	}
	text, err = io.ReadAll(io.LimitReader(out.Body, maxPipeline+1))
	if err = errors.Join(err, out.Body.Close()); err != nil {
		return nil, "", fmt.Errorf("read pipeline file: %s: %w", o.name(), err)
	}
	if len(text) > maxPipeline {
		return nil, "", fmt.Errorf("read pipeline file: %s: more than %d bytes", o.name(), maxPipeline)
	}
	return text, aws.ToString(out.ETag), nil
}

// newS3 returns a client that signs with what Lambda puts in the environment:
// the loader of shared configuration would double the program's size.
func newS3(s settings) *s3.Client {
	return s3.New(s3.Options{
		Region: s.region,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: s.accessKey, SecretAccessKey: s.secret, SessionToken: s.token, Source: "environment"}, nil
		}),
		// Lines of the SDK's own would not be JSON.
		DisableLogOutputChecksumValidationSkipped: true,
	}, func(o *s3.Options) {
		if s.endpoint != "" {
			o.BaseEndpoint, o.UsePathStyle = &s.endpoint, true
		}
	})
}
