package main

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

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
