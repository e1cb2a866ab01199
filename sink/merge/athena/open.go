package athena

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/athena"
)

// Open returns a client with the AWS settings and credentials of this process, for
// a workgroup and an output as Client has them. region, when it is not empty, is
// the region of the tables' catalog.
func Open(ctx context.Context, region, workgroup, output string) (*Client, error) {
	settings, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, fmt.Errorf("load AWS settings: %w", err)
	}
	if region != "" {
		settings.Region = region
	}
	return &Client{API: athena.NewFromConfig(settings), Workgroup: workgroup, Output: output}, nil
}
