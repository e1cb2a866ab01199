// Package lambdalog is the log of a Lambda function: JSON lines whose keys are
// those that Lambda's JSON log format filters by, each with the id of the
// invocation that it belongs to.
package lambdalog

import (
	"context"
	"io"
	"log/slog"

	"github.com/aws/aws-lambda-go/lambdacontext"
)

// New returns a log that writes to w.
func New(w io.Writer, level slog.Level) *slog.Logger {
	return slog.New(&requestLog{slog.NewJSONHandler(w, &slog.HandlerOptions{
		Level: level,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) > 0 {
				return a
			}
			switch a.Key {
			case slog.TimeKey:
				a.Key = "timestamp"
			case slog.MessageKey:
				a.Key = "message"
			}
			return a
		},
	})})
}

// A requestLog adds the id of the invocation that a line belongs to.
type requestLog struct{ slog.Handler }

var _ slog.Handler = (*requestLog)(nil)

// Handle implements slog.Handler.
func (h *requestLog) Handle(ctx context.Context, r slog.Record) error {
	if invocation, ok := lambdacontext.FromContext(ctx); ok {
		r.AddAttrs(slog.String("requestId", invocation.AwsRequestID)) //nolint:sloglint // the key that Lambda's own lines have
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h *requestLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &requestLog{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h *requestLog) WithGroup(name string) slog.Handler {
	return &requestLog{h.Handler.WithGroup(name)}
}
