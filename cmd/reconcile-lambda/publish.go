package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
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

// publish logs the verdicts and tells of them, unless the next run will. The
// checkpoint of what was told is removed.
func (c *comparison) publish(ctx context.Context) (*outcome, error) {
	run := history.Of(c.report)
	o := &outcome{
		Verdict: string(run.Verdict), Tables: run.Tables, Different: run.Different, Inconclusive: run.Inconclusive, Findings: run.Findings,
		Seconds: run.Ended.Sub(run.Began).Seconds(), status: c.report.ExitStatus(),
	}
	for i := range c.report.Tables {
		if t := &c.report.Tables[i]; t.Verdict != reconcile.Inconclusive || !c.goesOn {
			c.logTable(ctx, t)
		}
	}
	var err error
	if c.goesOn && run.Verdict != reconcile.Different {
		o.Verdict = unfinished
	} else {
		err = c.tell(ctx, o)
	}
	c.log.LogAttrs(ctx, levelOf(run.Verdict), "run ended", slog.String("run_verdict", o.Verdict), slog.Int("tables", o.Tables), slog.Int("different", o.Different),
		slog.Int("inconclusive", o.Inconclusive), slog.Uint64("findings", o.Findings), slog.Float64("seconds", o.Seconds), slog.String("report", o.Report))
	return o, errors.Join(err, c.forget(ctx))
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

// tell publishes the outcome everywhere. What fails keeps nothing else from
// being told; the page, which reads the history, comes last.
func (c *comparison) tell(ctx context.Context, o *outcome) error {
	s := c.settings
	database := job.Database(c.pipeline)
	name := cmp.Or(s.Name, database)
	var errs []error
	if s.MetricsNamespace != "" {
		errs = append(errs, emf.Write(c.stdout, s.MetricsNamespace, database, c.report.Ended, c.report))
	}
	file := c.report.Ended.UTC().Format("20060102T150405.000Z")
	if s.report != (prefix{}) {
		text, err := json.MarshalIndent(c.report, "", "  ")
		if err == nil {
			err = c.put(ctx, s.report, file+".json", "application/json", append(text, '\n'))
		}
		if err == nil {
			o.Report = s.report.uri(file + ".json")
		}
		errs = append(errs, err)
	}
	if s.Topic != "" && c.report.Verdict() != reconcile.Equal {
		errs = append(errs, c.alert(ctx, name, o))
	}
	remembered := false
	if s.History {
		err := job.Remember(ctx, &s.Flags, database, c.report)
		remembered = err == nil
		errs = append(errs, err)
	}
	if s.report != (prefix{}) {
		page, err := job.Page(ctx, c.store.Tables(), database, name, c.report, remembered)
		if err == nil {
			err = c.put(ctx, s.report, file+".html", "text/html; charset=utf-8", page)
		}
		if err == nil {
			o.Page = s.report.uri(file + ".html")
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// What SNS takes, in bytes: of a message, which also names the report's place, 256 KB.
const (
	maxMessage = 200_000
	maxSubject = 99
)

// alert tells the topic.
func (c *comparison) alert(ctx context.Context, name string, o *outcome) error {
	var text bytes.Buffer
	if err := c.report.WriteText(&text); err != nil {
		return err
	}
	text.Truncate(min(text.Len(), maxMessage))
	message := strings.ToValidUTF8(text.String(), "")
	if o.Report != "" {
		message += "\n" + o.Report + "\n"
	}
	subject := "icehose: " + name + " is " + o.Verdict
	if _, err := c.topic.Publish(ctx, &sns.PublishInput{TopicArn: &c.settings.Topic, Subject: aws.String(subject[:min(len(subject), maxSubject)]), Message: &message}); err != nil {
		return fmt.Errorf("tell topic: %w", err)
	}
	return nil
}
