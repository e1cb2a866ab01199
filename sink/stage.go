package sink

import (
	"context"
	"crypto/rand"
	"log/slog"
)

// A stage is the rows of a buffer whose files are being written, or are written,
// before the commit that they are for.
type stage struct {
	id      string // of the commit
	changes int    // that the buffer had
	inserts Rows
	deletes Rows
	written func() // waits until nothing is written any more; nil for never begun
}

// wait waits until nothing is written any more.
func (g *stage) wait() {
	if g != nil && g.written != nil {
		g.written()
	}
}

// stage lets the files of w's next commit be written while another commit is on
// its way, whose last steps keep no processor busy. Whether it went well is for
// the store to know: its Commit writes what is missing.
func (s *Sink) stage(ctx context.Context, w *writer) {
	store, ok := w.store.(Stager)
	if !ok || s.air == nil || w.flight != nil && !s.flies(w) || len(w.changes) == 0 {
		return
	}
	g := w.arranged()
	if g.written != nil {
		return // that of a call before this one, which failed
	}
	w.staged = g
	g.written = s.options.Beside(func() {
		if err := store.Stage(ctx, &Batch{ID: g.id, Inserts: g.inserts, Deletes: g.deletes}); err != nil {
			w.log.InfoContext(ctx, "files not written ahead", slog.String("table", w.name()), slog.String("error", err.Error()))
		}
	})
}

// arranged returns the rows of the buffer as its commit has them: those of the
// stage, if there is one of all that the buffer has. One that lacks some is over
// first: it reads the buffer, which somebody else gets after its commit.
func (w *writer) arranged() *stage {
	if g := w.staged; g != nil && g.changes == len(w.changes) {
		return g
	}
	w.staged.wait()
	g := &stage{id: rand.Text(), changes: len(w.changes)}
	g.inserts = Rows{data: w.data, width: len(w.columns), starts: make([]int, 0, len(w.changes))}
	g.deletes = Rows{data: w.data, width: len(w.columns), pick: w.key}
	for i := range w.changes {
		g.place(&w.changes[i])
	}
	return g
}

// place puts a change among the rows. An equality delete does not touch rows of
// its own commit, so an update is a delete and an insert of the same key.
func (g *stage) place(c *change) {
	if c.collapsed {
		return
	}
	if c.live {
		g.deletes.starts = append(g.deletes.starts, c.start)
	}
	if !c.deletes {
		g.inserts.starts = append(g.inserts.starts, c.start)
	}
}
