package iceberg_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	lake "icehose/catalog/iceberg"
	"icehose/cdc"
	"icehose/sink"
	"icehose/sink/iceberg"
	"icehose/sink/sinktest"
)

// cutTables are a mirror in each delete format, and a changelog.
func cutTables() map[string]string {
	return map[string]string{
		"equality deletes": errorPipeline("spark", ""), "copy on write": errorPipeline("pyiceberg", ""),
		"changelog": strings.NewReplacer("mode: mirror", "mode: changelog").Replace(errorPipeline("spark", "")),
	}
}

// A cutLake is a lake that changes are written to in several runs of a sink.
type cutLake struct {
	dir, pipeline string
}

func (l *cutLake) isChangelog() bool { return strings.Contains(l.pipeline, "mode: changelog") }

// open opens the lake's sink.
func (l *cutLake) open(ctx context.Context, t *testing.T) (*iceberg.Store, *sink.Sink, error) {
	t.Helper()
	store, err := iceberg.Open(ctx, l.dir, iceberg.Options{Sync: unsynced})
	if err != nil {
		return nil, nil, err
	}
	s, err := sink.Open(ctx, sinktest.Pipeline(t, l.pipeline), store, sink.Options{})
	if err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	return store, s, nil
}

// deliver commits changes up to the number n: of ten rows, one after the other.
func (l *cutLake) deliver(ctx context.Context, s *sink.Sink, n int) error {
	var stream []sink.Delivery
	for i := range n {
		row := &sink.Row{Database: "lake", Table: "item", Operation: cdc.Update}
		row.Data = fmt.Appendf(nil, `{"id":%d,"v":"%d","cdc_position":"%s","cdc_committed_at":null`, i%10, i, cdc.ChangePosition(0, cdc.Body{Lo: uint64(i)}, 0))
		if l.isChangelog() {
			row.Operation = cdc.Insert
			row.Data = append(row.Data, `,"cdc_operation":"update","cdc_old_key":null,"cdc_absent":null`...)
		}
		row.Data = append(row.Data, '}')
		stream = append(stream, sink.Delivery{Offset: sink.Offset{Shard: "s", Sequence: strconv.Itoa(i), Ordinal: uint64(i)}, Row: row})
	}
	if err := s.Deliver(ctx, stream); err != nil {
		return err
	}
	return s.Flush(ctx)
}

// run is a run of a sink that commits the changes up to the number n.
func (l *cutLake) run(ctx context.Context, t *testing.T, n int) error {
	t.Helper()
	store, s, err := l.open(ctx, t)
	if err != nil {
		return err
	}
	if err = l.deliver(ctx, s, n); err == nil {
		err = s.Close(ctx)
	}
	return errors.Join(err, store.Close())
}

// check compares the rows with the changes up to the number n.
func (l *cutLake) check(t *testing.T, n int) {
	t.Helper()
	store := open(t, l.dir)
	defer closeStore(t, store)
	def := sinktest.Pipeline(t, l.pipeline).ByTarget("lake", "item")
	table, err := store.OpenTable(t.Context(), def)
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, row := range sinktest.Contents(t.Context(), t, table, def) {
		got = append(got, row[0]+" "+row[1])
	}
	for i := range n {
		if i >= n-10 || l.isChangelog() {
			want = append(want, fmt.Sprintf("%d %d", i%10, i))
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

// newest returns the files of a lake that its newest snapshot names: the list,
// and the manifests.
func (l *cutLake) newest(t *testing.T) (list string, manifests []string) {
	t.Helper()
	store := open(t, l.dir)
	defer closeStore(t, store)
	w := &workload{t: t, store: store}
	current, files := w.manifests()
	for _, m := range files {
		manifests = append(manifests, onDisk(m.FilePath()))
	}
	return onDisk(current.CurrentSnapshot().ManifestList), manifests
}

// boundaries returns where blocks of an Avro file end, the header's end among them,
// and one place inside of a block.
func boundaries(t *testing.T, whole []byte) (cuts []int) {
	t.Helper()
	marker := whole[len(whole)-16:]
	for at := 0; ; {
		i := bytes.Index(whole[at:], marker)
		if at += i + len(marker); i < 0 || at == len(whole) {
			break
		}
		cuts = append(cuts, at)
	}
	if len(cuts) == 0 {
		t.Fatalf("no block in %d bytes", len(whole))
	}
	return append(cuts, cuts[0]+(len(whole)-cuts[0])/2)
}

// A list or a manifest that was cut, behind a block or in it, is refused with an
// error that names it, or does no harm: what is committed has all rows once the
// file is back.
func TestCutFilesAndRestart(t *testing.T) {
	t.Parallel()
	for name, pipeline := range cutTables() {
		for _, running := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/running=%t", name, running), func(t *testing.T) {
				t.Parallel()
				refused := 0
				for n := 0; ; n++ { // of the files: the list first
					l := &cutLake{dir: t.TempDir(), pipeline: pipeline}
					more, bad := l.cutEach(t, n, running)
					if refused += bad; !more {
						break
					}
				}
				if refused < 2 {
					t.Errorf("%d were refused, the list at least must be", refused)
				}
			})
		}
	}
}

// cutEach cuts a file everywhere, and goes on each time.
func (l *cutLake) cutEach(t *testing.T, n int, running bool) (more bool, refused int) {
	t.Helper()
	at := 20
	for _, changes := range []int{10, 15, at} {
		if err := l.run(t.Context(), t, changes); err != nil {
			t.Fatal(err)
		}
	}
	for cut := 0; ; cut++ {
		list, manifests := l.newest(t)
		files := append([]string{list}, manifests...)
		if n >= len(files) {
			return false, refused
		}
		whole, err := os.ReadFile(files[n])
		if err != nil {
			t.Fatal(err)
		}
		places := boundaries(t, whole)
		if cut >= len(places) {
			return true, refused
		}
		bad, err := l.cutOnce(t, files[n], whole[:places[cut]], at, running)
		if err != nil {
			refused++
			if !errors.Is(err, lake.ErrDamaged) || !strings.Contains(err.Error(), files[n]) || !strings.Contains(err.Error(), "restore it") {
				t.Errorf("error does not name %s: %v", files[n], err)
			}
			oneLine(t, err)
		} else if n == 0 {
			t.Errorf("a cut list was committed upon: %s", bad)
		}
		if err := os.WriteFile(files[n], whole, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := l.run(t.Context(), t, at+5); err != nil {
			t.Fatal(err)
		}
		at += 5
		l.check(t, at)
	}
}

// cutOnce cuts a file and commits five changes, in a sink that runs already or in
// a new one.
func (l *cutLake) cutOnce(t *testing.T, file string, content []byte, at int, running bool) (name string, err error) {
	t.Helper()
	name = filepath.Base(file)
	if !running {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		before := l.commits(t)
		if err = l.run(t.Context(), t, at+5); err != nil && l.commits(t) != before {
			t.Errorf("%s: committed beside %v", name, err)
		}
		return name, err
	}
	store, s, err := l.open(t.Context(), t)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	err = l.deliver(t.Context(), s, at+5)
	return name, errors.Join(err, store.Close())
}

// commits counts the versions of the metadata.
func (l *cutLake) commits(t *testing.T) (n int) {
	t.Helper()
	for _, path := range listing(t, l.dir) {
		if strings.HasSuffix(path, ".metadata.json") {
			n++
		}
	}
	return n
}
