// Package athena runs the statements of package merge on Amazon Athena.
//
// In come statements; out go their rows and counts, after each has run to its
// end. A statement that Athena refused because another writer was first is told
// apart (sink.ErrConflict). Nothing is retried here: package merge begins anew.
package athena

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/athena"
	"github.com/aws/aws-sdk-go-v2/service/athena/types"

	"icehose/sink"
	"icehose/sink/merge"
)

// API is what is used of Athena's client.
type API interface {
	StartQueryExecution(context.Context, *athena.StartQueryExecutionInput, ...func(*athena.Options)) (*athena.StartQueryExecutionOutput, error)
	GetQueryExecution(context.Context, *athena.GetQueryExecutionInput, ...func(*athena.Options)) (*athena.GetQueryExecutionOutput, error)
	GetQueryResults(context.Context, *athena.GetQueryResultsInput, ...func(*athena.Options)) (*athena.GetQueryResultsOutput, error)
	StopQueryExecution(context.Context, *athena.StopQueryExecutionInput, ...func(*athena.Options)) (*athena.StopQueryExecutionOutput, error)
}

var _ API = (*athena.Client)(nil)

// A Client runs statements.
type Client struct {
	API API
	// Workgroup is the workgroup; empty for the account's primary one.
	Workgroup string
	// Output is the URI below which Athena writes results; empty when the
	// workgroup has one.
	Output string
	// Poll is how long to wait between two looks at a statement; default 500 ms.
	Poll time.Duration
}

var _ merge.Queries = (*Client)(nil)

// stopWait bounds the call that stops a statement nobody waits for any more.
const stopWait = 5 * time.Second

// Query implements merge.Queries. When ctx ends, it stops the statement.
func (c *Client) Query(ctx context.Context, statement string) (*merge.QueryResult, error) {
	in := &athena.StartQueryExecutionInput{QueryString: &statement}
	if c.Workgroup != "" {
		in.WorkGroup = &c.Workgroup
	}
	if c.Output != "" {
		in.ResultConfiguration = &types.ResultConfiguration{OutputLocation: &c.Output}
	}
	started, err := c.API.StartQueryExecution(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("start query: %w", err)
	}
	id := aws.ToString(started.QueryExecutionId)
	execution, err := c.wait(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", id, err)
	}
	result := &merge.QueryResult{}
	if execution.Statistics != nil {
		result.Scanned = aws.ToInt64(execution.Statistics.DataScannedInBytes)
	}
	if execution.StatementType == types.StatementTypeDdl {
		return result, nil
	}
	if err := c.read(ctx, id, execution.StatementType, result); err != nil {
		return nil, fmt.Errorf("query %s: read result: %w", id, err)
	}
	return result, nil
}

// wait returns the execution when it has succeeded.
func (c *Client) wait(ctx context.Context, id string) (*types.QueryExecution, error) {
	poll := c.Poll
	if poll == 0 {
		poll = 500 * time.Millisecond
	}
	for {
		out, err := c.API.GetQueryExecution(ctx, &athena.GetQueryExecutionInput{QueryExecutionId: &id})
		if err != nil {
			return nil, c.stop(ctx, id, err)
		}
		if out.QueryExecution == nil || out.QueryExecution.Status == nil {
			return nil, errors.New("answer without a status")
		}
		switch status := out.QueryExecution.Status; status.State {
		case types.QueryExecutionStateSucceeded:
			return out.QueryExecution, nil
		case types.QueryExecutionStateFailed, types.QueryExecutionStateCancelled:
			return nil, failure(status)
		case types.QueryExecutionStateQueued, types.QueryExecutionStateRunning:
		default:
			return nil, fmt.Errorf("unknown state %q", status.State)
		}
		select {
		case <-ctx.Done():
			return nil, c.stop(ctx, id, context.Cause(ctx))
		case <-time.After(poll):
		}
	}
}

// stop ends a statement that nobody waits for; cause is why.
func (c *Client) stop(ctx context.Context, id string, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWait)
	defer cancel()
	if _, err := c.API.StopQueryExecution(ctx, &athena.StopQueryExecutionInput{QueryExecutionId: &id}); err != nil {
		return errors.Join(cause, fmt.Errorf("stop it: %w", err))
	}
	return cause
}

func failure(status *types.QueryExecutionStatus) error {
	reason := aws.ToString(status.StateChangeReason)
	if reason == "" {
		reason = string(status.State)
	}
	if merge.IsConflict(reason) {
		return fmt.Errorf("%w: %s", sink.ErrConflict, reason)
	}
	return errors.New(reason)
}

// read reads the rows of a result; of a query the first row is a header. That of a
// MERGE may be a count alone: no column of a query of package merge has a number
// for a name.
func (c *Client) read(ctx context.Context, id string, kind types.StatementType, result *merge.QueryResult) error {
	pages := athena.NewGetQueryResultsPaginator(c.API, &athena.GetQueryResultsInput{QueryExecutionId: &id})
	for first := true; pages.HasMorePages(); first = false {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		if page.UpdateCount != nil {
			result.Updated = *page.UpdateCount
		}
		if page.ResultSet == nil {
			continue
		}
		rows := page.ResultSet.Rows
		if _, count := number(rows); first && len(rows) > 0 && !count {
			rows = rows[1:]
		}
		for _, row := range rows {
			texts := make([]string, len(row.Data))
			for i, v := range row.Data {
				texts[i] = aws.ToString(v.VarCharValue)
			}
			result.Rows = append(result.Rows, texts)
		}
	}
	// Of a MERGE the count may stand in the result's only row.
	if kind == types.StatementTypeDml && result.Updated == 0 && len(result.Rows) == 1 && len(result.Rows[0]) == 1 {
		if n, err := strconv.ParseInt(result.Rows[0][0], 10, 64); err == nil {
			result.Updated = n
		}
	}
	return nil
}

// number returns the integer that is all there is in rows.
func number(rows []types.Row) (n int64, ok bool) {
	if len(rows) != 1 || len(rows[0].Data) != 1 {
		return 0, false
	}
	n, err := strconv.ParseInt(aws.ToString(rows[0].Data[0].VarCharValue), 10, 64)
	return n, err == nil
}
