package main

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"
)

const (
	// logAlike is how many records that fail alike are logged one by one.
	logAlike = 10
	// logAgainAfter is after how long they are logged again: a run that follows
	// goes on for weeks.
	logAgainAfter = time.Hour
)

// A likeness is what records have in common that are logged alike. There are no
// more of them than reasons and tables of the pipeline file.
type likeness struct {
	reason, table string
	kept          string // the file that has all of them, if there is one
}

func (l *likeness) attrs(more ...slog.Attr) []slog.Attr {
	attrs := append([]slog.Attr{slog.String("reason", l.reason), slog.String("table", l.table)}, more...)
	if l.kept != "" {
		attrs = append(attrs, slog.String("all_in", l.kept))
	}
	return attrs
}

// A recordLog counts what is logged about records, so that wrong input fills
// neither the terminal nor the disk: one by one only the first of those alike.
type recordLog struct {
	log  *slog.Logger
	now  func() time.Time
	seen map[likeness]*alike
}

type alike struct {
	since time.Time // of the first that was logged
	shown int       // since then
	all   int64     // of the run
	quiet int64     // of all, not logged
}

// shows says whether one more record is to be logged, and once that no more are.
func (l *recordLog) shows(ctx context.Context, like likeness) bool {
	s := l.seen[like]
	if s == nil {
		s = &alike{}
		l.seen[like] = s
	}
	if now := l.now(); s.shown == 0 || now.Sub(s.since) >= logAgainAfter {
		s.since, s.shown = now, 0
	}
	s.all++
	s.shown++
	if s.shown <= logAlike {
		return true
	}
	s.quiet++
	if s.shown == logAlike+1 {
		until := slog.String("until", s.since.Add(logAgainAfter).UTC().Format(time.RFC3339))
		l.log.LogAttrs(ctx, slog.LevelWarn, "more records alike are not logged", like.attrs(until)...)
	}
	return false
}

// end logs how many records were alike where not all were logged.
func (l *recordLog) end(ctx context.Context) {
	byTable := func(a, b likeness) int { return cmp.Or(cmp.Compare(a.table, b.table), cmp.Compare(a.reason, b.reason)) }
	for _, like := range slices.SortedFunc(maps.Keys(l.seen), byTable) {
		if s := l.seen[like]; s.quiet > 0 {
			l.log.LogAttrs(ctx, slog.LevelWarn, "records alike", like.attrs(slog.Int64("records", s.all), slog.Int64("not_logged", s.quiet))...)
		}
	}
}
