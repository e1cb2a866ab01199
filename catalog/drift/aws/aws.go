// Package aws reads what package drift compares from the services themselves.
//
// In come clients of AWS's SDK, of which it uses one call each; out go the same
// descriptions that drift parses from files. It changes nothing.
package aws

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/firehose"
	"github.com/aws/aws-sdk-go-v2/service/glue"
	"github.com/aws/aws-sdk-go-v2/service/glue/types"

	"icehose/catalog/drift"
)

// Firehose is what is used of its client.
type Firehose interface {
	DescribeDeliveryStream(context.Context, *firehose.DescribeDeliveryStreamInput, ...func(*firehose.Options)) (*firehose.DescribeDeliveryStreamOutput, error)
}

// Glue is what is used of its client.
type Glue interface {
	GetTables(context.Context, *glue.GetTablesInput, ...func(*glue.Options)) (*glue.GetTablesOutput, error)
}

var (
	_ Firehose = (*firehose.Client)(nil)
	_ Glue     = (*glue.Client)(nil)
)

// Stream describes a delivery stream.
func Stream(ctx context.Context, client Firehose, name string) (*drift.Stream, error) {
	out, err := client.DescribeDeliveryStream(ctx, &firehose.DescribeDeliveryStreamInput{DeliveryStreamName: &name})
	if err != nil {
		return nil, fmt.Errorf("describe delivery stream %s: %w", name, err)
	}
	// The SDK's fields have the names that the CLI prints.
	text, err := json.Marshal(map[string]any{"DeliveryStreamDescription": out.DeliveryStreamDescription})
	if err != nil {
		return nil, fmt.Errorf("describe delivery stream %s: %w", name, err)
	}
	return drift.ParseStream(text)
}

// Tables lists the tables of databases, and those of the databases that Glue
// does not have.
func Tables(ctx context.Context, client Glue, databases []string) (tables []drift.Table, missing []string, err error) {
	tables = []drift.Table{}
	for _, database := range databases {
		pages := glue.NewGetTablesPaginator(client, &glue.GetTablesInput{DatabaseName: &database})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if _, none := errors.AsType[*types.EntityNotFoundException](err); none {
				missing = append(missing, database)
				break
			}
			if err != nil {
				return nil, nil, fmt.Errorf("list tables of %s: %w", database, err)
			}
			text, err := json.Marshal(map[string]any{"TableList": page.TableList})
			if err != nil {
				return nil, nil, fmt.Errorf("list tables of %s: %w", database, err)
			}
			list, err := drift.ParseTables(text)
			if err != nil {
				return nil, nil, err
			}
			tables = append(tables, list...)
		}
	}
	return tables, missing, nil
}
