package firehose

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"icehose/internal/emf"
	"icehose/transform"
)

// A Count says how many records of one batch had the same end.
type Count struct {
	Stream  string // the delivery stream's ARN, as the event has it
	Table   string // schema.table of the source; empty when not known
	Outcome transform.Outcome
	Reason  transform.Reason // empty when Ok
	Records int
	Bytes   int // of the records as they came
	// OldKeyLeft and Drifts count the events that a result can carry besides.
	OldKeyLeft, Drifts int
}

// countsOf adds up a batch, sorted by table, outcome and reason.
func countsOf(stream string, records []eventRecord, results []transform.Result) []Count {
	type end struct {
		table   string
		outcome transform.Outcome
		reason  transform.Reason
	}
	index := make(map[end]int)
	var counts []Count
	last := -1
	for i := range results {
		r := &results[i]
		at := last
		if at < 0 || counts[at].Table != r.Table || counts[at].Outcome != r.Outcome || counts[at].Reason != r.Reason {
			var ok bool
			if at, ok = index[end{r.Table, r.Outcome, r.Reason}]; !ok {
				at = len(counts)
				index[end{r.Table, r.Outcome, r.Reason}] = at
				counts = append(counts, Count{Stream: stream, Table: r.Table, Outcome: r.Outcome, Reason: r.Reason})
			}
			last = at
		}
		c := &counts[at]
		c.Records++
		c.Bytes += records[i].size
		if r.OldKeyLeft {
			c.OldKeyLeft++
		}
		if r.Drift != nil {
			c.Drifts++
		}
	}
	slices.SortFunc(counts, func(a, b Count) int {
		return cmp.Or(strings.Compare(a.Table, b.Table), cmp.Compare(a.Outcome, b.Outcome), cmp.Compare(a.Reason, b.Reason))
	})
	return counts
}

// An EMF writes counts as lines of CloudWatch's Embedded Metric Format, which
// the log of a Lambda turns into metrics: records, bytes, old_key_left and
// schema_drift by stream, table, outcome and reason, and by stream and outcome.
type EMF struct {
	out       io.Writer
	namespace string
	clock     func() time.Time
	mu        sync.Mutex
}

// NewEMF returns an EMF that writes to out. The clock stamps its lines.
func NewEMF(out io.Writer, namespace string, clock func() time.Time) *EMF {
	return &EMF{out: out, namespace: namespace, clock: clock}
}

type emfLine struct {
	AWS        emf.Header `json:"_aws"`
	Stream     string     `json:"stream"`
	Table      string     `json:"table"`
	Outcome    string     `json:"outcome"`
	Reason     string     `json:"reason"`
	Records    int        `json:"records"`
	Bytes      int        `json:"bytes"`
	OldKeyLeft int        `json:"old_key_left"`
	Drifts     int        `json:"schema_drift"`
}

// Write writes one line for each count. It has the signature of
// Options.Metrics. CloudWatch refuses an empty dimension: it becomes "none".
func (e *EMF) Write(_ context.Context, counts []Count) error {
	header := emf.NewHeader(e.clock(), emf.Rule{
		Namespace:  e.namespace,
		Dimensions: [][]string{{"stream", "table", "outcome", "reason"}, {"stream", "outcome"}},
		Metrics: []emf.Metric{
			{Name: "records", Unit: "Count"}, {Name: "bytes", Unit: "Bytes"}, {Name: "old_key_left", Unit: "Count"}, {Name: "schema_drift", Unit: "Count"},
		},
	})
	var text []byte
	for _, c := range counts {
		line := emfLine{
			AWS: header, Stream: cmp.Or(c.Stream, "none"), Table: cmp.Or(c.Table, "none"), Outcome: string(c.Outcome), Reason: cmp.Or(string(c.Reason), "none"),
			Records: c.Records, Bytes: c.Bytes, OldKeyLeft: c.OldKeyLeft, Drifts: c.Drifts,
		}
		encoded, err := json.Marshal(line)
		if err != nil {
			return fmt.Errorf("write metrics: %w", err)
		}
		text = append(append(text, encoded...), '\n')
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, err := e.out.Write(text); err != nil {
		return fmt.Errorf("write metrics: %w", err)
	}
	return nil
}
