package athena_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	service "github.com/aws/aws-sdk-go-v2/service/athena"
	"github.com/aws/aws-sdk-go-v2/service/athena/types"
	"github.com/google/go-cmp/cmp"

	"icehose/sink"
	"icehose/sink/merge"
	"icehose/sink/merge/athena"
)

// standIn answers as Athena's API does.
type standIn struct {
	states  []types.QueryExecutionState // one a look; the last one stays
	reason  string
	kind    types.StatementType
	pages   []service.GetQueryResultsOutput
	started []string
	stopped int
	looks   int
}

func (s *standIn) StartQueryExecution(_ context.Context, in *service.StartQueryExecutionInput, _ ...func(*service.Options)) (*service.StartQueryExecutionOutput, error) {
	s.started = append(s.started, aws.ToString(in.QueryString)+"|"+aws.ToString(in.WorkGroup)+"|"+aws.ToString(in.ResultConfiguration.OutputLocation))
	return &service.StartQueryExecutionOutput{QueryExecutionId: aws.String("q-1")}, nil
}

func (s *standIn) GetQueryExecution(_ context.Context, in *service.GetQueryExecutionInput, _ ...func(*service.Options)) (*service.GetQueryExecutionOutput, error) {
	if aws.ToString(in.QueryExecutionId) != "q-1" {
		return nil, errors.New("no such query")
	}
	state := s.states[min(s.looks, len(s.states)-1)]
	s.looks++
	return &service.GetQueryExecutionOutput{QueryExecution: &types.QueryExecution{
		StatementType: s.kind,
		Status:        &types.QueryExecutionStatus{State: state, StateChangeReason: &s.reason},
		Statistics:    &types.QueryExecutionStatistics{DataScannedInBytes: aws.Int64(42)},
	}}, nil
}

func (s *standIn) GetQueryResults(_ context.Context, in *service.GetQueryResultsInput, _ ...func(*service.Options)) (*service.GetQueryResultsOutput, error) {
	n := 0
	if in.NextToken != nil {
		n = int((*in.NextToken)[0] - '0')
	}
	return &s.pages[n], nil
}

func (s *standIn) StopQueryExecution(context.Context, *service.StopQueryExecutionInput, ...func(*service.Options)) (*service.StopQueryExecutionOutput, error) {
	s.stopped++
	return &service.StopQueryExecutionOutput{}, nil
}

func page(token string, rows ...[]string) service.GetQueryResultsOutput {
	set := &types.ResultSet{}
	for _, row := range rows {
		var r types.Row
		for _, v := range row {
			r.Data = append(r.Data, types.Datum{VarCharValue: aws.String(v)})
		}
		set.Rows = append(set.Rows, r)
	}
	out := service.GetQueryResultsOutput{ResultSet: set}
	if token != "" {
		out.NextToken = &token
	}
	return out
}

func client(s *standIn) *athena.Client {
	return &athena.Client{API: s, Workgroup: "etl", Output: "s3://results/", Poll: time.Microsecond}
}

func TestQueryReadsAllPages(t *testing.T) {
	s := &standIn{
		kind:   types.StatementTypeDml,
		states: []types.QueryExecutionState{types.QueryExecutionStateQueued, types.QueryExecutionStateRunning, types.QueryExecutionStateSucceeded},
		pages:  []service.GetQueryResultsOutput{page("1", []string{"a", "b"}, []string{"1", "2"}), page("", []string{"3", "4"})},
	}
	got, err := client(s).Query(t.Context(), "SELECT 1")
	if err != nil {
		t.Fatal(err)
	}
	want := &merge.QueryResult{Rows: [][]string{{"1", "2"}, {"3", "4"}}, Scanned: 42}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"SELECT 1|etl|s3://results/"}, s.started); diff != "" {
		t.Errorf("started (-want +got):\n%s", diff)
	}
}

func TestQueryCountsWhatAMergeChanged(t *testing.T) {
	counted := page("")
	counted.UpdateCount = aws.Int64(7)
	for name, merged := range map[string]service.GetQueryResultsOutput{
		"as a count": counted, "in the only row": page("", []string{"7"}), "below a header": page("", []string{"rows"}, []string{"7"}),
	} {
		s := &standIn{kind: types.StatementTypeDml, states: []types.QueryExecutionState{types.QueryExecutionStateSucceeded}, pages: []service.GetQueryResultsOutput{merged}}
		got, err := client(s).Query(t.Context(), "MERGE")
		if err != nil || got.Updated != 7 {
			t.Errorf("%s: got %+v, %v; want 7 updated", name, got, err)
		}
	}
}

func TestQueryTellsConflictsApart(t *testing.T) {
	for reason, conflict := range map[string]bool{
		"ICEBERG_COMMIT_ERROR: Failed to commit Iceberg update to table: d.t": true,
		"SYNTAX_ERROR: line 1:1": false,
	} {
		s := &standIn{states: []types.QueryExecutionState{types.QueryExecutionStateFailed}, reason: reason}
		_, err := client(s).Query(t.Context(), "MERGE")
		if err == nil || errors.Is(err, sink.ErrConflict) != conflict || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: got %v, want a conflict: %t", reason, err, conflict)
		}
	}
}

func TestQueryStopsWhatNobodyWaitsFor(t *testing.T) {
	s := &standIn{states: []types.QueryExecutionState{types.QueryExecutionStateRunning}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := client(s).Query(ctx, "SELECT 1"); !errors.Is(err, context.Canceled) || s.stopped != 1 {
		t.Errorf("got %v, stopped %d times; want it canceled and stopped once", err, s.stopped)
	}
}
