package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	icecatalog "github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"icehose/catalog"
	"icehose/catalog/status"
	"icehose/sink"
	"icehose/sink/iceberg"
)

// observeLake reads when each table was committed last, and how far the sink is.
func (cmd *statusCmd) observeLake(ctx context.Context, env *environment, p *catalog.Pipeline, seen *status.Observed) error {
	store, err := cmd.OpenLake(ctx, iceberg.Options{ReadOnly: true, Beside: true, Log: env.log})
	if err != nil {
		return err
	}
	err = observeStore(ctx, store, p, seen)
	return errors.Join(err, store.Close())
}

func observeStore(ctx context.Context, store *iceberg.Store, p *catalog.Pipeline, seen *status.Observed) error {
	tables := store.Tables().Tables
	for _, t := range p.Tables {
		line := status.Table{Name: t.Database() + "." + t.Name()}
		current, err := tables.LoadTable(ctx, icecatalog.ToIdentifier(t.Database(), t.Name()))
		switch {
		case errors.Is(err, icecatalog.ErrNoSuchTable), errors.Is(err, icecatalog.ErrNoSuchNamespace):
			line.Missing = true
		case err != nil:
			seen.Unread = append(seen.Unread, status.Unread{Part: "table", Name: line.Name, Err: err})
			continue
		default:
			if s := current.CurrentSnapshot(); s != nil && hadRows(current) {
				line.Commit = time.UnixMilli(s.TimestampMs)
			}
		}
		seen.Tables = append(seen.Tables, line)
	}
	keeper, ok := any(store).(sink.Checkpointer)
	if !ok {
		return nil
	}
	checkpoint, err := sink.ReadCheckpoint(ctx, keeper, p)
	if err != nil || checkpoint == nil {
		return err
	}
	for _, shard := range slices.Sorted(maps.Keys(checkpoint.Shards)) {
		m := checkpoint.Shards[shard]
		seen.Shards = append(seen.Shards, status.Shard{Name: shard, Records: m.Records, Committed: m.CommittedAt, Behind: m.Behind})
	}
	return nil
}

// hadRows reports whether a table has a file or is known to have had one: a sink
// commits its notes to a table that nothing was delivered for, too.
func hadRows(t *table.Table) bool {
	return slices.ContainsFunc(t.Metadata().Snapshots(), func(s table.Snapshot) bool {
		if s.Summary == nil {
			return true
		}
		total := s.Summary.Properties["total-data-files"]
		return total != "0" || s.Summary.Properties["deleted-data-files"] != ""
	})
}

// maxReport is the size of the largest report that is read.
const maxReport = 64 << 20

// verdicts are what a report says of its tables.
type verdicts struct {
	Ended  *time.Time       `json:"ended"`
	Only   []string         `json:"only"`
	Later  []string         `json:"later"`
	Tables []status.Verdict `json:"tables"`
}

// readVerdicts reads a report of icehose reconcile --json, with --repair or
// without. It need not be one of this version: what it says of a table has not
// changed. A repair changes no verdict: the next run does.
func readVerdicts(ctx context.Context, clouds *clouds, from string) (*status.Reconcile, error) {
	r := &status.Reconcile{From: from}
	var text []byte
	var err error
	if strings.HasPrefix(from, "s3://") {
		text, err = newestReport(ctx, clouds, r)
	} else {
		text, err = os.ReadFile(from)
		if info, statErr := os.Stat(from); statErr == nil {
			r.At = info.ModTime()
		}
	}
	if err != nil {
		return nil, err
	}
	var read struct {
		verdicts
		Repaired *verdicts `json:"report"`
	}
	if err := json.Unmarshal(text, &read); err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	report := read.verdicts
	if read.Repaired != nil {
		report = *read.Repaired
	}
	if len(report.Tables) == 0 {
		return nil, errors.New("read report: no tables in it: want what icehose reconcile --json prints")
	}
	if report.Ended != nil {
		r.At = *report.Ended
	}
	r.Tables, r.Only, r.Later = report.Tables, report.Only, report.Later
	return r, nil
}

// newestReport reads the newest report below a prefix.
func newestReport(ctx context.Context, clouds *clouds, r *status.Reconcile) ([]byte, error) {
	place, err := url.Parse(r.From)
	if err != nil || place.Host == "" {
		return nil, fmt.Errorf("want s3://bucket/prefix, got %q", r.From)
	}
	store, err := clouds.objects(ctx)
	if err != nil {
		return nil, err
	}
	var key string
	pages := s3.NewListObjectsV2Paginator(store, &s3.ListObjectsV2Input{Bucket: &place.Host, Prefix: aws.String(strings.TrimPrefix(place.Path, "/"))})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("list reports: %w", err)
		}
		for _, o := range page.Contents {
			if path.Ext(aws.ToString(o.Key)) != ".json" {
				continue
			}
			if at := aws.ToTime(o.LastModified); cmp.Or(at.Compare(r.At), strings.Compare(*o.Key, key)) > 0 {
				key, r.At = *o.Key, at
			}
		}
	}
	if key == "" {
		return nil, errors.New("no report there yet")
	}
	out, err := store.GetObject(ctx, &s3.GetObjectInput{Bucket: &place.Host, Key: &key})
	if err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(out.Body, maxReport))
	if err = errors.Join(err, out.Body.Close()); err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	r.From = "s3://" + place.Host + "/" + key
	return text, nil
}
