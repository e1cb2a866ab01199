package html

import (
	"fmt"
	"math"

	"icehose/reconcile/history"
)

// A chart is a bar for each past run, as high as it has findings.
type chart struct {
	Width, Height int
	Bars          []bar
	Label         string
	First, Last   string // when they began
	Most          string // findings of the highest bar
	Recent        []recent
	HasPartial    bool
}

type bar struct {
	X, Y, Width, Height int
	Class, Title, Sign  string
	Partial             bool // drawn as an outline
	Middle              int
}

// A recent run is a line of the table below the chart.
type recent struct {
	When, Findings string
	Verdict        verdict
	Partial        bool
}

// The measures of the chart, in its own units.
const (
	maxBars   = 60
	barWidth  = 10
	barGap    = 2
	barsHigh  = 72
	leastHigh = 6 // of a bar: a run without findings is seen too
	signHigh  = 14
	maxRecent = 10
)

// chartOf draws the newest runs; nil when there are none. Heights are
// logarithmic: one finding must be told from none beside a million.
func chartOf(runs []history.Run) *chart {
	runs = runs[max(0, len(runs)-maxBars):]
	if len(runs) == 0 {
		return nil
	}
	var most uint64
	for i := range runs {
		most = max(most, runs[i].Findings)
	}
	c := &chart{
		Width: len(runs)*(barWidth+barGap) - barGap, Height: signHigh + barsHigh,
		First: runs[0].Began.UTC().Format(minute), Last: runs[len(runs)-1].Began.UTC().Format(minute), Most: thousands(most),
	}
	counts := map[string]int{}
	for i := range runs {
		r := &runs[i]
		v := verdictOf(r.Verdict)
		counts[v.Word]++
		height := leastHigh
		if r.Findings > 0 {
			height += int(math.Round(float64(barsHigh-leastHigh) * math.Log1p(float64(r.Findings)) / math.Log1p(float64(most))))
		}
		x := i * (barWidth + barGap)
		scope := ""
		if r.Partial {
			scope, c.HasPartial = ", of some rows", true
		}
		c.Bars = append(c.Bars, bar{
			X: x, Y: signHigh + barsHigh - height, Width: barWidth, Height: height, Class: v.Word, Sign: v.Sign, Middle: x + barWidth/2,
			Partial: r.Partial, Title: fmt.Sprintf("%s: %s%s, findings: %s", r.Began.UTC().Format(minute), v.Word, scope, thousands(r.Findings)),
		})
	}
	c.Label = fmt.Sprintf("%d runs: %d equal, %d different, %d inconclusive; at most %s findings", len(runs), counts["equal"], counts["different"], counts["inconclusive"], c.Most)
	for i := len(runs) - 1; i >= max(0, len(runs)-maxRecent); i-- {
		r := &runs[i]
		c.Recent = append(c.Recent, recent{When: r.Began.UTC().Format(minute), Verdict: verdictOf(r.Verdict), Findings: thousands(r.Findings), Partial: r.Partial})
	}
	return c
}
