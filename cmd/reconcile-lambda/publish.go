package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sns"

	"icehose/reconcile"
	"icehose/reconcile/emf"
	"icehose/reconcile/history"
	"icehose/reconcile/job"
)

// publisher is what is used of the SNS client.
type publisher interface {
	Publish(ctx context.Context, in *sns.PublishInput, options ...func(*sns.Options)) (*sns.PublishOutput, error)
}

// unfinished is the verdict of a run that the next one continues, in which no
// table is different so far.
const unfinished = "unfinished"

// An outcome is what an invocation answers.
type outcome struct {
	Verdict      string  `json:"verdict"` // that of the report, or unfinished
	Tables       int     `json:"tables"`
	Different    int     `json:"different"`
	Inconclusive int     `json:"inconclusive"` // those that the next run continues with too
	Findings     uint64  `json:"findings"`     // rows
	Seconds      float64 `json:"seconds"`
	Report       string  `json:"report,omitempty"` // URI of the JSON
	Page         string  `json:"page,omitempty"`
	status       int
}

// publish logs the verdicts and tells of them, unless the next run will: of what
// is different at once. The checkpoint stays until the topic was told what it
// holds; whatever else fails would keep its verdicts from being reached anew.
func (c *comparison) publish(ctx context.Context) (*outcome, error) {
	run := history.Of(c.report)
	o := &outcome{
		Verdict: string(run.Verdict), Tables: run.Tables, Different: run.Different, Inconclusive: run.Inconclusive, Findings: run.Findings,
		Seconds: run.Ended.Sub(run.Began).Seconds(), status: c.report.ExitStatus(),
	}
	for i := range c.report.Tables {
		t := &c.report.Tables[i]
		before := t.DecidedAt.Before(c.report.Began) // by a run that logged it
		if !before && (t.Verdict != reconcile.Inconclusive && !t.Told || !c.goesOn) {
			c.logTable(ctx, t)
		}
	}
	var err error
	switch {
	case !c.goesOn:
		var told bool
		if told, err = c.tell(ctx, o, c.report); told {
			err = errors.Join(err, c.forget(ctx))
		}
	case run.Verdict != reconcile.Different:
		o.Verdict = unfinished
	default:
		if decided := c.decided(); isNews(decided) {
			var told bool
			if told, err = c.tell(ctx, o, decided); told {
				err = errors.Join(err, reconcile.Told(ctx, c.saved, decided))
			}
		}
	}
	c.log.LogAttrs(ctx, levelOf(run.Verdict), "run ended", slog.String("run_verdict", o.Verdict), slog.Int("tables", o.Tables), slog.Int("different", o.Different),
		slog.Int("inconclusive", o.Inconclusive), slog.Uint64("findings", o.Findings), slog.Float64("seconds", o.Seconds), slog.String("report", o.Report))
	return o, err
}

// decided is the report without the tables that the next run goes on with, which
// it names.
func (c *comparison) decided() *reconcile.Report {
	r := *c.report
	r.Tables = nil
	for i := range c.report.Tables {
		if t := &c.report.Tables[i]; t.Verdict == reconcile.Inconclusive {
			r.Later = append(r.Later, t.Table)
		} else {
			r.Tables = append(r.Tables, *t)
		}
	}
	return &r
}

// isNews reports whether a table is not equal that no run has told of.
func isNews(r *reconcile.Report) bool {
	return slices.ContainsFunc(r.Tables, func(t reconcile.TableReport) bool { return t.Verdict != reconcile.Equal && !t.Told })
}

func levelOf(v reconcile.Verdict) slog.Level {
	if v == reconcile.Equal {
		return slog.LevelInfo
	}
	return slog.LevelWarn
}

// logTable logs a verdict in the words that the stacks' metric filters look for.
func (c *comparison) logTable(ctx context.Context, t *reconcile.TableReport) {
	n := &t.Counts
	c.log.LogAttrs(ctx, levelOf(t.Verdict), "table compared", slog.String("table", t.Table), slog.String("verdict", string(t.Verdict)), slog.String("why", t.Why),
		slog.Any("source_rows", t.Source.Rows), slog.Any("lake_rows", t.Lake.Rows), slog.Uint64("missing", n.Missing), slog.Uint64("extra", n.Extra),
		slog.Uint64("differs", n.Differs), slog.Uint64("stale", n.Stale), slog.Uint64("duplicate", n.Duplicate), slog.Float64("seconds", t.Seconds))
}

// tell publishes a report: the last of several runs everywhere, one before it to
// whom it may alarm. What fails keeps nothing else from being told; the page,
// which reads the history, comes last. told says that the topic knows what it
// must.
func (c *comparison) tell(ctx context.Context, o *outcome, r *reconcile.Report) (told bool, err error) {
	s := c.settings
	database := job.Database(c.pipeline)
	name := cmp.Or(s.Name, database)
	told = true
	var errs []error
	if s.MetricsNamespace != "" && !c.goesOn {
		errs = append(errs, emf.Write(c.stdout, s.MetricsNamespace, database, r.Ended, r))
	}
	file := r.Ended.UTC().Format("20060102T150405.000Z")
	if s.report != (prefix{}) {
		text, err := json.MarshalIndent(r, "", "  ")
		if err == nil {
			err = c.put(ctx, s.report, file+".json", "application/json", append(text, '\n'))
		}
		if err == nil {
			o.Report = s.report.uri(file + ".json")
		}
		errs = append(errs, err)
	}
	if s.Topic != "" && isNews(r) {
		err := c.alert(ctx, name, o, r)
		told = err == nil
		errs = append(errs, err)
	}
	remembered := false
	if s.History && !c.goesOn {
		var err error
		if remembered, err = job.Remember(ctx, &s.Flags, database, r); err != nil && remembered { // a later run tidies it
			c.log.LogAttrs(ctx, slog.LevelWarn, "history is not tidy", slog.String("error", err.Error()))
			err = nil
		}
		errs = append(errs, err)
	}
	if s.report != (prefix{}) {
		page, err := job.Page(ctx, c.store.Tables(), database, name, r, remembered)
		if err == nil {
			err = c.put(ctx, s.report, file+".html", "text/html; charset=utf-8", page)
		}
		if err == nil {
			o.Page = s.report.uri(file + ".html")
		}
		errs = append(errs, err)
	}
	return told, errors.Join(errs...)
}

// What SNS takes, in bytes: of a message, which also names the report's place, 256 KB.
const (
	maxMessage = 200_000
	maxSubject = 99
)

// subjectOf is a subject as SNS takes it: printable ASCII, and not too long.
func subjectOf(name, verdict string) string {
	subject := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, "icehose: "+name+" is "+verdict)
	return subject[:min(len(subject), maxSubject)]
}

// alert tells the topic.
func (c *comparison) alert(ctx context.Context, name string, o *outcome, r *reconcile.Report) error {
	var text bytes.Buffer
	fmt.Fprintf(&text, "%s is %s\n\n", name, o.Verdict)
	if err := r.WriteText(&text); err != nil {
		return err
	}
	if c.goesOn {
		text.WriteString("\nTables that are not here follow: the next run goes on with them.\n")
	}
	text.Truncate(min(text.Len(), maxMessage))
	message := strings.ToValidUTF8(text.String(), "")
	if o.Report != "" {
		message += "\n" + o.Report + "\n"
	}
	if _, err := c.topic.Publish(ctx, &sns.PublishInput{TopicArn: &c.settings.Topic, Subject: aws.String(subjectOf(name, o.Verdict)), Message: &message}); err != nil {
		return fmt.Errorf("tell topic: %w", err)
	}
	return nil
}
