package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"icehose/transform/redrive"
)

// maxUnplaced is how many objects whose table cannot be told are named.
const maxUnplaced = 10

// printText prints the plan for people: groups by action, each action with
// what it means.
func (p *redrivePlan) printText(w io.Writer, cmd *redriveCmd, groups []redriveGroup) error {
	var b strings.Builder
	var cells strings.Builder
	cells.WriteString("action\tfailures\tkind\terror code\ttable\treason now\tfirst arrived\n")
	for _, g := range groups {
		reason := string(g.Reason)
		if g.Column != "" {
			reason += ", column " + g.Column
		}
		fmt.Fprintf(&cells, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", g.Action, thousands(g.Failures), g.Kind, cmp.Or(g.Code, "-"), cmp.Or(g.Table, "-"),
			cmp.Or(reason, "-"), cmp.Or(g.First, "-"))
	}
	if err := align(&b, cells.String()); err != nil {
		return err
	}
	b.WriteByte('\n')
	for _, action := range []redrive.Action{
		redrive.Send, redrive.Reconcile, redrive.WriteRow, redrive.Repair, redrive.Unclear, redrive.Nothing, redrive.Repeated,
	} {
		if n := p.actions[action]; n > 0 {
			fmt.Fprintf(&b, "%s %s: %s\n", thousands(n), action, p.meaning(action, cmd))
		}
	}
	if p.rejected > 0 {
		fmt.Fprintf(&b, "%s rejected by %s, which takes no record of its size (with its partition key) or form: raise the stream's record limit (up to 10 MiB) "+
			"and remove the lines that begin with \"rejected\" from %s, or load the rows again at the source; such as: %s\n",
			thousands(p.rejected), cmd.Stream, cmd.Progress, strings.Join(p.rejects, ", "))
	}
	for _, code := range slices.Sorted(maps.Keys(p.refused)) {
		fmt.Fprintf(&b, "%s refused by %s 8 times (%s) and set aside: run it again, with a lower --rate\n", thousands(p.refused[code]), cmd.Stream, code)
	}
	for _, u := range p.unplaced[:min(len(p.unplaced), maxUnplaced)] {
		fmt.Fprintf(&b, "many_table: %s rows of %s, from line %d on, may be of any of %s: put the file into a folder tables/DATABASE.TABLE\n",
			thousands(u.Rows), u.Object, u.Line, strings.Join(u.Tables, ", "))
	}
	if more := len(p.unplaced) - maxUnplaced; more > 0 {
		fmt.Fprintf(&b, "many_table: %s more objects; --json names them\n", thousands(int64(more)))
	}
	if len(groups) == 0 {
		b.WriteString("no error objects\n")
	}
	said := make(map[string]bool)
	for _, g := range groups {
		if h := hint(g.Reason); h != "" && g.Action == redrive.Repair && !said[h] {
			said[h] = true
			fmt.Fprintf(&b, "%s: %s\n", g.Reason, h)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// meaning says what an action means for the person at the screen.
func (p *redrivePlan) meaning(a redrive.Action, cmd *redriveCmd) string {
	switch a {
	case redrive.Send:
		switch {
		case !cmd.Send:
			return "the transform takes these changelog records now; nothing was sent: --send --stream NAME does it"
		case p.sent < p.actions[redrive.Send]:
			return fmt.Sprintf("%s sent to %s, %s had been sent before", thousands(p.sent), cmd.Stream, thousands(p.skipped))
		}
		return "sent to " + cmd.Stream
	case redrive.Reconcile:
		if cmd.Keys != "" {
			return fmt.Sprintf("rows of mirrors, never sent late; keys are in %s for icehose reconcile --keys %s", cmd.Keys, cmd.Keys)
		}
		return "rows of mirrors, never sent late: --keys FILE writes their keys for icehose reconcile"
	case redrive.WriteRow:
		if cmd.AsRows != "" {
			return "changelog rows that Iceberg refused, written to " + cmd.AsRows
		}
		return "changelog rows that Iceberg refused; they are no records of the source stream: --as-rows FILE writes them out"
	case redrive.Repair:
		return "the transform still refuses these: remove the cause first"
	case redrive.Unclear:
		if cmd.Pipeline == "" {
			return "give --pipeline to see what can be done"
		}
		return "no table can be told for these: look at the objects"
	case redrive.Nothing:
		return "the transform drops these now: nothing to do"
	case redrive.Repeated:
		return "the same bytes failed before: counted once above"
	}
	return ""
}
